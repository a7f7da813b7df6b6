//! One NumPy array: a magic, a Python dictionary as text, the elements.
//!
//! ```
//! use gradus_core::Tensor;
//! use gradus_io::npy;
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("x.npy");
//! npy::save(&path, &Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]))?;
//! assert_eq!(npy::load(&path)?.dims(), [2, 2]); // in Python: numpy.load("x.npy")
//! # Ok::<(), gradus_io::Error>(())
//! ```

mod literal;

use crate::{
    Entry, Error, Format, Info, Metadata, Result, StateDict, UNNAMED, atomic_write, bytes::Cursor, bytes::FileBytes,
    error::shorten, strided,
};
use gradus_core::{DType, Tensor};
use std::path::Path;

pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
const MAX_RANK: usize = 64;

/// What stands before the elements.
pub(crate) struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
    /// Where the elements begin.
    data: usize,
}

impl Header {
    /// Reads the header; `format` is for messages (an array may be inside an npz), as are offsets from `base` on.
    pub fn parse(bytes: &[u8], format: Format, base: u64) -> Result<Header> {
        let mut c = Cursor::new(bytes, format).based(base);
        let magic = c.take(MAGIC.len() as u64, "magic")?;
        if magic != MAGIC {
            return Err(Error::malformed(format, "the magic \\x93NUMPY", format!("{magic:02x?}")).at(base));
        }
        let (major, minor) = (c.u8("version")?, c.u8("version")?);
        let len = match major {
            1 => u64::from(c.u16("header length")?),
            2 | 3 => u64::from(c.u32("header length")?),
            _ => return Err(c.fault("version 1, 2 or 3", format!("{major}.{minor}"))),
        };
        let start = c.offset();
        let text = c.take(len, "header")?;
        let (descr, fortran, shape) = literal::parse(text, format, start)?;
        if shape.len() > MAX_RANK {
            return Err(
                Error::malformed(format, format!("at most {MAX_RANK} axes"), format!("{}", shape.len())).at(start)
            );
        }
        Ok(Header { descr, fortran, shape, data: c.position() })
    }

    /// The element type, and whether the bytes must be turned around; `None` for types not supported.
    fn dtype(&self) -> Option<(DType, bool)> {
        let (order, kind) = match self.descr.as_bytes() {
            [order @ (b'<' | b'>' | b'|' | b'='), kind @ ..] => (*order, kind),
            kind => (b'=', kind),
        };
        let dtype = match kind {
            b"b1" | b"?" => DType::Bool,
            b"i1" => DType::I8,
            b"u1" => DType::U8,
            b"i2" => DType::I16,
            b"i4" => DType::I32,
            b"i8" => DType::I64,
            b"f2" => DType::F16,
            b"f4" => DType::F32,
            b"f8" => DType::F64,
            _ => return None,
        };
        Some((dtype, order == b'>' && dtype.size() > 1))
    }

    /// Bytes of elements, in an array of `total` bytes.
    pub fn data_bytes(&self, total: u64) -> u64 {
        total.saturating_sub(self.data as u64)
    }

    pub fn entry(&self, name: &str, bytes: u64) -> Entry {
        Entry {
            name: name.into(),
            dtype_name: self.descr.clone(),
            dtype: self.dtype().map(|(d, _)| d),
            shape: self.shape.clone(),
            bytes,
        }
    }
}

/// The array in `bytes`, whose start is byte `base` of a file of `format`.
pub(crate) fn read(bytes: &[u8], name: &str, format: Format, base: u64) -> Result<Tensor> {
    let h = Header::parse(bytes, format, base)?;
    let at = base.saturating_add(h.data as u64);
    let Some((dtype, swap)) = h.dtype() else {
        return Err(Error::dtype(name, h.descr).at(base));
    };
    let data = bytes.get(h.data..).unwrap_or_default();
    let need = strided::numel(&h.shape).and_then(|n| n.checked_mul(dtype.size()));
    if need != Some(data.len()) {
        let need = need.map_or("more than 2^64".into(), |n| n.to_string());
        let e = Error::malformed(format, format!("{need} bytes for {dtype} {:?}", h.shape), format!("{}", data.len()));
        return Err(e.at(at).hint("one array a file; a shorter one was not written, or not copied, to its end"));
    }
    let swapped;
    let data = if swap {
        swapped = strided::swapped(data, dtype.size());
        &swapped
    } else {
        data
    };
    if !h.fortran {
        return strided::tensor(name, data, &h.shape, dtype).map_err(|e| e.at(at));
    }
    // Column-major is row-major with the axes in reverse.
    let mut strides: Vec<usize> = strided::row_major(&h.shape.iter().rev().copied().collect::<Vec<_>>());
    strides.reverse();
    let data = strided::gather(data, dtype.size(), &h.shape, &strides)
        .ok_or_else(|| Error::malformed(format, "elements inside the file", "some outside").at(at))?;
    strided::tensor(name, &data, &h.shape, dtype).map_err(|e| e.at(at))
}

