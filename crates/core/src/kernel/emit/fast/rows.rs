//! Reductions along memory: a few lanes, a warp or a block take a row, several blocks where rows are few.

use super::super::{
    body::{Body, Dialect},
    cuda::Cuda,
};
use super::{
    THREADS, Writer, identity, kept, reductions_behind, rows_behind,
    vector::{Chunk, Vectors, access},
};
use crate::{
    Result,
    kernel::{InstKind, Level, Val},
};

/// Elements of a row that a thread takes, at most, before the row gets more threads.
const EACH: usize = 32;
/// Registers that a thread may use to keep what it has loaded.
const KEPT: usize = 64;
/// Threads of a block whose rows are loops.
const LOOP_THREADS: usize = 512;
/// Rows are split where fewer than this many blocks would work on a multiprocessor ...
const BLOCKS_EACH: usize = 4;
/// ... and there are at least so many elements a block.
const SPLIT_LEAST: usize = 4096;

/// Writes the kernel.
pub(super) fn write(w: &mut Writer<'_>) -> Result<bool> {
    let s = w.s;
    let k = &s.kernel;
    if k.reduce.is_empty() {
        return Ok(false); // one element a row: nothing to share
    }
    let vectors = Vectors::new(s, k.map.len() + k.reduce.len() - 1, w.target.aligned);
    w.align(&vectors);
    let wanted = (w.target.multiprocessors * BLOCKS_EACH).div_ceil(s.rows);
    let splits = wanted.min(s.cols / SPLIT_LEAST);
    if splits > 1 {
        split(w, &vectors, splits)?
    } else if !kept::write(w, &vectors, lanes(s.cols, vectors.n))? {
        whole(w, &vectors)?
    }
    Ok(true)
}

/// Lanes a row.
fn lanes(cols: usize, n: usize) -> usize {
    let vectors = cols.div_ceil(n);
    if vectors <= 32 {
        return vectors.next_power_of_two();
    }
    vectors.div_ceil((EACH / n).max(1)).next_power_of_two().clamp(32, 1024)
}

/// One launch: rows side by side in a block, or a block a row.
fn whole(w: &mut Writer<'_>, v: &Vectors) -> Result<()> {
    let s = w.s;
    let k = &s.kernel;
    let lanes = lanes(s.cols, v.n);
    let rounds = s.cols.div_ceil(lanes * v.n);
    // Rows of a warp or less share a block; a longer one has a block to itself.
    let threads = if lanes > 32 { lanes } else { 128 };
    let together = threads / lanes;
    let kept = kept(w, v, rounds);
    let unrolled = rounds * v.n <= 2 * EACH;
    let threads = if !unrolled && lanes == 1024 { LOOP_THREADS } else { threads };
    let lanes = lanes.min(threads);
    let mut b = w.body();
    let tid = "threadIdx.x";
    if together == 1 {
        b.define_index("lane", tid);
        b.define_index("r", "blockIdx.x");
    } else {
        b.define_index("lane", &format!("{tid} % {lanes}"));
        b.define_index("q", &format!("blockIdx.x * {together} + {tid} / {lanes}"));
        if s.rows.is_multiple_of(together) {
            b.define_index("r", "q");
        } else {
            // Lanes without a row work on the last one, and keep what they find to themselves.
            b.line(&format!("const bool live = q < {};", s.rows));
            b.define_index("r", &format!("live ? q : {}", s.rows - 1));
            b.guards.elem = Some("live".into());
        }
    }
    let lead = if b.guards.elem.is_some() { "live && lane == 0" } else { "lane == 0" };
    b.guards.row = Some(lead.into());
    b.guards.uniform = Some(format!("r == 0 && {lead}"));
    for &u in &s.uniforms {
        b.inst(u)?;
    }
    b.unravel(true);
    if unrolled {
        for &l in &kept {
            let text = format!("{} w{l}[{rounds}];", v.pack(k, l));
            b.line(&text);
        }
    }
    let mut loaded: Vec<Val> = vec![];
    for p in &s.passes {
        for &i in &p.rows {
            b.inst(i)?;
        }
        if p.elems.is_empty() {
            continue;
        }
        accumulators(&mut b, v, &p.reduces);
        let step = lanes * v.n;
        if unrolled {
            b.line("#pragma unroll");
            b.open(&format!("for (int i = 0; i < {rounds}; ++i)"));
            b.define_index("c", &format!("(i * {lanes} + lane) * {}", v.n));
            let exact = s.cols.is_multiple_of(step);
            if !exact {
                b.open(&format!("if (c < {})", s.cols));
            }
            b.unravel(false);
            let cached: Vec<(Val, String, bool)> = kept
                .iter()
                .filter(|l| p.elems.contains(l))
                .map(|&l| (l, format!("w{l}[i]"), !loaded.contains(&l)))
                .collect();
            b.chunk(&Chunk { vectors: v, values: &p.elems, given: &[], cached: &cached })?;
            loaded.extend(cached.iter().map(|c| c.0));
            if !exact {
                b.close();
            }
            b.close();
        } else {
            stride_loop(&mut b, v, &p.elems, &format!("lane * {}", v.n), &s.cols.to_string(), step)?;
        }
        combine_lanes(&mut b, v, &p.reduces, lanes)?;
        // Numbers of 16 bits stay as they are: the compiler would keep them as f32, in twice the registers.
        let halves = kept.iter().filter(|&&l| access(k, l).is_some_and(|(_, arg)| k.args[arg].dtype.size() == 2));
        for &l in halves.filter(|l| unrolled && v.n > 1 && loaded.contains(l)) {
            b.line("#pragma unroll");
            b.line(&format!("for (int i = 0; i < {rounds}; ++i) {{ g_keep(w{l}[i]); }}"));
        }
    }
    w.entry(b, s.rows.div_ceil(together), threads);
    Ok(())
}

