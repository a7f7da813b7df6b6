//! IDX, the format of MNIST: a magic with type and rank, extents, elements, all big-endian; plain or gzipped.

use crate::{LabeledImages, ReadError, ReadResult, file};
use gradus_core::{DType, Tensor};
use std::path::{Path, PathBuf};

const FORMAT: &str = "IDX";

/// An array as the file holds it.
struct Array {
    dtype: DType,
    shape: Vec<usize>,
    /// Little-endian elements.
    data: Vec<u8>,
}

fn damaged(at: usize, expected: impl Into<String>, found: impl Into<String>) -> ReadError {
    ReadError::malformed(FORMAT, expected, found).at(at as u64)
}

/// Element type, extents, and where the elements start.
fn header(bytes: &[u8]) -> ReadResult<(DType, Vec<usize>, usize)> {
    let Some(&[zero, nought, kind, rank]) = bytes.first_chunk::<4>() else {
        return Err(damaged(0, "a magic of 4 bytes", format!("a file of {}", bytes.len())));
    };
    if zero != 0 || nought != 0 {
        let found = format!("{zero:02x} {nought:02x}");
        return Err(damaged(0, "two zero bytes", found).hint("is this an IDX file, as MNIST has them?"));
    }
    let dtype = match kind {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0b => DType::I16,
        0x0c => DType::I32,
        0x0d => DType::F32,
        0x0e => DType::F64,
        _ => return Err(damaged(2, "an element type 08, 09, 0b, 0c, 0d or 0e", format!("{kind:02x}"))),
    };
    let start = 4 + 4 * usize::from(rank);
    let Some(extents) = bytes.get(4..start) else {
        let found = format!("a file of {} bytes", bytes.len());
        return Err(damaged(4, format!("{rank} extents of 4 bytes"), found));
    };
    let extent = |b: &[u8]| b.iter().fold(0usize, |n, &b| n << 8 | usize::from(b));
    Ok((dtype, extents.chunks_exact(4).map(extent).collect(), start))
}

fn array(bytes: &[u8]) -> ReadResult<Array> {
    if !file::is_gzip(bytes) {
        return elements(bytes, bytes.len());
    }
    // The start says how much is to come, and that must be no more than this many bytes can unpack to.
    let start = file::gunzip(bytes, 4 + 4 * 255)?;
    let (dtype, shape, at) = header(&start)?;
    let most = file::most_inflated(bytes.len());
    let Some(total) = size(dtype, &shape).and_then(|n| n.checked_add(at)).filter(|&n| n <= most) else {
        let found = format!("extents {shape:?} of {dtype}");
        return Err(damaged(4, format!("what {} gzipped bytes can hold", bytes.len()), found));
    };
    let all = file::gunzip(bytes, total.saturating_add(1))?;
    elements(&all, all.len())
}

fn size(dtype: DType, shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d))
}

fn elements(bytes: &[u8], len: usize) -> ReadResult<Array> {
    let (dtype, shape, start) = header(bytes)?;
    let data = bytes.get(start..len).unwrap_or_default();
    let need = size(dtype, &shape);
    if need != Some(data.len()) {
        let need = need.map_or("more than 2^64".into(), |n| n.to_string());
        let e = damaged(start, format!("{need} bytes for {dtype} {shape:?}"), format!("{}", data.len()));
        return Err(e.hint("the file was not copied to its end, or is another one"));
    }
    let mut data = data.to_vec();
    data.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    Ok(Array { dtype, shape, data })
}

/// Reads an array that is in memory.
///
/// ```
/// let file = [0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]; // three bytes
/// let t = gradus_data::idx::from_bytes(&file)?;
/// assert_eq!(t.to_vec::<u8>().unwrap(), [7, 8, 9]);
/// # Ok::<(), gradus_data::ReadError>(())
/// ```
pub fn from_bytes(bytes: &[u8]) -> ReadResult<Tensor> {
    let a = array(bytes)?;
    Ok(Tensor::from_bytes(&a.data, a.shape, a.dtype)?)
}

/// Reads an array, plain or gzipped (known by its content).
pub fn load(path: impl AsRef<Path>) -> ReadResult<Tensor> {
    let path = path.as_ref();
    file::read(path).and_then(|bytes| from_bytes(&bytes)).map_err(|e| e.with_path(path))
}

/// The training images or the test images of MNIST and of sets that come like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `train-images-idx3-ubyte` and its labels.
    Train,
    /// `t10k-images-idx3-ubyte` and its labels.
    Test,
}

/// Reads MNIST from the folder that holds its files, under the names they are published by, gzipped or not.
///
/// ```no_run
/// use gradus_data::{Dataset, idx};
/// let train = idx::mnist("mnist", idx::Part::Train)?;
/// let (images, labels) = train.tensors()?; // [60000, 1, 28, 28] from 0 to 1, [60000]
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub fn mnist(folder: impl AsRef<Path>, part: Part) -> ReadResult<LabeledImages> {
    let folder = folder.as_ref();
    let prefix = match part {
        Part::Train => "train",
        Part::Test => "t10k",
    };
    let image_path = find(folder, &format!("{prefix}-images"), "idx3-ubyte")?;
    let label_path = find(folder, &format!("{prefix}-labels"), "idx1-ubyte")?;
    let read = |path: &Path| file::read(path).and_then(|b| array(&b)).map_err(|e| e.with_path(path));
    let (images, labels) = (read(&image_path)?, read(&label_path)?);
    let wrong = |path: &Path, expected: String, a: &Array| {
        damaged(0, expected, format!("{} {:?}", a.dtype, a.shape)).with_path(path)
    };
    let (&[n, height, width], DType::U8) = (images.shape.as_slice(), images.dtype) else {
        return Err(wrong(&image_path, "u8 images [n, height, width]".into(), &images));
    };
    if labels.shape != [n] || labels.dtype != DType::U8 {
        return Err(wrong(&label_path, format!("u8 labels [{n}]"), &labels));
    }
    let count = labels.data.iter().max().map_or(0, |&m| usize::from(m) + 1).max(10);
    let classes = (0..count).map(|c| c.to_string()).collect();
    Ok(LabeledImages::new([1, height, width], images.data, labels.data, classes)?)
}

/// One of a file's usual names.
fn find(folder: &Path, name: &str, kind: &str) -> ReadResult<PathBuf> {
    let names =
        [format!("{name}-{kind}"), format!("{name}.{kind}"), format!("{name}-{kind}.gz"), format!("{name}.{kind}.gz")];
    match names.iter().map(|n| folder.join(n)).find(|p| p.is_file()) {
        Some(path) => Ok(path),
        None => {
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, format!("no {}", names.join(" or ")));
            Err(ReadError::io("cannot find MNIST here", missing).with_path(folder))
        }
    }
}
