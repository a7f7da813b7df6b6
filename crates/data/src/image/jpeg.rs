//! JPEG, through `zune-jpeg`.

use super::decode::Raw;
use crate::{ReadError, ReadResult, error::shorten};
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

/// Every 8x8 block of the finest component takes at least one bit.
const PIXELS_A_BYTE: usize = 512;

pub(crate) fn decode(bytes: &[u8], max_pixels: usize) -> ReadResult<Raw> {
    let wrong = |e: String| ReadError::malformed("JPEG", "a picture that decodes", shorten(&e)).at(0);
    // The decoder fills what is missing with grey: a file that was cut off is known by its missing end.
    let last = |marker: u8| bytes.windows(2).rposition(|w| w == [0xff, marker]);
    if last(0xd9) < last(0xda) || last(0xda).is_none() {
        let e = ReadError::malformed("JPEG", "a scan and the marker that ends it", "the end of the file");
        return Err(e.at(bytes.len() as u64).hint("the file was not copied to its end"));
    }
    let open = |colours| {
        // The size is checked below, against the file's length and the caller's limit.
        let options = DecoderOptions::default().set_strict_mode(true).set_max_width(65_535).set_max_height(65_535);
        JpegDecoder::new_with_options(ZCursor::new(bytes), options.jpeg_set_out_colorspace(colours))
    };
    let mut decoder = open(ColorSpace::RGB);
    decoder.decode_headers().map_err(|e| wrong(e.to_string()))?;
    let info = decoder.info().ok_or_else(|| wrong("no header".into()))?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    let pixels = width * height;
    if pixels > max_pixels || pixels > bytes.len().saturating_mul(PIXELS_A_BYTE) {
        let expected = format!("at most {} pixels", max_pixels.min(bytes.len().saturating_mul(PIXELS_A_BYTE)));
        return Err(ReadError::malformed("JPEG", expected, format!("a header of {width} x {height}")).at(0));
    }
    let grey = matches!(decoder.input_colorspace(), Some(ColorSpace::Luma));
    let channels = if grey { 1 } else { 3 };
    if grey {
        decoder = open(ColorSpace::Luma);
    }
    let samples = decoder.decode().map_err(|e| wrong(e.to_string()))?;
    if samples.len() != pixels * channels {
        return Err(wrong(format!("{} samples for {width} x {height} x {channels}", samples.len())));
    }
    Ok(Raw { width, height, channels, samples })
}
