//! Batches of a data set, epoch after epoch, with a position that can be kept and returned to.

mod batches;
mod state;

use crate::{Collate, Dataset, Rng, Sampler};
use gradus_core::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard};

pub use batches::Batches;
pub use state::LoaderState;

/// How a loader makes batches; the names and defaults are PyTorch's.
#[derive(Clone, Debug, PartialEq)]
pub struct LoaderOptions {
    /// Items a batch.
    pub batch_size: usize,
    /// Whether each epoch has a random order of its own.
    pub shuffle: bool,
    /// The order, when it is another one; not together with `shuffle`.
    pub sampler: Option<Sampler>,
    /// Threads that make batches ahead; 0 makes each when it is asked for. The batches are the same.
    pub num_workers: usize,
    /// Batches that each worker makes ahead.
    pub prefetch_factor: usize,
    /// Whether a last batch that is not full is left out.
    pub drop_last: bool,
    /// Names the orders and the draws of augmentation: the same on every machine.
    pub seed: u64,
}

impl Default for LoaderOptions {
    fn default() -> LoaderOptions {
        LoaderOptions {
            batch_size: 1,
            shuffle: false,
            sampler: None,
            num_workers: 0,
            prefetch_factor: 2,
            drop_last: false,
            seed: 0,
        }
    }
}

type CollateFn<I, B> = dyn Fn(Vec<I>) -> Result<B> + Send + Sync;

/// What workers share.
struct Source<D: Dataset, B> {
    data: D,
    collate: Box<CollateFn<D::Item, B>>,
    options: LoaderOptions,
    sampler: Sampler,
    position: Mutex<LoaderState>,
}

/// Batches of a data set.
///
/// A loader is a place in an endless row of batches. [`DataLoader::iter`] gives the rest of the present epoch and then
/// moves on to the next one; an iterator dropped early leaves the place where it is. [`DataLoader::state`] is that place,
/// and a loader that is [restored](DataLoader::restore) to it gives the same remaining batches, bit for bit.
///
/// ```
/// use gradus_data::{DataLoader, Items, LoaderOptions};
/// let options = LoaderOptions { batch_size: 4, shuffle: true, seed: 1, ..LoaderOptions::default() };
/// let loader = DataLoader::new(Items((0..10i64).collect()), options)?;
/// assert_eq!(loader.len(), 3);
/// for epoch in 0..2 {
///     for batch in &loader {
///         println!("{epoch}: {:?}", batch?.to_vec::<i64>()?);
///     }
/// }
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct DataLoader<D: Dataset, B> {
    source: Arc<Source<D, B>>,
}

impl<D: Dataset> DataLoader<D, <D::Item as Collate>::Batch>
where
    D::Item: Collate,
{
    /// A loader whose batches are what the items [`Collate`] to.
    #[track_caller]
    pub fn new(data: D, options: LoaderOptions) -> Result<Self> {
        DataLoader::with_collate(data, options, Collate::collate)
    }
}

impl<D: Dataset, B> DataLoader<D, B> {
    /// A loader with a function of your own that puts items together.
    ///
    /// ```
    /// use gradus_data::{DataLoader, Items, LoaderOptions};
    /// let words = Items(vec!["to", "be", "or"]);
    /// let options = LoaderOptions { batch_size: 2, ..LoaderOptions::default() };
    /// let loader = DataLoader::with_collate(words, options, |items: Vec<&str>| Ok(items.join(" ")))?;
    /// let lines = loader.iter().collect::<gradus_core::Result<Vec<_>>>()?;
    /// assert_eq!(lines, ["to be", "or"]);
    /// # Ok::<(), gradus_core::Error>(())
    /// ```
    #[track_caller]
    pub fn with_collate(
        data: D,
        options: LoaderOptions,
        collate: impl Fn(Vec<D::Item>) -> Result<B> + Send + Sync + 'static,
    ) -> Result<Self> {
        let wrong = |why: &str| Err(Error::value("DataLoader", why));
        if options.batch_size == 0 {
            return wrong("batch_size must be at least 1");
        }
        if options.num_workers > 0 && options.prefetch_factor == 0 {
            return wrong("prefetch_factor must be at least 1 with workers");
        }
        let sampler = match (&options.sampler, options.shuffle) {
            (Some(_), true) => return wrong("shuffle and a sampler exclude each other"),
            (Some(s), false) => s.clone(),
            (None, true) => Sampler::Random,
            (None, false) => Sampler::Sequential,
        };
        sampler.check(data.len())?;
        let position = Mutex::new(LoaderState { seed: options.seed, epoch: 0, batch: 0 });
        Ok(DataLoader { source: Arc::new(Source { data, collate: Box::new(collate), options, sampler, position }) })
    }

