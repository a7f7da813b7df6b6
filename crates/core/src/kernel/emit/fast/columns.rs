//! Reductions across memory: a block takes a strip of columns, with several threads along the reduction.

use super::super::{
    body::{Body, Dialect},
    cuda::Cuda,
};
use super::{
    THREADS, Writer, reductions_behind,
    rows::accumulators,
    rows_behind,
    vector::{Chunk, Vectors},
};
use crate::{
    Result,
    kernel::{InstKind, Val},
};

/// Blocks that should work on a multiprocessor.
const BLOCKS_EACH: usize = 6;
/// Elements that a thread should at least combine before the reduction is split.
const SPLIT_LEAST: usize = 8;
/// Sums over no more elements than this are small.
const SMALL: usize = 1 << 19;
/// Bytes of shared memory that every GPU gives a block.
const SHARED: usize = 48 << 10;
/// Threads along the columns of a narrow strip.
const NARROW: usize = 8;
/// A reduction is split into at most so many parts for each multiprocessor.
const SPLIT_MOST: usize = 4;
/// Up to so many parts are made one by every block that needs them.
const SHARED_PARTS: usize = 32;

/// How threads lie on a strip.
struct Strip {
    /// Threads along the columns and along the reduction.
    tx: usize,
    ty: usize,
    /// Blocks side by side.
    strips: usize,
    /// Blocks along the reduction.
    splits: usize,
    /// Elements along the reduction that one of these takes.
    span: usize,
}

/// Writes the kernel.
pub(super) fn write(w: &mut Writer<'_>) -> Result<bool> {
    let s = w.s;
    let k = &s.kernel;
    if k.map.is_empty() || k.reduce.is_empty() {
        return Ok(false);
    }
    let v = Vectors::new(s, k.map.len() - 1, w.target.aligned);
    w.align(&v);
    let columns = s.rows / v.n;
    // Wide strips are kind to memory; where little is read, narrow ones give every multiprocessor its part at once.
    let small = s.rows * s.cols <= SMALL;
    let mut tx = columns.next_power_of_two().min(32);
    while small && tx > NARROW && columns.div_ceil(tx) < w.target.multiprocessors {
        tx /= 2;
    }
    // A reduction has a value a thread and vector element in shared memory, one reduction after the other.
    let mut threads = if small { 2 * THREADS } else { THREADS };
    while threads > 32 && threads * v.n * 8 > SHARED {
        threads /= 2;
    }
    let tx = tx.min(threads);
    let ty = (threads / tx).min(s.cols.next_power_of_two());
    // Where the reduction is short the strip is wide.
    let tx = threads / ty;
    let strips = columns.div_ceil(tx);
    let wanted = (w.target.multiprocessors * BLOCKS_EACH).div_ceil(strips);
    let least = if small { 8 * SPLIT_LEAST } else { SPLIT_LEAST };
    let splits = wanted.min(s.cols / (ty * least)).clamp(1, SPLIT_MOST * w.target.multiprocessors.max(32));
    let span = s.cols.div_ceil(splits);
    let strip = Strip { tx, ty, strips, splits: s.cols.div_ceil(span), span };
    if strip.splits == 1 {
        whole(w, &v, &strip)?
    } else {
        split(w, &v, &strip)?
    }
    Ok(true)
}

fn head(b: &mut Body<'_, Cuda>, w: &Writer<'_>, v: &Vectors, t: &Strip, splits: usize) -> Result<()> {
    let columns = w.s.rows / v.n;
    b.line(&format!("__shared__ double shared[{}];", t.tx * t.ty * v.n));
    for &u in &w.s.uniforms {
        b.inst(u)?;
    }
    b.define_index("tx", &format!("threadIdx.x % {}", t.tx));
    b.define_index("ty", &format!("threadIdx.x / {}", t.tx));
    let strip = if splits == 1 { "blockIdx.x".to_string() } else { format!("blockIdx.x / {splits}") };
    b.define_index("q", &format!("{strip} * {} + tx", t.tx));
    let part = if splits == 1 { "0".to_string() } else { format!("blockIdx.x % {splits}") };
    b.define_index("part", &part);
    if columns.is_multiple_of(t.tx) {
        b.line("const bool live = true;");
        b.define_index("r", &format!("q * {}", v.n));
    } else {
        b.line(&format!("const bool live = q < {columns};"));
        b.define_index("r", &format!("(live ? q : 0) * {}", v.n));
    }
    b.guards.elem = Some("live".into());
    b.unravel(true);
    Ok(())
}

/// The values that are known, as expressions of an element.
fn given(known: &[Val]) -> Vec<(Val, String)> {
    known.iter().map(|x| (*x, format!("k{x}[e]"))).collect()
}

