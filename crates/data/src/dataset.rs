//! Data sets: a length, and an item for each index.

use crate::{
    Rng,
    adapt::{Augment, Concat, Map, Subset, Zip},
    image::Image,
    split,
    transform::{Transform, Transformed},
};
use gradus_core::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Items by index, as PyTorch's map-style `Dataset`.
///
/// ```
/// use gradus_data::Dataset;
/// struct Squares;
/// impl Dataset for Squares {
///     type Item = i64;
///     fn len(&self) -> usize { 100 }
///     fn get(&self, index: usize) -> gradus_core::Result<i64> { Ok((index * index) as i64) }
/// }
/// let even = Squares.map(|x| Ok(x * 2)).filter(|x| x % 4 == 0)?;
/// assert_eq!((even.len(), even.get(1)?), (50, 8));
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// What an index gives: anything; what a loader puts into batches is [`crate::Collate`].
    type Item: Send + 'static;

    /// How many items there are.
    fn len(&self) -> usize;

    /// The item at an index, the same every time. An index beyond the end is an error.
    fn get(&self, index: usize) -> Result<Self::Item>;

    /// The item at an index for one place in one epoch: what is random in it comes from `rng` alone.
    ///
    /// Loaders call this, with numbers that depend on seed, epoch and place, so that any number of workers gives the
    /// same items. Data sets without chance leave it as it is.
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<Self::Item> {
        let _ = rng;
        self.get(index)
    }

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each item through a function.
    fn map<T, F>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
        T: Send + 'static,
        F: Fn(Self::Item) -> Result<T> + Send + Sync,
    {
        Map::new(self, f)
    }

    /// Each item through a function that may use chance: another draw each epoch, the same for the same seed.
    ///
    /// ```
    /// use gradus_data::{Dataset, Items, Rng};
    /// let noisy = Items(vec![1.0f64, 2.0]).augment(|x, rng| Ok(x + rng.range(-0.1, 0.1)));
    /// let (a, b) = (noisy.sample(0, &mut Rng::new(7, 0))?, noisy.sample(0, &mut Rng::new(7, 1))?);
    /// assert!(a != b && (a - 1.0).abs() < 0.1);
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    fn augment<T, F>(self, f: F) -> Augment<Self, F>
    where
        Self: Sized,
        T: Send + 'static,
        F: Fn(Self::Item, &mut Rng) -> Result<T> + Send + Sync,
    {
        Augment::new(self, f)
    }

    /// The items that pass, found now by looking at each once.
    fn filter(self, keep: impl Fn(&Self::Item) -> bool) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        let mut indices = vec![];
        for i in 0..self.len() {
            if keep(&self.get(i)?) {
                indices.push(i);
            }
        }
        Subset::new(self, indices)
    }

    /// The items at these indices, in this order; an index may come more than once.
    #[track_caller]
    fn subset(self, indices: impl Into<Vec<usize>>) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        Subset::new(self, indices.into())
    }

    /// Consecutive parts of these lengths, which must add up to the whole.
    ///
    /// ```
    /// use gradus_data::{Dataset, Items};
    /// let parts = Items(vec![1, 2, 3, 4, 5]).split(&[3, 2])?;
    /// assert_eq!((parts[0].get(2)?, parts[1].get(0)?), (3, 4));
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    fn split(self, lengths: &[usize]) -> Result<Vec<Subset<Arc<Self>>>>
    where
        Self: Sized,
    {
        let order = (0..self.len()).collect();
        split::cut(self, order, lengths)
    }

    /// Parts of these lengths with items drawn at random, the same for the same seed; each item is in one part.
    #[track_caller]
    fn random_split(self, lengths: &[usize], seed: u64) -> Result<Vec<Subset<Arc<Self>>>>
    where
        Self: Sized,
    {
        let order = Rng::new(seed, split::STREAM).permutation(self.len());
        split::cut(self, order, lengths)
    }

    /// As [`Dataset::random_split`], by fractions that add up to 1; what does not divide goes to the first parts,
    /// one item each, as in PyTorch.
    #[track_caller]
    fn random_split_fractions(self, fractions: &[f64], seed: u64) -> Result<Vec<Subset<Arc<Self>>>>
    where
        Self: Sized,
    {
        let lengths = split::lengths(self.len(), fractions)?;
        self.random_split(&lengths, seed)
    }

    /// The items of this one, then those of the other.
    fn concat<D: Dataset<Item = Self::Item>>(self, other: D) -> Concat<Self, D>
    where
        Self: Sized,
    {
        Concat::new(self, other)
    }

    /// Pairs of an item of this one and the item of the other at the same index; lengths must agree.
    #[track_caller]
    fn zip<D: Dataset>(self, other: D) -> Result<Zip<Self, D>>
    where
        Self: Sized,
    {
        Zip::new(self, other)
    }

    /// For images with labels: each image through a [`Transform`], another draw each epoch.
    fn transform<L, T>(self, transform: T) -> Transformed<Self, T>
    where
        Self: Sized + Dataset<Item = (Image, L)>,
        T: Transform,
    {
        Transformed::new(self, transform)
    }
}

/// An index beyond the end.
#[track_caller]
pub(crate) fn outside(op: &str, index: usize, size: usize) -> Error {
    Error::new(op, ErrorKind::Index { index: index as i64, size, why: " of the data set".into() })
}

/// A vector as a data set. (Vectors themselves are none: their own `get` would hide behind the trait's.)
///
/// ```
/// use gradus_data::{Dataset, Items};
/// assert_eq!(Items(vec![7, 8]).concat(Items(vec![9])).get(2)?, 9);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items<T>(pub Vec<T>);

impl<T: Clone + Send + Sync + 'static> Dataset for Items<T> {
    type Item = T;
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Result<T> {
        self.0.get(index).cloned().ok_or_else(|| outside("get", index, self.0.len()))
    }
}

impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<D::Item> {
        (**self).sample(index, rng)
    }
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, index: usize) -> Result<D::Item> {
        (**self).get(index)
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<D::Item> {
        (**self).sample(index, rng)
    }
}
