//! Images in memory, and the files they come from.

mod decode;
mod folder;
mod jpeg;
mod labeled;
mod png;

use crate::collate::{Collate, unlike};
use gradus_core::{Error, Result, Tensor};

pub use decode::{ImageOptions, decode, load};
pub use folder::{ImageFolder, ImageFolderOptions};
pub use labeled::LabeledImages;

/// Pixels as floats, channel by channel, row by row; files give values from 0 to 1.
///
/// ```
/// use gradus_data::image::Image;
/// let image = Image::new(1, 2, 2, vec![0.0, 0.25, 0.5, 1.0])?;
/// assert_eq!(image.at(0, 1, 0), Some(0.5));
/// assert_eq!(image.to_tensor()?.dims(), [1, 2, 2]);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    channels: usize,
    height: usize,
    width: usize,
    pixels: Vec<f32>,
}

impl Image {
    /// An image of these pixels.
    #[track_caller]
    pub fn new(channels: usize, height: usize, width: usize, pixels: Vec<f32>) -> Result<Image> {
        let need = channels.checked_mul(height).and_then(|n| n.checked_mul(width));
        if need != Some(pixels.len()) {
            let why = format!("{} pixels do not fill {channels} x {height} x {width}", pixels.len());
            return Err(Error::value("Image", why));
        }
        Ok(Image { channels, height, width, pixels })
    }

    /// An image of bytes in this order, 255 becoming 1.
    #[track_caller]
    pub fn from_bytes(channels: usize, height: usize, width: usize, bytes: &[u8]) -> Result<Image> {
        Image::new(channels, height, width, bytes.iter().map(|&b| f32::from(b) / 255.0).collect())
    }

    /// An image of a tensor `[channels, height, width]` or `[height, width]`.
    #[track_caller]
    pub fn from_tensor(t: &Tensor) -> Result<Image> {
        let (c, h, w) = match *t.dims() {
            [h, w] => (1, h, w),
            [c, h, w] => (c, h, w),
            _ => {
                let why = format!("an image has the shape [channels, height, width], not {}", t.shape());
                return Err(Error::shape("Image", &[t.shape()], why).operand(t));
            }
        };
        Image::new(c, h, w, t.to_vec::<f32>()?)
    }

    /// A tensor `[channels, height, width]`.
    pub fn to_tensor(&self) -> Result<Tensor> {
        Tensor::from_slice(&self.pixels, [self.channels, self.height, self.width])
    }

    /// Channels: 1 for grey, 3 for colours.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All pixels.
    pub fn pixels(&self) -> &[f32] {
        &self.pixels
    }

    /// All pixels, to change.
    pub fn pixels_mut(&mut self) -> &mut [f32] {
        &mut self.pixels
    }

    /// One pixel, if it is inside.
    pub fn at(&self, channel: usize, y: usize, x: usize) -> Option<f32> {
        let inside = channel < self.channels && y < self.height && x < self.width;
        inside.then(|| self.pixels.get((channel * self.height + y) * self.width + x).copied())?
    }

    /// The rows of one channel after another.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.pixels.chunks_exact(self.width.max(1))
    }

    /// An image of the same channels and another size, each pixel made from its place.
    pub(crate) fn make(&self, height: usize, width: usize, f: impl Fn(usize, usize, usize) -> f32) -> Image {
        let mut pixels = Vec::with_capacity(self.channels * height * width);
        for c in 0..self.channels {
            for y in 0..height {
                pixels.extend((0..width).map(|x| f(c, y, x)));
            }
        }
        Image { channels: self.channels, height, width, pixels }
    }

    /// Grey from colours, with the weights of ITU-R 601 as PIL has them; a grey image stays.
    pub fn to_grey(&self) -> Image {
        if self.channels < 3 {
            return Image {
                channels: 1,
                pixels: self.pixels.iter().take(self.height * self.width).copied().collect(),
                ..*self
            };
        }
        let at = |c, y, x| self.at(c, y, x).unwrap_or(0.0);
        let one = Image { channels: 1, pixels: vec![], ..*self };
        one.make(self.height, self.width, |_, y, x| 0.299 * at(0, y, x) + 0.587 * at(1, y, x) + 0.114 * at(2, y, x))
    }
}

impl Collate for Image {
    type Batch = Tensor;
    fn collate(items: Vec<Image>) -> Result<Tensor> {
        let Some(first) = items.first() else {
            return Err(Error::value("collate", "there are no items to put together"));
        };
        let size = |i: &Image| [i.channels, i.height, i.width];
        if let Some((at, bad)) = items.iter().enumerate().find(|(_, i)| size(i) != size(first)) {
            return Err(unlike(at, &format!("{:?}", size(bad)), &format!("{:?}", size(first))));
        }
        let mut all = Vec::with_capacity(items.len() * first.pixels.len());
        items.iter().for_each(|i| all.extend_from_slice(&i.pixels));
        Tensor::from_slice(&all, [items.len(), first.channels, first.height, first.width])
    }
}