/// A pass over the elements of columns `from .. to` of the reduction: accumulators, then `k` of every reduction.
fn elements(b: &mut Body<'_, Cuda>, w: &Writer<'_>, v: &Vectors, t: &Strip, p: usize, ends: [&str; 2]) -> Result<()> {
    let s = w.s;
    let p = &s.passes[p];
    accumulators(b, v, &p.reduces);
    let known = reductions_behind(s, &p.elems);
    let known: Vec<Val> = known.into_iter().filter(|x| !p.reduces.contains(x)).collect();
    let mut values: Vec<Val> = rows_behind(s, &p.elems).into_iter().chain(p.elems.iter().copied()).collect();
    values.sort_unstable();
    b.line("#pragma unroll 4");
    let from = if ends[0] == "0" { "ty".to_string() } else { format!("{} + ty", ends[0]) };
    let head = b.d.count("c", &from, ends[1], &t.ty.to_string());
    b.open(&head);
    b.unravel(false);
    b.chunk(&Chunk { vectors: v, values: &values, given: &given(&known), cached: &[] })?;
    b.close();
    for &x in &p.reduces {
        gathered(b, v, t, x)?;
    }
    Ok(())
}

/// The accumulators `a` of all threads on a column become `k`, in each of them.
fn gathered(b: &mut Body<'_, Cuda>, v: &Vectors, t: &Strip, x: Val) -> Result<()> {
    let n = v.n;
    let ty = b.register(x);
    b.line(&format!("{ty} k{x}[{n}];"));
    if t.ty == 1 {
        b.line("#pragma unroll");
        b.line(&format!("for (int e = 0; e < {n}; ++e) {{ k{x}[e] = a{x}[e]; }}"));
        return Ok(());
    }
    // All reductions take turns in one piece of shared memory.
    b.line("__syncthreads();");
    b.line(&format!("{ty}* const s{x} = ({ty}*)shared;"));
    b.line("#pragma unroll");
    // Elements of a vector lie apart: neighbouring threads then meet different banks.
    let place = |thread: &str, e: &str| format!("s{x}[{e} * {} + {thread}]", t.tx * t.ty);
    b.line(&format!("for (int e = 0; e < {n}; ++e) {{ {} = a{x}[e]; }}", place("threadIdx.x", "e")));
    let mut half = t.ty / 2;
    while half > 0 {
        b.line("__syncthreads();");
        b.open(&format!("if (ty < {half})"));
        b.line("#pragma unroll");
        b.open(&format!("for (int e = 0; e < {n}; ++e)"));
        let (own, other) = (place("threadIdx.x", "e"), place(&format!("(threadIdx.x + {})", half * t.tx), "e"));
        let both = b.combine(x, &own, &other)?;
        b.line(&format!("{own} = {both};"));
        b.close();
        b.close();
        half /= 2;
    }
    b.line("__syncthreads();");
    b.line("#pragma unroll");
    b.line(&format!("for (int e = 0; e < {n}; ++e) {{ k{x}[e] = {}; }}", place("tx", "e")));
    Ok(())
}

/// Row values of pass `p` that are stored, and all they stand on.
fn store_rows(b: &mut Body<'_, Cuda>, w: &Writer<'_>, v: &Vectors, p: usize) -> Result<()> {
    let s = w.s;
    let is_store = |i: &&Val| matches!(s.kernel.insts[**i].kind, InstKind::Store { .. });
    let stores: Vec<Val> = s.passes[p].rows.iter().filter(is_store).copied().collect();
    if stores.is_empty() {
        return Ok(());
    }
    let known = reductions_behind(s, &stores);
    let mut values: Vec<Val> = rows_behind(s, &stores).into_iter().chain(stores).collect();
    values.sort_unstable();
    b.open("if (live && ty == 0 && part == 0)");
    b.guards.uniform = Some("q == 0 && x == 0".into());
    b.chunk(&Chunk { vectors: v, values: &values, given: &given(&known), cached: &[] })?;
    b.close();
    Ok(())
}

/// One launch for everything.
fn whole(w: &mut Writer<'_>, v: &Vectors, t: &Strip) -> Result<()> {
    let mut b = w.body();
    head(&mut b, w, v, t, 1)?;
    for p in 0..w.s.passes.len() {
        store_rows(&mut b, w, v, p)?;
        if !w.s.passes[p].elems.is_empty() {
            elements(&mut b, w, v, t, p, ["0", &w.s.cols.to_string()])?;
        }
    }
    w.entry(b, t.strips, t.tx * t.ty);
    Ok(())
}

