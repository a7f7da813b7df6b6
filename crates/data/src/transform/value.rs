//! Changes to values.

use super::Transform;
use crate::{Rng, image::Image};
use gradus_core::{Error, Result};

/// `(x - mean) / std`, a channel at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalize {
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl Normalize {
    /// A mean and a deviation a channel.
    #[track_caller]
    pub fn new(mean: impl Into<Vec<f32>>, std: impl Into<Vec<f32>>) -> Result<Normalize> {
        let (mean, std) = (mean.into(), std.into());
        if mean.len() != std.len() {
            let why = format!("{} means and {} deviations", mean.len(), std.len());
            return Err(Error::value("Normalize", why));
        }
        match std.iter().position(|&s| s == 0.0 || !s.is_finite()) {
            Some(c) => Err(Error::value("Normalize", format!("the deviation of channel {c} must be finite and not 0"))),
            None => Ok(Normalize { mean, std }),
        }
    }
}

impl Transform for Normalize {
    fn apply(&self, mut image: Image, _: &mut Rng) -> Result<Image> {
        if image.channels() != self.mean.len() {
            let why = format!("an image of {} channels, and means for {}", image.channels(), self.mean.len());
            return Err(Error::value("Normalize", why));
        }
        let plane = (image.height() * image.width()).max(1);
        for (pixels, (mean, std)) in image.pixels_mut().chunks_exact_mut(plane).zip(self.mean.iter().zip(&self.std)) {
            pixels.iter_mut().for_each(|x| *x = (*x - mean) / std);
        }
        Ok(image)
    }
}

/// A label as a row with a one at its place.
///
/// ```
/// use gradus_data::transform::one_hot;
/// assert_eq!(one_hot(2, 4)?, [0.0, 0.0, 1.0, 0.0]);
/// assert!(one_hot(4, 4).is_err());
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[track_caller]
pub fn one_hot(label: i64, classes: usize) -> Result<Vec<f32>> {
    let mut row = vec![0.0; classes];
    match usize::try_from(label).ok().and_then(|l| row.get_mut(l)) {
        Some(place) => *place = 1.0,
        None => return Err(Error::value("one_hot", format!("label {label} is not one of {classes} classes"))),
    }
    Ok(row)
}
