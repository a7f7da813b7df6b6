//! Data sets made from others: mapped, augmented, chosen from, joined, paired.

use crate::{Dataset, Rng, dataset::outside};
use gradus_core::{Error, Result};

/// See [`Dataset::map`].
#[derive(Clone, Debug)]
pub struct Map<D, F> {
    inner: D,
    f: F,
}

impl<D, F> Map<D, F> {
    pub(crate) fn new(inner: D, f: F) -> Map<D, F> {
        Map { inner, f }
    }
}

impl<D, T, F> Dataset for Map<D, F>
where
    D: Dataset,
    T: Send + 'static,
    F: Fn(D::Item) -> Result<T> + Send + Sync,
{
    type Item = T;
    fn len(&self) -> usize {
        self.inner.len()
    }
    fn get(&self, index: usize) -> Result<T> {
        (self.f)(self.inner.get(index)?)
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<T> {
        (self.f)(self.inner.sample(index, rng)?)
    }
}

/// See [`Dataset::augment`].
#[derive(Clone, Debug)]
pub struct Augment<D, F> {
    inner: D,
    f: F,
}

impl<D, F> Augment<D, F> {
    pub(crate) fn new(inner: D, f: F) -> Augment<D, F> {
        Augment { inner, f }
    }
}

impl<D, T, F> Dataset for Augment<D, F>
where
    D: Dataset,
    T: Send + 'static,
    F: Fn(D::Item, &mut Rng) -> Result<T> + Send + Sync,
{
    type Item = T;
    fn len(&self) -> usize {
        self.inner.len()
    }
    /// Outside a loader there is no epoch: each index has one draw of its own.
    fn get(&self, index: usize) -> Result<T> {
        self.sample(index, &mut Rng::new(0, index as u64))
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<T> {
        let item = self.inner.sample(index, rng)?;
        (self.f)(item, rng)
    }
}

/// See [`Dataset::subset`].
#[derive(Clone, Debug)]
pub struct Subset<D> {
    inner: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    #[track_caller]
    pub(crate) fn new(inner: D, indices: Vec<usize>) -> Result<Subset<D>> {
        match indices.iter().find(|&&i| i >= inner.len()) {
            Some(&bad) => Err(outside("subset", bad, inner.len())),
            None => Ok(Subset { inner, indices }),
        }
    }

    /// The indices into the whole.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    fn place(&self, index: usize) -> Result<usize> {
        self.indices.get(index).copied().ok_or_else(|| outside("get", index, self.indices.len()))
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get(&self, index: usize) -> Result<D::Item> {
        self.inner.get(self.place(index)?)
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<D::Item> {
        self.inner.sample(self.place(index)?, rng)
    }
}

/// See [`Dataset::concat`].
#[derive(Clone, Debug)]
pub struct Concat<A, B> {
    first: A,
    second: B,
}

impl<A, B> Concat<A, B> {
    pub(crate) fn new(first: A, second: B) -> Concat<A, B> {
        Concat { first, second }
    }
}

impl<A: Dataset, B: Dataset<Item = A::Item>> Dataset for Concat<A, B> {
    type Item = A::Item;
    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }
    fn get(&self, index: usize) -> Result<A::Item> {
        match index.checked_sub(self.first.len()) {
            None => self.first.get(index),
            Some(rest) if rest < self.second.len() => self.second.get(rest),
            Some(_) => Err(outside("get", index, self.len())),
        }
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<A::Item> {
        match index.checked_sub(self.first.len()) {
            None => self.first.sample(index, rng),
            Some(rest) if rest < self.second.len() => self.second.sample(rest, rng),
            Some(_) => Err(outside("get", index, self.len())),
        }
    }
}

/// See [`Dataset::zip`].
#[derive(Clone, Debug)]
pub struct Zip<A, B> {
    first: A,
    second: B,
}

impl<A: Dataset, B: Dataset> Zip<A, B> {
    #[track_caller]
    pub(crate) fn new(first: A, second: B) -> Result<Zip<A, B>> {
        if first.len() != second.len() {
            let why = format!("{} items cannot be paired with {}", first.len(), second.len());
            return Err(Error::value("zip", why).hint("cut the longer one with subset"));
        }
        Ok(Zip { first, second })
    }
}

impl<A: Dataset, B: Dataset> Dataset for Zip<A, B> {
    type Item = (A::Item, B::Item);
    fn len(&self) -> usize {
        self.first.len()
    }
    fn get(&self, index: usize) -> Result<Self::Item> {
        Ok((self.first.get(index)?, self.second.get(index)?))
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<Self::Item> {
        Ok((self.first.sample(index, rng)?, self.second.sample(index, rng)?))
    }
}
