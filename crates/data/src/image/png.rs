//! PNG: every depth, palette, transparency by colour, interlaced or not.
//!
//! Memory follows the file: the sizes in the header are checked against what its bytes can unpack to before anything is
//! allocated.

use super::decode::Raw;
use crate::{ReadError, ReadResult, file};

pub(crate) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

struct Header {
    width: usize,
    height: usize,
    depth: u8,
    colour: u8,
    interlaced: bool,
}

fn damaged(at: usize, expected: impl Into<String>, found: impl Into<String>) -> ReadError {
    ReadError::malformed("PNG", expected, found).at(at as u64)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

impl Header {
    fn parse(data: &[u8], at: usize) -> ReadResult<Header> {
        let &[_, _, _, _, _, _, _, _, depth, colour, compression, filter, interlace] = data else {
            return Err(damaged(at, "a header of 13 bytes", format!("{}", data.len())));
        };
        let (width, height) = (u32_at(data, 0).unwrap_or(0), u32_at(data, 4).unwrap_or(0));
        if width == 0 || height == 0 || width > i32::MAX as u32 || height > i32::MAX as u32 {
            return Err(damaged(at, "a width and height from 1 to 2^31 - 1", format!("{width} x {height}")));
        }
        let allowed: &[u8] = match colour {
            0 => &[1, 2, 4, 8, 16],
            2 | 4 | 6 => &[8, 16],
            3 => &[1, 2, 4, 8],
            _ => return Err(damaged(at + 9, "a colour type 0, 2, 3, 4 or 6", format!("{colour}"))),
        };
        if !allowed.contains(&depth) {
            return Err(damaged(
                at + 8,
                format!("a depth of {allowed:?} for colour type {colour}"),
                format!("{depth}"),
            ));
        }
        if compression != 0 || filter != 0 || interlace > 1 {
            let found = format!("{compression}, {filter}, {interlace}");
            return Err(damaged(at + 10, "compression 0, filter 0, interlace 0 or 1", found));
        }
        let (width, height) = (width as usize, height as usize);
        Ok(Header { width, height, depth, colour, interlaced: interlace == 1 })
    }

    /// Samples a pixel in the file.
    fn samples(&self) -> usize {
        match self.colour {
            2 => 3,
            4 => 2,
            6 => 4,
            _ => 1,
        }
    }

    fn row_bytes(&self, width: usize) -> Option<usize> {
        Some(width.checked_mul(self.samples() * usize::from(self.depth))?.div_ceil(8))
    }

    /// The passes: first column and row, steps, width and height. One that covers all when not interlaced.
    fn passes(&self) -> Vec<[usize; 6]> {
        const ADAM7: [[usize; 4]; 7] =
            [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2], [0, 1, 1, 2]];
        let pass = |[x, y, dx, dy]: [usize; 4]| {
            [x, y, dx, dy, self.width.saturating_sub(x).div_ceil(dx), self.height.saturating_sub(y).div_ceil(dy)]
        };
        let all: Vec<_> = if self.interlaced { ADAM7.map(pass).to_vec() } else { vec![pass([0, 0, 1, 1])] };
        all.into_iter().filter(|p| p[4] > 0 && p[5] > 0).collect()
    }

    /// Bytes that all rows take unpacked, each with the byte that names its filter.
    fn unpacked(&self) -> Option<usize> {
        self.passes()
            .iter()
            .try_fold(0usize, |sum, p| sum.checked_add(self.row_bytes(p[4])?.checked_add(1)?.checked_mul(p[5])?))
    }
}

/// What the chunks hold.
struct Chunks {
    header: Header,
    palette: Vec<[u8; 3]>,
    transparency: Vec<u8>,
    data: Vec<u8>,
    data_at: usize,
}