/// Reads an array that is in memory.
pub fn from_bytes(bytes: &[u8]) -> Result<Tensor> {
    read(bytes, UNNAMED, Format::Npy, 0)
}

/// Reads an array: versions 1 to 3, either byte order, row- or column-major.
pub fn load(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    from_bytes(&FileBytes::open(path)?).map_err(|e| e.with_path(path))
}

/// Describes an array that is in memory.
pub fn inspect(bytes: &[u8]) -> Result<Info> {
    let h = Header::parse(bytes, Format::Npy, 0)?;
    let entry = h.entry(UNNAMED, h.data_bytes(bytes.len() as u64));
    Ok(Info { format: Format::Npy, entries: vec![entry], metadata: Metadata::new() })
}

/// The bytes that [`save`] writes.
pub fn to_bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let (mut header, data) = encode(UNNAMED, tensor, Format::Npy)?;
    header.extend(data);
    Ok(header)
}

/// Writes an array, whole or not at all. NumPy has no bf16: cast such a tensor to f32 first.
pub fn save(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let (header, data) = encode(UNNAMED, tensor, Format::Npy).map_err(|e| e.with_path(path))?;
    atomic_write(path, |w| {
        w.write_all(&header)?;
        Ok(w.write_all(&data)?)
    })
}

pub(crate) fn save_state(path: &Path, state: &StateDict) -> Result<()> {
    refuse_metadata(state, Format::Npy)?;
    match (state.iter().next(), state.len()) {
        (Some((_, t)), 1) => save(path, t),
        (_, n) => Err(Error::unsupported(Format::Npy, format!("it holds exactly one tensor, and the state has {n}"))
            .hint("save as .npz or .safetensors")),
    }
}

/// NumPy's formats have no place for metadata, and dropping it in silence would be a loss.
pub(crate) fn refuse_metadata(state: &StateDict, format: Format) -> Result<()> {
    match state.metadata().keys().next() {
        None => Ok(()),
        Some(key) => Err(Error::unsupported(format, format!("it cannot hold the metadata `{}`", shorten(key)))
            .hint("save as .safetensors, or empty the metadata first with metadata_mut().clear()")),
    }
}

/// The header and the elements.
pub(crate) fn encode(name: &str, tensor: &Tensor, format: Format) -> Result<(Vec<u8>, Vec<u8>)> {
    let descr = match tensor.dtype() {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::BF16 => {
            let what = format!("tensor `{}` is bf16, which NumPy does not have", shorten(name));
            return Err(Error::unsupported(format, what).hint("cast it to f32, or save as .safetensors"));
        }
    };
    let dims: Vec<String> = tensor.dims().iter().map(usize::to_string).collect();
    let shape = dims.join(", ") + if dims.len() == 1 { "," } else { "" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Spaces and a line end bring the elements to a multiple of 64, as NumPy does. 64 axes stay far below 64 KiB.
    let before = MAGIC.len() + 4;
    let padded = (before + text.len() + 1).next_multiple_of(64) - before;
    text.extend(std::iter::repeat_n(' ', padded - text.len() - 1));
    text.push('\n');
    let Ok(len) = u16::try_from(text.len()) else {
        return Err(Error::unsupported(format, format!("a shape of {} axes is too long", dims.len())));
    };
    let data = tensor.to_bytes().map_err(|e| Error::tensor(name, e))?;
    let header = [MAGIC, &[1, 0], &len.to_le_bytes(), text.as_bytes()].concat();
    Ok((header, data))
}
