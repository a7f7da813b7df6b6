//! Changes to images, one after another; what is random in them follows the loader's seed.
//!
//! ```
//! use gradus_data::{Dataset, LabeledImages, Rng};
//! use gradus_data::transform::{Compose, Normalize, RandomCrop, RandomHorizontalFlip};
//! let images = LabeledImages::new([1, 4, 4], vec![255; 32], vec![0, 1], vec!["a".into(), "b".into()])?;
//! let train = images.transform(
//!     Compose::new()
//!         .then(RandomCrop::new(4, 4).padding(1))
//!         .then(RandomHorizontalFlip::default())
//!         .then(Normalize::new([0.5], [0.5])?),
//! );
//! let (image, _) = train.sample(0, &mut Rng::new(0, 0))?;
//! assert_eq!(image.at(0, 1, 1), Some(1.0));
//! # Ok::<(), gradus_core::Error>(())
//! ```

mod geometry;
mod resize;
mod value;

use crate::{Dataset, Rng, image::Image};
use gradus_core::Result;

pub use geometry::{CenterCrop, RandomCrop, RandomHorizontalFlip, RandomRotation, RandomVerticalFlip};
pub use resize::Resize;
pub use value::{Normalize, one_hot};

/// A change to an image.
pub trait Transform: Send + Sync {
    /// Changes it; everything random comes from `rng`.
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image>;
}

impl<F: Fn(Image, &mut Rng) -> Result<Image> + Send + Sync> Transform for F {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        self(image, rng)
    }
}

impl Transform for Box<dyn Transform> {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        (**self).apply(image, rng)
    }
}

/// Several changes, in order.
#[derive(Default)]
pub struct Compose(Vec<Box<dyn Transform>>);

impl Compose {
    /// No change so far.
    pub fn new() -> Compose {
        Compose::default()
    }

    /// One more.
    pub fn then(mut self, next: impl Transform + 'static) -> Compose {
        self.0.push(Box::new(next));
        self
    }
}

impl Transform for Compose {
    fn apply(&self, image: Image, rng: &mut Rng) -> Result<Image> {
        self.0.iter().try_fold(image, |image, t| t.apply(image, rng))
    }
}

/// See [`Dataset::transform`].
#[derive(Clone, Debug)]
pub struct Transformed<D, T> {
    inner: D,
    transform: T,
}

impl<D, T> Transformed<D, T> {
    pub(crate) fn new(inner: D, transform: T) -> Transformed<D, T> {
        Transformed { inner, transform }
    }
}

impl<L: Send + 'static, D: Dataset<Item = (Image, L)>, T: Transform> Dataset for Transformed<D, T> {
    type Item = (Image, L);
    fn len(&self) -> usize {
        self.inner.len()
    }
    /// Outside a loader there is no epoch: each index has one draw of its own.
    fn get(&self, index: usize) -> Result<(Image, L)> {
        self.sample(index, &mut Rng::new(0, index as u64))
    }
    fn sample(&self, index: usize, rng: &mut Rng) -> Result<(Image, L)> {
        let (image, label) = self.inner.sample(index, rng)?;
        Ok((self.transform.apply(image, rng)?, label))
    }
}