fn chunks(bytes: &[u8]) -> ReadResult<Chunks> {
    let mut at = MAGIC.len();
    let (mut header, mut palette, mut transparency, mut data, mut data_at) = (None, vec![], vec![], vec![], 0);
    loop {
        let (len, name) = (u32_at(bytes, at), bytes.get(at + 4..at + 8));
        let (Some(len), Some(name)) = (len, name) else {
            return Err(damaged(at, "another chunk", "the end of the file"));
        };
        let start = at + 8;
        let end = start.saturating_add(len as usize);
        let (Some(content), Some(sum)) = (bytes.get(start..end), u32_at(bytes, end)) else {
            let left = bytes.len().saturating_sub(start);
            return Err(damaged(
                at,
                format!("a chunk of {len} bytes and its checksum"),
                format!("{left} before the end"),
            ));
        };
        let mut hash = crc32fast::Hasher::new();
        hash.update(name);
        hash.update(content);
        let shown = String::from_utf8_lossy(name).escape_debug().to_string();
        if hash.finalize() != sum {
            return Err(damaged(at, format!("a {shown} chunk that fits its checksum"), "another checksum"));
        }
        match name {
            b"IHDR" if header.is_none() => header = Some(Header::parse(content, start)?),
            _ if header.is_none() => return Err(damaged(at, "the chunk IHDR first", shown)),
            b"IHDR" => return Err(damaged(at, "one chunk IHDR", "a second one")),
            b"PLTE" => {
                if content.is_empty() || content.len() > 768 || !content.len().is_multiple_of(3) {
                    return Err(damaged(at, "a palette of 1 to 256 colours", format!("{} bytes", content.len())));
                }
                palette = content.chunks_exact(3).filter_map(|c| c.try_into().ok()).collect();
            }
            b"tRNS" => transparency = content.to_vec(),
            b"IDAT" => {
                if data.is_empty() {
                    data_at = start;
                }
                data.extend_from_slice(content);
            }
            b"IEND" => break,
            // A capital first letter means that the picture cannot be understood without it.
            _ if name.first().is_some_and(u8::is_ascii_uppercase) => {
                return Err(ReadError::unsupported("PNG", format!("the chunk {shown}")).at(at as u64));
            }
            _ => {}
        }
        at = end + 4;
    }
    let header = header.ok_or_else(|| damaged(at, "a header", "none"))?;
    Ok(Chunks { header, palette, transparency, data, data_at })
}

pub(crate) fn decode(bytes: &[u8], max_pixels: usize) -> ReadResult<Raw> {
    let Chunks { header: h, palette, transparency, data, data_at } = chunks(bytes)?;
    let most = file::most_inflated(data.len());
    let size = h.unpacked().filter(|_| h.width.checked_mul(h.height).is_some_and(|n| n <= max_pixels));
    let Some(size) = size.filter(|&s| s <= most) else {
        let expected = format!("at most {max_pixels} pixels, and no more than {} bytes unpack to", data.len());
        return Err(damaged(16, expected, format!("{} x {}", h.width, h.height)));
    };
    if h.colour == 3 && palette.is_empty() {
        return Err(damaged(data_at, "a palette before the pixels", "none"));
    }
    let mut rows = file::inflate_zlib(&data, size).map_err(|why| damaged(data_at, "deflated pixels", why))?;
    if rows.len() != size {
        return Err(damaged(data_at, format!("{size} bytes of pixels"), format!("{}", rows.len())));
    }
    let keyed = h.colour != 3 && !transparency.is_empty() && matches!(h.colour, 0 | 2);
    let channels = match h.colour {
        3 if transparency.is_empty() => 3,
        3 => 4,
        _ => h.samples() + usize::from(keyed),
    };
    let mut samples = vec![0u8; h.width * h.height * channels];
    let mut rest = rows.as_mut_slice();
    for [x0, y0, dx, dy, width, height] in h.passes() {
        let len = h.row_bytes(width).unwrap_or(0);
        let Some((pass, after)) = rest.split_at_mut_checked((len + 1) * height) else {
            return Err(damaged(data_at, "all passes", "too few bytes"));
        };
        rest = after;
        unfilter(pass, len, (h.samples() * usize::from(h.depth) / 8).max(1))
            .map_err(|f| damaged(data_at, "a filter from 0 to 4", format!("{f}")))?;
        for (row, line) in pass.chunks_exact(len + 1).enumerate() {
            let line = line.get(1..).unwrap_or_default();
            for x in 0..width {
                let place = ((y0 + row * dy) * h.width + x0 + x * dx) * channels;
                let Some(pixel) = samples.get_mut(place..place + channels) else { continue };
                put(pixel, line, x, &h, &palette, &transparency, keyed)
                    .ok_or_else(|| damaged(data_at, format!("one of {} colours", palette.len()), "one beyond them"))?;
            }
        }
    }
    Ok(Raw { width: h.width, height: h.height, channels, samples })
}

