//! Kernels without a reduction that read across the direction in which they write: a block takes a square and turns it
//! in shared memory, so that both sides of memory see neighbouring addresses.

use super::super::cuda::stored;
use super::{
    Writer,
    vector::{Chunk, Vectors, access},
};
use crate::{
    Result,
    kernel::{InstKind, Kernel, Level, Val},
};

/// Elements along each side of a square.
const SIDE: usize = 64;
/// Axes shorter than this are not worth it.
const LEAST: usize = 16;
const THREADS: usize = 256;
/// Shared memory for the squares of a block.
const MOST: usize = 48 << 10;

/// The map axis along which load `v` lies side by side, if that is not the last.
fn across(k: &Kernel, v: Val) -> Option<usize> {
    let InstKind::Load { access: a, .. } = &k.insts[v].kind else { return None };
    access(k, v)?;
    let last = k.map.len() - 1;
    let axis = (0..last).find(|&d| a.strides[d] == 1 && k.map[d] >= LEAST)?;
    let far = a.strides[last].unsigned_abs() >= LEAST;
    (a.bounds.is_empty() && a.lookup.is_empty() && far).then_some(axis)
}

/// Writes the kernel, if it is of this kind.
pub(super) fn write(w: &mut Writer<'_>) -> Result<bool> {
    let s = w.s;
    let k = &s.kernel;
    if k.map.len() < 2 || !k.reduce.is_empty() || k.insts.iter().any(|i| i.level == Level::Row) {
        return Ok(false);
    }
    let Some(pass) = s.passes.first().filter(|p| s.passes.len() == 1 && p.rows.is_empty()) else { return Ok(false) };
    let last = k.map.len() - 1;
    let writes_along = |v: Val| match &k.insts[v].kind {
        InstKind::Store { access: a, .. } => a.strides[last] == 1,
        _ => true,
    };
    let Some(turn) = (0..k.insts.len()).find_map(|v| across(k, v)) else { return Ok(false) };
    let turned: Vec<Val> = (0..k.insts.len()).filter(|&v| across(k, v) == Some(turn)).collect();
    let pitch = SIDE + 1;
    let bytes: usize = turned.iter().map(|&v| SIDE * pitch * k.insts[v].dtype.size()).sum();
    if k.map[last] < LEAST || bytes > MOST || !(0..k.insts.len()).all(writes_along) {
        return Ok(false);
    }
    // Vectors along both sides, where all goes as a whole.
    let n = if w.target.aligned && k.map[last].is_multiple_of(4) && k.map[turn].is_multiple_of(4) { 4 } else { 1 };
    let (mut out, mut into) = (Vectors::exactly(k, last, n), Vectors::exactly(k, turn, n));
    let fits = |v: &Val| into.whole[*v];
    let n = if turned.iter().all(fits) { n } else { 1 };
    if n == 1 {
        (out, into) = (Vectors::exactly(k, last, 1), Vectors::exactly(k, turn, 1));
    }
    for &v in &turned {
        out.whole[v] = false; // read from the square, not from memory
    }
    let others: Vec<Val> = (0..k.insts.len()).filter(|v| !turned.contains(v)).collect();
    others.iter().for_each(|&v| into.whole[v] = false);
    w.align(&out);
    w.align(&into);
    let mut b = w.body();
    for &u in &s.uniforms {
        b.inst(u)?;
    }
    for &v in &turned {
        let arg = access(k, v).map_or(0, |a| a.1);
        b.line(&format!("__shared__ {} s{v}[{}];", stored(k.args[arg].dtype), SIDE * pitch));
    }
    // Which square: neighbours along the last axis first.
    let (wide, high) = (k.map[last].div_ceil(SIDE), k.map[turn].div_ceil(SIDE));
    let rest: Vec<usize> = (0..last).filter(|&d| d != turn).collect();
    b.define_index("right", &format!("(blockIdx.x % {wide}) * {SIDE}"));
    b.define_index("down", &format!("(blockIdx.x / {wide} % {high}) * {SIDE}"));
    let mut inner = wide * high;
    for &d in rest.iter().rev() {
        let name = b.axis(d);
        b.define_index(&name, &format!("blockIdx.x / {inner} % {}", k.map[d]));
        inner *= k.map[d];
    }
    let per = SIDE / n; // vectors along a side
    let high_step = THREADS / per;
    b.define_index("near", &format!("threadIdx.x % {per} * {n}"));
    b.define_index("far", &format!("threadIdx.x / {per}"));
    let (name_last, name_turn) = (b.axis(last), b.axis(turn));
    // In: neighbours along the turned axis.
    b.line("#pragma unroll");
    b.open(&format!("for (int i = 0; i < {}; ++i)", SIDE / high_step));
    b.define_index("row", &format!("far + i * {high_step}"));
    b.define_index(&name_last, "right + row");
    b.define_index(&name_turn, "down + near");
    b.open(&format!("if ({name_last} < {} && {name_turn} < {})", k.map[last], k.map[turn]));
    for &v in &turned {
        let Some((a, arg)) = access(k, v) else { continue };
        let pack = into.pack(k, v);
        let text = format!("const {pack} w{v} = *(const {pack}*)(b{arg} + ({}));", b.address(a));
        b.line(&text);
        b.line("#pragma unroll");
        b.line(&format!("for (int e = 0; e < {n}; ++e) {{ s{v}[(near + e) * {pitch} + row] = w{v}.x[e]; }}"));
    }
    b.close();
    b.close();
    b.line("__syncthreads();");
    // Out: neighbours along the last axis.
    b.line("#pragma unroll");
    b.open(&format!("for (int i = 0; i < {}; ++i)", SIDE / high_step));
    b.define_index("row", &format!("far + i * {high_step}"));
    b.define_index(&name_turn, "down + row");
    b.define_index(&name_last, "right + near");
    b.open(&format!("if ({name_last} < {} && {name_turn} < {})", k.map[last], k.map[turn]));
    for &v in &turned {
        b.at_hand.insert(v, format!("s{v}[row * {pitch} + near + e]"));
    }
    b.chunk(&Chunk { vectors: &out, values: &pass.elems, given: &[], cached: &[] })?;
    b.close();
    b.close();
    w.entry(b, inner, THREADS);
    Ok(true)
}
