//! Writing: the header in the state's order, the elements largest type first so that all are aligned.

use super::{header::dtype_name, json::quote, strings};
use crate::{Error, Format, Result, StateDict, atomic_write, front::realize};
use gradus_core::Tensor;
use std::{cmp::Reverse, io::Write, path::Path};

/// Writes tensors and metadata (as text), whole or not at all.
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<()> {
    let path = path.as_ref();
    realize(state).map_err(|e| e.with_path(path))?;
    atomic_write(path, |w| write(w, state, None))
}

/// The bytes that [`save`] writes.
pub fn to_bytes(state: &StateDict) -> Result<Vec<u8>> {
    realize(state)?;
    let mut out = vec![];
    write(&mut out, state, None)?;
    Ok(out)
}

/// With a sum, its entry comes before all other metadata.
pub(super) fn write(w: &mut dyn Write, state: &StateDict, sum: Option<u32>) -> Result<()> {
    let tensors: Vec<(&str, &Tensor)> = state.iter().collect();
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    let key = |&i: &usize| tensors.get(i).map(|(_, t)| Reverse(t.dtype().size()));
    order.sort_by_key(key); // stable: equal sizes stay in the state's order
    let mut ranges = vec![(0usize, 0usize); tensors.len()];
    let mut at = 0usize;
    for &i in &order {
        if let (Some((name, t)), Some(range)) = (tensors.get(i), ranges.get_mut(i)) {
            if *name == "__metadata__" {
                let what = "`__metadata__` cannot name a tensor: the format keeps it for itself";
                return Err(Error::unsupported(Format::Safetensors, what));
            }
            let end = at.saturating_add(t.numel().saturating_mul(t.dtype().size()));
            *range = (at, end);
            at = end;
        }
    }

    let mut header = String::from("{");
    let sum = sum.map(|sum| ("CRC32", format!("{sum:08x}")));
    // A sum that came with the state is of another file.
    let others = strings(state.metadata()).filter(|(key, _)| sum.is_none() || *key != "CRC32");
    let entries: Vec<(&str, String)> = sum.clone().into_iter().chain(others).collect();
    if !entries.is_empty() {
        header.push_str("\"__metadata__\":{");
        for (i, (key, value)) in entries.iter().enumerate() {
            header.push_str(if i == 0 { "" } else { "," });
            quote(key, &mut header);
            header.push(':');
            quote(value, &mut header);
        }
        header.push('}');
    }
    for ((name, t), (begin, end)) in tensors.iter().zip(&ranges) {
        header.push_str(if header.len() == 1 { "" } else { "," });
        quote(name, &mut header);
        let (dtype, shape) = (dtype_name(t.dtype()), t.dims());
        header.push_str(&format!(r#":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#));
    }
    header.push('}');
    // Spaces bring the elements to a multiple of eight, as the reference implementation does.
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));

    w.write_all(&(header.len() as u64).to_le_bytes())?;
    w.write_all(header.as_bytes())?;
    for &i in &order {
        if let Some((name, t)) = tensors.get(i) {
            w.write_all(&t.to_bytes().map_err(|e| Error::tensor(name, e))?)?;
        }
    }
    Ok(())
}
