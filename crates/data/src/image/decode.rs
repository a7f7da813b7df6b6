//! An image file, known by its content.

use super::{Image, jpeg, png};
use crate::{ReadError, ReadResult, file};
use std::path::Path;

/// How image files are read.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageOptions {
    /// Channels of the result: `Some(3)` makes all colours (as torchvision does), `Some(1)` all grey, `None` leaves them
    /// (grey 1, grey with alpha 2, colours 3, colours with alpha 4).
    pub channels: Option<usize>,
    /// The most pixels that are accepted: a small file may claim to be very large.
    pub max_pixels: usize,
}

impl Default for ImageOptions {
    fn default() -> ImageOptions {
        ImageOptions { channels: Some(3), max_pixels: 1 << 26 }
    }
}

/// What a decoder gives: bytes or 16-bit numbers, channels interleaved.
pub(crate) struct Raw {
    pub width: usize,
    pub height: usize,
    pub channels: usize,
    pub samples: Vec<u8>,
}

/// Reads a PNG or JPEG file that is in memory.
pub fn decode(bytes: &[u8], options: &ImageOptions) -> ReadResult<Image> {
    let raw = if bytes.starts_with(png::MAGIC) {
        png::decode(bytes, options.max_pixels)?
    } else if bytes.starts_with(&[0xff, 0xd8]) {
        jpeg::decode(bytes, options.max_pixels)?
    } else {
        let shown: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
        let found = if bytes.is_empty() { "an empty file".into() } else { format!("the bytes {}", shown.join(" ")) };
        return Err(ReadError::malformed("image", "a PNG or JPEG file", found).at(0));
    };
    planes(&raw, options.channels)
}

/// Reads a PNG or JPEG file.
///
/// ```no_run
/// use gradus_data::image;
/// let photo = image::load("cat.jpg", &image::ImageOptions::default())?;
/// println!("{} x {}", photo.width(), photo.height());
/// # Ok::<(), gradus_data::ReadError>(())
/// ```
pub fn load(path: impl AsRef<Path>, options: &ImageOptions) -> ReadResult<Image> {
    let path = path.as_ref();
    file::read(path).and_then(|bytes| decode(&bytes, options)).map_err(|e| e.with_path(path))
}

/// One plane a channel, converted to the channels that are wanted. Alpha is dropped, as PIL's `convert` does.
fn planes(raw: &Raw, wanted: Option<usize>) -> ReadResult<Image> {
    let c = raw.channels;
    let pixels = raw.width * raw.height;
    let out = wanted.unwrap_or(c);
    let mut all = Vec::with_capacity(pixels * out);
    let sample = |p: usize, k: usize| raw.samples.get(p * c + k).map_or(0.0, |&b| f32::from(b) / 255.0);
    match (c, out) {
        (_, o) if o == c => (0..c).for_each(|k| all.extend((0..pixels).map(|p| sample(p, k)))),
        (1 | 2, 3) => (0..3).for_each(|_| all.extend((0..pixels).map(|p| sample(p, 0)))),
        (2, 1) => all.extend((0..pixels).map(|p| sample(p, 0))),
        (4, 3) => (0..3).for_each(|k| all.extend((0..pixels).map(|p| sample(p, k)))),
        (3 | 4, 1) => {
            all.extend((0..pixels).map(|p| 0.299 * sample(p, 0) + 0.587 * sample(p, 1) + 0.114 * sample(p, 2)))
        }
        _ => return Err(ReadError::unsupported("image", format!("{c} channels cannot become {out}"))),
    }
    Ok(Image::new(out, raw.height, raw.width, all)?)
}
