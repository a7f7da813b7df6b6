//! The embedded handwritten digits.

use gradus_core::{DType, Error, ErrorKind, Result, Tensor};

const PACKED: &[u8] = include_bytes!("../assets/digits.zlib");
const COUNT: usize = 1797;
const PIXELS: usize = 64;
/// Every fifth image is for testing: the images come grouped by writer, and both parts see all of them.
const FIFTH: usize = 5;

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

/// The 1,797 handwritten digits of UCI that travel in the binary: 1,438 to train, and every fifth one, 359, to test.
///
/// ```
/// let d = gradus_data::digits().unwrap();
/// assert_eq!(d.train_images.dims(), [1438, 1, 8, 8]);
/// assert_eq!(d.test_labels.dims(), [359]);
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
    let (test, train): (Vec<i64>, Vec<i64>) = (0..COUNT as i64).partition(|i| i % FIFTH as i64 == FIFTH as i64 - 1);
    let (test, train) = (Tensor::from(test), Tensor::from(train));
    let d = Digits {
        train_images: images.index_select(0, &train)?,
        train_labels: labels.index_select(0, &train)?,
        test_images: images.index_select(0, &test)?,
        test_labels: labels.index_select(0, &test)?,
    };
    Tensor::eval_all(&[&d.train_images, &d.train_labels, &d.test_images, &d.test_labels])?;
    Ok(d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_image_is_a_zero() {
        let d = digits().unwrap();
        assert_eq!(d.train_labels.to_vec::<i64>().unwrap()[..8], [0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!(d.test_labels.to_vec::<i64>().unwrap()[..3], [4, 9, 4]);
        let first = (d.train_images.narrow(0, 0, 1).unwrap() * 16.0).to_vec::<i64>().unwrap();
        assert_eq!(first[..8], [0, 0, 5, 13, 9, 1, 0, 0]);
    }
}