/// A launch a pass, with partial results in between.
fn split(w: &mut Writer<'_>, v: &Vectors, t: &Strip) -> Result<()> {
    let s = w.s;
    let places: Vec<(Val, usize)> =
        s.passes.iter().flat_map(|p| p.reduces.clone()).map(|x| (x, w.take_scratch(s.rows * t.splits))).collect();
    let place = |x: Val| places.iter().find(|p| p.0 == x).map_or(0, |p| p.1);
    // Threads for the partial results alone: a stage that only writes rows has no others.
    let ty = t.splits.next_power_of_two().min(t.tx * t.ty / NARROW).max(1);
    let tx = t.tx * t.ty / ty;
    let flat = Strip { tx, ty, strips: (s.rows / v.n).div_ceil(tx), splits: 1, span: s.cols };
    // Where parts are many, a launch of its own makes one result of them; else every block of the next stage does.
    let combined = t.splits > SHARED_PARTS;
    let all = if combined { 1 } else { t.splits };
    for (n, p) in s.passes.iter().enumerate() {
        let is_store = |i: &Val| matches!(s.kernel.insts[*i].kind, InstKind::Store { .. });
        if p.elems.is_empty() && !p.rows.iter().any(is_store) {
            continue;
        }
        let (t, splits) = if p.elems.is_empty() { (&flat, 1) } else { (t, t.splits) };
        let mut b = w.body();
        head(&mut b, w, v, t, splits)?;
        let roots: Vec<Val> = p.rows.iter().chain(&p.elems).copied().collect();
        let known: Vec<Val> = reductions_behind(s, &roots).into_iter().filter(|x| !p.reduces.contains(x)).collect();
        for &x in &known {
            combine_parts(&mut b, w, v, t, x, place(x), all)?;
        }
        store_rows(&mut b, w, v, n)?;
        if !p.elems.is_empty() {
            b.define_index("from", &format!("part * {}", t.span));
            b.define_index("to", &format!("from + {0} < {1} ? from + {0} : {1}", t.span, s.cols));
            elements(&mut b, w, v, t, n, ["from", "to"])?;
            for &x in &p.reduces {
                let (ty, at) = (b.register(x), place(x));
                b.open("if (live && ty == 0)");
                b.line("#pragma unroll");
                b.line(&format!(
                    "for (int e = 0; e < {}; ++e) {{ (({ty}*)(scratch + {at}))[part * {} + r + e] = k{x}[e]; }}",
                    v.n, s.rows
                ));
                b.close();
            }
        }
        w.entry(b, t.strips * splits, t.tx * t.ty);
        if combined && !p.reduces.is_empty() {
            let mut b = w.body();
            head(&mut b, w, v, &flat, 1)?;
            for &x in &p.reduces {
                let (ty, at) = (b.register(x), place(x));
                combine_parts(&mut b, w, v, &flat, x, at, splits)?;
                // Into the first part's place, which nobody else reads: parts of a column belong to one block.
                b.line("__syncthreads();");
                b.open("if (live && ty == 0)");
                b.line("#pragma unroll");
                let to = format!("(({ty}*)(scratch + {at}))[r + e]");
                b.line(&format!("for (int e = 0; e < {}; ++e) {{ {to} = k{x}[e]; }}", v.n));
                b.close();
            }
            w.entry(b, flat.strips, flat.tx * flat.ty);
        }
    }
    Ok(())
}

/// `k` of a reduction from its first `all` partial results: threads along the reduction share them.
fn combine_parts(
    b: &mut Body<'_, Cuda>,
    w: &Writer<'_>,
    v: &Vectors,
    t: &Strip,
    x: Val,
    at: usize,
    all: usize,
) -> Result<()> {
    let ty = b.register(x);
    if all == 1 {
        b.line(&format!("{ty} k{x}[{}];", v.n));
        b.line("#pragma unroll");
        let from = format!("((const {ty}*)(scratch + {at}))[r + e]");
        b.line(&format!("for (int e = 0; e < {}; ++e) {{ k{x}[e] = {from}; }}", v.n));
        return Ok(());
    }
    accumulators(b, v, &[x]);
    b.line("#pragma unroll 4");
    let head = b.d.count("i", "ty", &all.to_string(), &t.ty.to_string());
    b.open(&head);
    b.line("#pragma unroll");
    b.open(&format!("for (int e = 0; e < {}; ++e)", v.n));
    b.line(&format!("const {ty} other = ((const {ty}*)(scratch + {at}))[i * {} + r + e];", w.s.rows));
    let both = b.combine(x, &format!("a{x}[e]"), "other")?;
    b.line(&format!("a{x}[e] = {both};"));
    b.close();
    b.close();
    gathered(b, v, t, x)
}
