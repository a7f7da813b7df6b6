//! The embedded handwritten digits.

use gradus_core::{DType, Error, ErrorKind, Result, Tensor};

const PACKED: &[u8] = include_bytes!("../assets/digits.zlib");
const COUNT: usize = 1797;
const PIXELS: usize = 64;
/// The last 360 images (one fifth) are for testing: scikit-learn's customary split without shuffling.
const TEST: usize = 360;

/// Images `[n, 1, 8, 8]` with values 0 to 1, and labels `[n]` from 0 to 9.
pub struct Digits {
    /// Images to learn from.
    pub train_images: Tensor,
    /// Their labels.
    pub train_labels: Tensor,
    /// Images to test with.
    pub test_images: Tensor,
    /// Their labels.
    pub test_labels: Tensor,
}

/// The 1,797 handwritten digits of UCI that travel in the binary: 1,437 to train, 360 to test.
///
/// ```
/// let d = gradus_data::digits().unwrap();
/// assert_eq!(d.train_images.dims(), [1437, 1, 8, 8]);
/// assert_eq!(d.test_labels.dims(), [360]);
/// ```
pub fn digits() -> Result<Digits> {
    let damaged = || Error::new("digits", ErrorKind::Internal("the embedded digits are damaged".into()));
    let limit = COUNT * (PIXELS + 1);
    let raw = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(PACKED, limit).map_err(|_| damaged())?;
    if raw.len() != limit {
        return Err(damaged());
    }
    let (labels, pixels) = raw.split_at(COUNT);
    let images = Tensor::from_slice(pixels, [COUNT, 1, 8, 8])?.to_dtype(DType::F32) / 16.0;
    let labels = Tensor::from_slice(labels, [COUNT])?.to_dtype(DType::I64);
    Tensor::eval_all(&[&images, &labels])?;
    let train = COUNT - TEST;
    Ok(Digits {
        train_images: images.narrow(0, 0, train)?,
        train_labels: labels.narrow(0, 0, train)?,
        test_images: images.narrow(0, train, TEST)?,
        test_labels: labels.narrow(0, train, TEST)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_image_is_a_zero() {
        let d = digits().unwrap();
        assert_eq!(d.train_labels.to_vec::<i64>().unwrap()[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let first = (d.train_images.narrow(0, 0, 1).unwrap() * 16.0).to_vec::<i64>().unwrap();
        assert_eq!(first[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
        assert_eq!(d.test_labels.to_vec::<i64>().unwrap().len(), 360);
    }
}