/// A loop over the vectors of a row from `from` (a lane's own) to `to`.
fn stride_loop(b: &mut Body<'_, Cuda>, v: &Vectors, elems: &[Val], from: &str, to: &str, step: usize) -> Result<()> {
    b.line("#pragma unroll 4");
    let head = b.d.count("c", from, to, &step.to_string());
    b.open(&head);
    b.unravel(false);
    b.chunk(&Chunk { vectors: v, values: elems, given: &[], cached: &[] })?;
    b.close();
    Ok(())
}

/// Loads of elements that several passes need, where registers hold them.
fn kept(w: &Writer<'_>, v: &Vectors, rounds: usize) -> Vec<Val> {
    let s = w.s;
    let k = &s.kernel;
    let (mut out, mut used) = (vec![], 0);
    for l in 0..k.insts.len() {
        let Some((_, arg)) = access(k, l) else { continue };
        let load = matches!(k.insts[l].kind, InstKind::Load { .. }) && k.insts[l].level == Level::Elem;
        let passes = s.passes.iter().filter(|p| p.elems.contains(&l)).count();
        let registers = (rounds * v.n * k.args[arg].dtype.size()).div_ceil(4);
        if load && v.whole[l] && v.varies[l] && passes > 1 && used + registers <= KEPT {
            used += registers;
            out.push(l);
        }
    }
    out
}

/// An accumulator an element of the vectors.
pub(super) fn accumulators(b: &mut Body<'_, Cuda>, v: &Vectors, reduces: &[Val]) {
    for &x in reduces {
        let start = identity(b.s, b.d, x);
        let (ty, n) = (b.register(x), v.n);
        b.line(&format!("{ty} a{x}[{n}];"));
        b.line("#pragma unroll");
        b.line(&format!("for (int e = 0; e < {n}; ++e) {{ a{x}[e] = {start}; }}"));
    }
}

/// Each thread's accumulators become one, and those of all lanes of a row the value of the reduction, in every lane.
pub(super) fn combine_lanes(b: &mut Body<'_, Cuda>, v: &Vectors, reduces: &[Val], lanes: usize) -> Result<()> {
    for &x in reduces {
        // Neighbours first: a tree whatever the width.
        let mut half = v.n / 2;
        while half > 0 {
            for e in 0..half {
                let both = b.combine(x, &format!("a{x}[{e}]"), &format!("a{x}[{}]", e + half))?;
                b.line(&format!("a{x}[{e}] = {both};"));
            }
            half /= 2;
        }
        let text = b.d.variable(b.register(x), &format!("t{x}"), &format!("a{x}[0]"));
        b.line(&text);
    }
    reduce_lanes(b, reduces, lanes)
}

/// `t` of all lanes combined: value `v` in every lane.
fn reduce_lanes(b: &mut Body<'_, Cuda>, reduces: &[Val], lanes: usize) -> Result<()> {
    for &x in reduces {
        exchange(b, x, lanes.min(32))?;
    }
    if lanes > 32 && !reduces.is_empty() {
        let warps = lanes / 32;
        for &x in reduces {
            let ty = b.register(x);
            b.line(&format!("__shared__ {ty} s{x}[{warps}];"));
            b.line(&format!("if (threadIdx.x % 32 == 0) {{ s{x}[threadIdx.x / 32] = t{x}; }}"));
        }
        b.line("__syncthreads();");
        for &x in reduces {
            b.line(&format!("t{x} = s{x}[threadIdx.x % {warps}];"));
            exchange(b, x, warps)?;
        }
    }
    for &x in reduces {
        let text = b.d.define(b.register(x), &format!("v{x}"), &format!("t{x}"));
        b.line(&text);
    }
    Ok(())
}

