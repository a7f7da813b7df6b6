//! Long rows that several passes read, kept in shared memory as they are stored.
//!
//! Kept in registers, a row of this length takes all of a multiprocessor: its loads wait for nothing, and nothing goes on
//! while they wait. In shared memory two rows fit, and one is loaded (without registers, so all of it at once) or written
//! while the other is computed.

use super::{
    super::body::Dialect,
    Writer,
    rows::{accumulators, combine_lanes},
    vector::{Chunk, Vectors, access},
};
use crate::{
    Result,
    kernel::{InstKind, Level, Val},
};

/// Threads of a block.
const THREADS: usize = 512;
/// Shared memory of a block beside the rows: reductions have some, and the system takes its part.
const BESIDE: usize = 4 << 10;

/// Writes the kernel, if its rows are such.
pub(super) fn write(w: &mut Writer<'_>, v: &Vectors, lanes: usize) -> Result<bool> {
    let s = w.s;
    let k = &s.kernel;
    // Fewer lanes leave room for a second block in any case.
    if lanes < 1024 {
        return Ok(false);
    }
    let mut kept: Vec<(Val, usize)> = vec![];
    let mut shared = 0;
    for l in 0..k.insts.len() {
        let Some((_, arg)) = access(k, l) else { continue };
        let load = matches!(k.insts[l].kind, InstKind::Load { .. }) && k.insts[l].level == Level::Elem;
        let passes = s.passes.iter().filter(|p| p.elems.contains(&l)).count();
        if load && v.whole[l] && v.varies[l] && passes > 1 {
            kept.push((l, shared));
            shared += (s.cols * k.args[arg].dtype.size()).next_multiple_of(16);
        }
    }
    if kept.is_empty() || shared > (w.target.shared / 2).saturating_sub(BESIDE) {
        return Ok(false);
    }
    let mut b = w.body();
    b.define_index("lane", "threadIdx.x");
    b.define_index("r", "blockIdx.x");
    b.guards.row = Some("lane == 0".into());
    b.guards.uniform = Some("r == 0 && lane == 0".into());
    b.line("#ifdef __CUDA_ARCH__");
    b.line("extern __shared__ uint4 room[];");
    b.line("unsigned char* const kept = (unsigned char*)room;");
    b.line("#else");
    b.line(&format!("alignas(16) static unsigned char kept[{shared}];"));
    b.line("#endif");
    for &u in &s.uniforms {
        b.inst(u)?;
    }
    b.unravel(true);
    let (from, to, step) = (format!("lane * {}", v.n), s.cols.to_string(), (THREADS * v.n).to_string());
    let head = b.d.count("c", &from, &to, &step);
    b.line("#pragma unroll 8");
    b.open(&head);
    b.unravel(false);
    for &(l, at) in &kept {
        let Some((a, arg)) = access(k, l) else { continue };
        let (size, pack, address) = (k.args[arg].dtype.size(), v.pack(k, l), b.address(a));
        if (size * v.n).is_multiple_of(16) {
            for i in 0..size * v.n / 16 {
                b.line(&format!(
                    "g_copy_16(kept + {} + c * {size}, (const char*)(b{arg} + ({address})) + {});",
                    at + 16 * i,
                    16 * i
                ));
            }
        } else {
            b.line(&format!("*({pack}*)(kept + {at} + c * {size}) = *(const {pack}*)(b{arg} + ({address}));"));
        }
    }
    b.close();
    // Every thread reads back what it copied itself: there is nobody else to wait for.
    b.line("g_copied();");
    for p in &s.passes {
        for &i in &p.rows {
            b.inst(i)?;
        }
        if p.elems.is_empty() {
            continue;
        }
        accumulators(&mut b, v, &p.reduces);
        b.line("#pragma unroll 4");
        b.open(&head);
        b.unravel(false);
        let mut cached = vec![];
        for &(l, at) in kept.iter().filter(|(l, _)| p.elems.contains(l)) {
            let (size, pack) = (access(k, l).map_or(1, |(_, arg)| k.args[arg].dtype.size()), v.pack(k, l));
            b.line(&format!("const {pack} w{l} = *(const {pack}*)(kept + {at} + c * {size});"));
            cached.push((l, format!("w{l}"), false));
        }
        b.chunk(&Chunk { vectors: v, values: &p.elems, given: &[], cached: &cached })?;
        b.close();
        combine_lanes(&mut b, v, &p.reduces, THREADS)?;
    }
    w.entry_with(b, s.rows, THREADS, shared, Some(2));
    Ok(true)
}