/// Takes back the filters, row by row.
fn unfilter(pass: &mut [u8], len: usize, pixel: usize) -> Result<(), u8> {
    let mut above: Vec<u8> = vec![0; len];
    for line in pass.chunks_exact_mut(len + 1) {
        let Some((filter, row)) = line.split_first_mut() else { continue };
        for i in 0..len {
            let (left, corner) = match i.checked_sub(pixel) {
                Some(j) => (row[j], above[j]),
                None => (0, 0),
            };
            let up = above[i];
            let guess = match filter {
                0 => 0,
                1 => left,
                2 => up,
                3 => ((u16::from(left) + u16::from(up)) / 2) as u8,
                4 => paeth(left, up, corner),
                _ => return Err(*filter),
            };
            row[i] = row[i].wrapping_add(guess);
        }
        above.copy_from_slice(row);
    }
    Ok(())
}

fn paeth(a: u8, b: u8, c: u8) -> u8 {
    let p = i16::from(a) + i16::from(b) - i16::from(c);
    let (pa, pb, pc) = ((p - i16::from(a)).abs(), (p - i16::from(b)).abs(), (p - i16::from(c)).abs());
    match (pa <= pb && pa <= pc, pb <= pc) {
        (true, _) => a,
        (false, true) => b,
        (false, false) => c,
    }
}

/// Writes pixel `x` of a row as bytes; `None` when a palette lacks its colour.
fn put(
    pixel: &mut [u8],
    line: &[u8],
    x: usize,
    h: &Header,
    palette: &[[u8; 3]],
    transparency: &[u8],
    keyed: bool,
) -> Option<()> {
    let n = h.samples();
    // The raw sample, and its upper byte.
    let sample = |k: usize| -> Option<(u16, u8)> {
        let i = x * n + k;
        match h.depth {
            16 => {
                let (high, low) = (*line.get(2 * i)?, *line.get(2 * i + 1)?);
                Some((u16::from_be_bytes([high, low]), high))
            }
            8 => line.get(i).map(|&b| (u16::from(b), b)),
            depth => {
                let depth = usize::from(depth);
                let byte = *line.get(i * depth / 8)?;
                let mask = (1u8 << depth) - 1;
                let value = byte >> (8 - depth - i * depth % 8) & mask;
                // Stretched to 0..=255: 255 / mask is whole for depths 1, 2 and 4.
                Some((u16::from(value), if h.colour == 3 { value } else { value * (255 / mask) }))
            }
        }
    };
    if h.colour == 3 {
        let index = usize::from(sample(0)?.0);
        let colour = palette.get(index)?;
        let alpha = transparency.get(index).copied().unwrap_or(255);
        pixel.iter_mut().zip(colour.iter().chain([&alpha])).for_each(|(p, &c)| *p = c);
        return Some(());
    }
    let mut is_key = keyed;
    for k in 0..n {
        let (value, byte) = sample(k)?;
        *pixel.get_mut(k)? = byte;
        let key = transparency.get(2 * k..2 * k + 2).and_then(|b| Some(u16::from_be_bytes(b.try_into().ok()?)));
        is_key &= key == Some(value);
    }
    if keyed {
        *pixel.get_mut(n)? = if is_key { 0 } else { 255 };
    }
    Some(())
}