/// Butterflies over groups of `width` lanes of a warp.
fn exchange(b: &mut Body<'_, Cuda>, x: Val, width: usize) -> Result<()> {
    let mut by = width / 2;
    while by > 0 {
        let other = match b.register(x) {
            "bool" => format!("(__shfl_xor_sync(0xffffffffu, (int)t{x}, {by}) != 0)"),
            _ => format!("__shfl_xor_sync(0xffffffffu, t{x}, {by})"),
        };
        // The exchange has a statement of its own: a combination may read its operands twice, or not at all.
        let both = b.combine(x, &format!("t{x}"), "other")?;
        let ty = b.register(x);
        b.line(&format!("{{ const {ty} other = {other}; t{x} = {both}; }}"));
        by /= 2;
    }
    Ok(())
}

/// Several blocks a row: a launch a pass, partial results in scratch memory.
fn split(w: &mut Writer<'_>, v: &Vectors, splits: usize) -> Result<()> {
    let s = w.s;
    let threads = THREADS;
    let step = threads * v.n;
    let span = s.cols.div_ceil(splits).next_multiple_of(step);
    let splits = s.cols.div_ceil(span);
    let places: Vec<(Val, usize)> =
        s.passes.iter().flat_map(|p| p.reduces.clone()).map(|x| (x, w.take_scratch(s.rows * splits))).collect();
    let place = |x: Val| places.iter().find(|p| p.0 == x).map_or(0, |p| p.1);
    for p in &s.passes {
        let mut b = w.body();
        let of = if p.elems.is_empty() { 1 } else { splits };
        b.define_index("lane", "threadIdx.x");
        b.define_index("r", &if of == 1 { "blockIdx.x".into() } else { format!("blockIdx.x / {of}") });
        b.define_index("part", &if of == 1 { "0".into() } else { format!("blockIdx.x % {of}") });
        for &u in &s.uniforms {
            b.inst(u)?;
        }
        b.unravel(true);
        let roots: Vec<Val> = p.rows.iter().chain(&p.elems).copied().collect();
        // What earlier launches found, and what follows from it.
        let known = reductions_behind(s, &roots);
        let known: Vec<Val> = known.into_iter().filter(|x| !p.reduces.contains(x)).collect();
        for &x in &known {
            let (ty, start) = (b.register(x), identity(s, w.d, x));
            b.line(&format!("{ty} t{x} = {start};"));
            let at = place(x);
            let head = b.d.count("i", "lane", &splits.to_string(), &threads.to_string());
            b.open(&head);
            b.line(&format!("const {ty} other = ((const {ty}*)(scratch + {at}))[r * {splits} + i];"));
            let both = b.combine(x, &format!("t{x}"), "other")?;
            b.line(&format!("t{x} = {both};"));
            b.close();
        }
        reduce_lanes(&mut b, &known, threads)?;
        let before: Vec<Val> = rows_behind(s, &roots).into_iter().filter(|i| !p.rows.contains(i)).collect();
        let mut rows: Vec<Val> = before.into_iter().chain(p.rows.iter().copied()).collect();
        rows.sort_unstable();
        b.guards.row = Some("part == 0 && lane == 0".into());
        b.guards.uniform = Some("r == 0 && part == 0 && lane == 0".into());
        for i in rows {
            b.inst(i)?;
        }
        if !p.elems.is_empty() {
            accumulators(&mut b, v, &p.reduces);
            b.define_index("from", &format!("part * {span}"));
            b.define_index("to", &format!("from + {span} < {0} ? from + {span} : {0}", s.cols));
            stride_loop(&mut b, v, &p.elems, &format!("from + lane * {}", v.n), "to", step)?;
            combine_lanes(&mut b, v, &p.reduces, threads)?;
            for &x in &p.reduces {
                let (ty, at) = (b.register(x), place(x));
                b.line(&format!("if (lane == 0) {{ (({ty}*)(scratch + {at}))[r * {splits} + part] = v{x}; }}"));
            }
        }
        if p.elems.is_empty() && p.rows.is_empty() {
            continue;
        }
        w.entry(b, s.rows * of, threads);
    }
    Ok(())
}
