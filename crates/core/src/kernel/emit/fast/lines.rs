//! Kernels without a reduction: a thread takes vectors.

use super::{
    THREADS, Writer,
    vector::{Chunk, Vectors},
};
use crate::{Result, kernel::Level};

/// Blocks of a small kernel that are to fit a multiprocessor.
const AT_ONCE: usize = 6;
/// Arguments and instructions of a small kernel.
const SMALL_ARGS: usize = 4;
const SMALL_INSTS: usize = 24;

/// Writes the kernel, if it is of this kind.
pub(super) fn write(w: &mut Writer<'_>) -> Result<bool> {
    let s = w.s;
    let k = &s.kernel;
    if k.map.is_empty() || !k.reduce.is_empty() || k.insts.iter().any(|i| i.level == Level::Row) {
        return Ok(false);
    }
    let Some(pass) = s.passes.first().filter(|p| s.passes.len() == 1 && p.rows.is_empty()) else { return Ok(false) };
    let vectors = Vectors::new(s, k.map.len() - 1, w.target.aligned);
    w.align(&vectors);
    let count = s.rows / vectors.n;
    // Two vectors a thread keep more of memory busy, where there are threads enough.
    let each = if count >= w.target.multiprocessors * THREADS * 16 { 2 } else { 1 };
    let mut b = w.body();
    for &v in &s.uniforms {
        b.inst(v)?;
    }
    let index = w.d.index;
    b.line(&format!("const {index} first = ({index})blockIdx.x * {} + threadIdx.x;", THREADS * each));
    if each > 1 {
        b.line("#pragma unroll");
        b.open(&format!("for (int u = 0; u < {each}; ++u)"));
        b.define_index("q", &format!("first + u * {THREADS}"));
    } else {
        b.define_index("q", "first");
    }
    let exact = count.is_multiple_of(THREADS * each);
    if !exact {
        b.open(&format!("if (q < {count})"));
    }
    b.define_index("r", &if vectors.n > 1 { format!("q * {}", vectors.n) } else { "q".into() });
    b.unravel(true);
    b.chunk(&Chunk { vectors: &vectors, values: &pass.elems, given: &[], cached: &[] })?;
    if !exact {
        b.close();
    }
    if each > 1 {
        b.close();
    }
    // The compiler would give a small kernel more registers than it needs: 40 are enough, and 7 % faster where functions are
    // many (the chain of the benchmark).
    let small =
        k.args.len() <= SMALL_ARGS && k.insts.len() <= SMALL_INSTS && k.args.iter().all(|a| a.dtype.size() <= 4);
    let at_once = (each > 1 && small).then_some(AT_ONCE);
    w.entry_with(b, count.div_ceil(THREADS * each), THREADS, 0, at_once);
    Ok(true)
}
