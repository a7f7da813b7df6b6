//! The header: checked in full before any of it is believed.

use super::json::Json;
use crate::{Entry, Error, Format, Info, Meta, Metadata, Result, bytes::Cursor, error::shorten, strided};
use gradus_core::DType;
use std::collections::HashSet;

/// The reference implementation takes no longer header either.
const MAX_HEADER: u64 = 100_000_000;
const MAX_RANK: usize = 64;

/// One tensor; `begin` and `end` count from the file's start.
pub struct Item {
    pub name: String,
    pub dtype: String,
    pub shape: Vec<usize>,
    pub begin: u64,
    pub end: u64,
}

pub struct Header {
    pub tensors: Vec<Item>,
    pub metadata: Metadata,
}

/// Whether the bytes could be of this format: a length that fits, and a JSON object after it.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    bytes.get(8) == Some(&b'{')
        && bytes.first_chunk().is_some_and(|n| u64::from_le_bytes(*n) <= MAX_HEADER.max(bytes.len() as u64))
}

/// The element type of this name in the format.
pub fn dtype(name: &str) -> Option<DType> {
    DType::ALL.into_iter().find(|&d| dtype_name(d) == name)
}

/// The format's name of an element type.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
    }
}

impl Header {
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        let mut cursor = Cursor::new(bytes, Format::Safetensors);
        let len = cursor.u64("the header's length")?;
        if len > MAX_HEADER {
            let expected = format!("a header of at most {MAX_HEADER} bytes");
            return Err(Error::malformed(Format::Safetensors, expected, format!("a length of {len}")).at(0));
        }
        let text =
            cursor.take(len, "header").map_err(|e| e.hint("the file was not written, or not copied, to its end"))?;
        let data = cursor.offset();
        let mut header = Header { tensors: vec![], metadata: Metadata::new() };
        let mut names = HashSet::new();
        let mut json = Json::new(text, 8);
        json.object(|j, key| {
            if !names.insert(key.clone()) {
                return Err(j.0.fault("each name once", format!("`{}` twice", shorten(&key))));
            }
            if key == "__metadata__" {
                return metadata(j, &mut header.metadata);
            }
            header.tensors.push(item(j, key.into_owned(), data)?);
            Ok(())
        })?;
        if json.peek().is_some() {
            return Err(json.fault("only spaces after the header's `}`"));
        }
        header.check(data, bytes.len() as u64)?;
        Ok(header)
    }

    /// Each tensor fits its range, and the ranges fill the rest of the file without gap or overlap.
    fn check(&self, data: u64, len: u64) -> Result<()> {
        let mut order: Vec<&Item> = self.tensors.iter().collect();
        order.sort_by_key(|t| (t.begin, t.end));
        let mut at = data;
        for t in order {
            let name = shorten(&t.name);
            if t.begin != at {
                let expected = format!("the elements of `{name}` to begin where those before end, at {}", at - data);
                let found = format!("{}", t.begin.saturating_sub(data));
                return Err(Error::malformed(Format::Safetensors, expected, found).at(at));
            }
            let have = t.end.saturating_sub(t.begin);
            if let Some(d) = dtype(&t.dtype) {
                let need = strided::numel(&t.shape).and_then(|n| n.checked_mul(d.size()));
                if need.map(|n| n as u64) != Some(have) {
                    let need = need.map_or("more than 2^64".into(), |n| n.to_string());
                    let expected = format!("{need} bytes for `{name}`, {d} {:?}", t.shape);
                    return Err(Error::malformed(Format::Safetensors, expected, format!("{have}")).at(t.begin));
                }
            }
            at = t.end.max(t.begin);
        }
        if at != len {
            let e = Error::malformed(Format::Safetensors, format!("a file of {at} bytes"), format!("{len}"));
            return Err(e.at(at.min(len)).hint("the file was not written, or not copied, to its end"));
        }
        Ok(())
    }

    pub fn info(&self) -> Info {
        let entry = |t: &Item| Entry {
            name: t.name.clone(),
            dtype_name: t.dtype.clone(),
            dtype: dtype(&t.dtype),
            shape: t.shape.clone(),
            bytes: t.end.saturating_sub(t.begin),
        };
        Info {
            format: Format::Safetensors,
            entries: self.tensors.iter().map(entry).collect(),
            metadata: self.metadata.clone(),
        }
    }
}

fn metadata(j: &mut Json<'_>, out: &mut Metadata) -> Result<()> {
    if j.peek() == Some(b'n') {
        return j.skip(0);
    }
    j.object(|j, key| {
        let value = j.string()?.into_owned();
        out.insert(key.into_owned(), Meta::Str(value));
        Ok(())
    })
}

fn item(j: &mut Json<'_>, name: String, data: u64) -> Result<Item> {
    let (mut dtype, mut shape, mut range) = (None, None, None);
    let start = j.0.offset();
    j.object(|j, key| {
        match &*key {
            "dtype" => dtype = Some(j.string()?.into_owned()),
            "shape" => {
                let mut dims = vec![];
                j.array(|j| {
                    if dims.len() == MAX_RANK {
                        return Err(j.0.fault(format!("at most {MAX_RANK} axes"), "more"));
                    }
                    dims.push(usize::try_from(j.unsigned()?).unwrap_or(usize::MAX));
                    Ok(())
                })?;
                shape = Some(dims);
            }
            "data_offsets" => {
                j.expect(b'[', "of an array")?;
                let begin = j.unsigned()?;
                j.expect(b',', "between the two offsets")?;
                let end = j.unsigned()?;
                j.expect(b']', "after the two offsets")?;
                range = Some((data.saturating_add(begin), data.saturating_add(end)));
            }
            _ => j.skip(0)?,
        }
        Ok(())
    })?;
    match (dtype, shape, range) {
        (Some(dtype), Some(shape), Some((begin, end))) => Ok(Item { name, dtype, shape, begin, end }),
        _ => {
            let expected = format!("dtype, shape and data_offsets of `{}`", shorten(&name));
            Err(Error::malformed(Format::Safetensors, expected, "fewer").at(start))
        }
    }
}