    /// Batches an epoch.
    pub fn len(&self) -> usize {
        self.source.batches()
    }

    /// Whether an epoch has no batches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data set.
    pub fn dataset(&self) -> &D {
        &self.source.data
    }

    /// How batches are made.
    pub fn options(&self) -> &LoaderOptions {
        &self.source.options
    }

    /// The place: what has been given out, for a checkpoint.
    pub fn state(&self) -> LoaderState {
        *self.source.position()
    }

    /// Moves to a place; iterators that are under way keep to theirs. A state beyond the end of its epoch is an error.
    #[track_caller]
    pub fn restore(&self, state: LoaderState) -> Result<()> {
        if state.batch > self.len() as u64 {
            let why = format!("the state stands at batch {}, and an epoch has {}", state.batch, self.len());
            return Err(
                Error::value("restore", why).hint("the data set or the batch size differs from the saved run's")
            );
        }
        *self.source.position() = state;
        Ok(())
    }

    /// Moves to the start of an epoch.
    pub fn set_epoch(&self, epoch: u64) {
        let mut at = self.source.position();
        *at = LoaderState { epoch, batch: 0, ..*at };
    }
}

impl<D: Dataset + 'static, B: Send + 'static> DataLoader<D, B> {
    /// The rest of the present epoch.
    pub fn iter(&self) -> Batches<'_, D, B> {
        Batches::new(self)
    }
}

impl<'a, D: Dataset + 'static, B: Send + 'static> IntoIterator for &'a DataLoader<D, B> {
    type Item = Result<B>;
    type IntoIter = Batches<'a, D, B>;
    fn into_iter(self) -> Batches<'a, D, B> {
        self.iter()
    }
}

impl<D: Dataset, B> Source<D, B> {
    fn position(&self) -> MutexGuard<'_, LoaderState> {
        self.position.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn batches(&self) -> usize {
        let items = self.sampler.len(self.data.len());
        match self.options.drop_last {
            true => items / self.options.batch_size,
            false => items.div_ceil(self.options.batch_size),
        }
    }

    /// The order of an epoch. Even streams are orders, odd ones are draws of augmentation.
    fn order(&self, at: LoaderState) -> Vec<usize> {
        self.sampler.order(self.data.len(), &mut Rng::new(at.seed, at.epoch.wrapping_mul(2)))
    }

    /// One batch: its items depend on seed, epoch and place alone.
    fn make(&self, at: LoaderState, order: &[usize], batch: u64) -> Result<B> {
        let size = self.options.batch_size;
        let start = batch as usize * size;
        let end = (start + size).min(order.len());
        let places = order.get(start..end).unwrap_or_default();
        let draws = Rng::new(at.seed, at.epoch.wrapping_mul(2).wrapping_add(1));
        // What a data set computes on the way to its items is no part of anybody's gradient.
        gradus_core::no_grad(|| {
            let items = places
                .iter()
                .zip(start as u64..)
                .map(|(&index, place)| self.data.sample(index, &mut draws.jumped(place)));
            (self.collate)(items.collect::<Result<Vec<_>>>()?)
        })
    }
}
