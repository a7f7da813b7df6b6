//! Labelled images of one size, held as bytes.

use super::Image;
use crate::{Dataset, dataset::outside};
use gradus_core::{DType, Error, Result, Tensor};

/// Images of one size with a class each, as MNIST and CIFAR come.
#[derive(Clone, Debug)]
pub struct LabeledImages {
    size: [usize; 3],
    pixels: Vec<u8>,
    labels: Vec<u8>,
    classes: Vec<String>,
}

impl LabeledImages {
    /// Images of `size` (channels, height, width), one after another, their labels, and the names of the classes.
    #[track_caller]
    pub fn new(size: [usize; 3], pixels: Vec<u8>, labels: Vec<u8>, classes: Vec<String>) -> Result<LabeledImages> {
        let need = size.iter().try_fold(labels.len(), |n, &d| n.checked_mul(d));
        if need != Some(pixels.len()) {
            let why = format!("{} bytes do not hold {} images of {size:?}", pixels.len(), labels.len());
            return Err(Error::value("LabeledImages", why));
        }
        if let Some((i, l)) = labels.iter().enumerate().find(|(_, l)| usize::from(**l) >= classes.len()) {
            let why = format!("label {i} is {l}, and there are {} classes", classes.len());
            return Err(Error::value("LabeledImages", why));
        }
        Ok(LabeledImages { size, pixels, labels, classes })
    }

    /// Channels, height and width of each image.
    pub fn size(&self) -> [usize; 3] {
        self.size
    }

    /// The class of each image.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// All at once: images `[n, channels, height, width]` from 0 to 1 as f32, labels `[n]` as i64.
    pub fn tensors(&self) -> Result<(Tensor, Tensor)> {
        let [c, h, w] = self.size;
        let n = self.labels.len();
        let images = Tensor::from_slice(&self.pixels, [n, c, h, w])?.to_dtype(DType::F32) / 255.0;
        let labels = Tensor::from_slice(&self.labels, [n])?.to_dtype(DType::I64);
        Tensor::eval_all(&[&images, &labels])?;
        Ok((images, labels))
    }
}

impl Dataset for LabeledImages {
    type Item = (Image, i64);
    fn len(&self) -> usize {
        self.labels.len()
    }
    fn get(&self, index: usize) -> Result<(Image, i64)> {
        let [c, h, w] = self.size;
        let each = c * h * w;
        let bytes = self.pixels.get(index.saturating_mul(each)..index.saturating_add(1).saturating_mul(each));
        match (bytes, self.labels.get(index)) {
            (Some(bytes), Some(&label)) => Ok((Image::from_bytes(c, h, w, bytes)?, i64::from(label))),
            _ => Err(outside("get", index, self.labels.len())),
        }
    }
}
