//! A kernel made ready for the CPU: spaces collapsed, passes laid out, registers assigned.
//!
//! Two ways to run share everything here. *Columns* takes a block of map points at a time and walks the reduce space
//! one point after another: elementwise kernels (a reduce space of one point), reductions across memory, short rows.
//! *Rows* takes one map point at a time and blocks of its reduce space: long reductions along memory. Both follow the
//! kernel's [`crate::kernel::Order`], so the choice never changes a bit.
//!
//! A kernel with reductions is cut into *passes*: pass 0 computes the reductions that need no other, pass 1 those that
//! need these, and so on; stores go with the first pass that can do them.

use crate::{
    DType,
    kernel::{InstKind, Kernel, Level, Val, collapse},
};

/// Elements a block: long enough to hide the dispatch, short enough that a dozen registers stay in the first cache.
pub const BLOCK: usize = 512;
/// Rows up to this length keep elements that a later pass needs; longer ones compute them again. One chunk: the chunks
/// of longer rows may run on different threads.
const CACHED_ROW: usize = crate::kernel::Order::ROWS.chunk;
/// Rows shorter than this run as columns, many at a time.
const SHORT_ROW: usize = 48;

/// How the loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Blocks of map points.
    Columns,
    /// Blocks of reduce points of one map point.
    Rows,
}

/// What one pass does.
#[derive(Debug, Default)]
pub struct Pass {
    /// Row values (and stores) that become known before it.
    pub rows: Vec<Val>,
    /// Element values, reductions and stores, in order.
    pub elems: Vec<Val>,
    /// Its reductions, a subset of `elems`.
    pub reduces: Vec<Val>,
}

/// A prepared kernel.
#[derive(Debug)]
pub struct Program {
    /// The kernel with unit axes dropped and adjacent axes merged.
    pub kernel: Kernel,
    /// Map points.
    pub rows: usize,
    /// Reduce points.
    pub cols: usize,
    /// How it runs.
    pub style: Style,
    /// Uniform values, computed once a task.
    pub uniforms: Vec<Val>,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// Byte position of each value's register in the scratch memory.
    pub slot: Vec<usize>,
    /// Values whose register holds a whole row.
    pub cached: Vec<bool>,
    /// Row values that element instructions read (in rows style they are spread over a block).
    pub spread: Vec<bool>,
    /// Bytes of scratch memory a task needs.
    pub scratch: usize,
    /// A measure of the whole work, to decide whether threads pay.
    pub work: usize,
    /// The store that can take a value straight from the instruction that computes it: no conversion in between.
    pub direct: Vec<Option<Val>>,
    /// Set where the whole kernel is a transposing copy.
    pub transposition: Option<super::copy::Transposition>,
}

impl Program {
    /// Prepares a verified kernel.
    pub fn new(kernel: &Kernel) -> Program {
        let kernel = collapse(kernel);
        let (rows, cols) = (kernel.rows(), kernel.cols());
        let style = style(&kernel, cols);
        let n = kernel.insts.len();
        let stage = stages(&kernel);
        let count = stage.iter().copied().max().map_or(1, |s| s + 1);
        let cache = style == Style::Rows && cols <= CACHED_ROW;

        let mut passes: Vec<Pass> = (0..count).map(|_| Pass::default()).collect();
        let mut uniforms = vec![];
        let mut cached = vec![false; n];
        for v in 0..n {
            let inst = &kernel.insts[v];
            match (inst.level, &inst.kind) {
                (Level::Uniform, InstKind::Store { .. }) | (Level::Row, _) => {
                    if matches!(inst.kind, InstKind::Reduce(..)) {
                        passes[stage[v]].reduces.push(v);
                    } else {
                        passes[stage[v]].rows.push(v);
                    }
                }
                (Level::Uniform, _) => uniforms.push(v),
                (Level::Elem, _) => {}
            }
        }
        for (s, pass) in passes.iter_mut().enumerate() {
            let stores = (0..n).filter(|&v| {
                stage[v] == s
                    && kernel.insts[v].level == Level::Elem
                    && matches!(kernel.insts[v].kind, InstKind::Store { .. })
            });
            pass.elems = closure(&kernel, pass.reduces.iter().copied().chain(stores), |v| {
                let keep = cache && stage[v] < s && !matches!(kernel.insts[v].kind, InstKind::Load { .. });
                if keep {
                    cached[v] = true;
                }
                keep
            });
        }
        // A cached value is computed by the first pass that needs it, which is its own stage's or a later one; make
        // sure that some pass does.
        for v in (0..n).filter(|&v| cached[v]).collect::<Vec<_>>() {
            let s = stage[v];
            if !passes[s].elems.contains(&v) {
                let more = closure(&kernel, passes[s].elems.iter().copied().chain([v]), |u| cached[u] && stage[u] < s);
                passes[s].elems = more;
            }
        }

        let mut spread = vec![false; n];
        for v in 0..n {
            if kernel.insts[v].level == Level::Elem {
                kernel
                    .operands(v)
                    .iter()
                    .filter(|&&o| kernel.insts[o].level == Level::Row)
                    .for_each(|&o| spread[o] = true);
            }
        }
        let (slot, scratch) = registers(&kernel, &passes, &cached, cols);
        let work = rows.saturating_mul(cols).saturating_mul(cost(&kernel));
        let direct = direct(&kernel, &cached);
        let transposition = super::copy::Transposition::of(&kernel);
        Program {
            rows,
            cols,
            style,
            uniforms,
            passes,
            slot,
            cached,
            spread,
            scratch,
            work,
            direct,
            transposition,
            kernel,
        }
    }
}

fn direct(k: &Kernel, cached: &[bool]) -> Vec<Option<Val>> {
    let mut out = vec![None; k.insts.len()];
    for (s, inst) in k.insts.iter().enumerate() {
        if let InstKind::Store { arg, value, .. } = inst.kind {
            let v = &k.insts[value];
            let computed = matches!(v.kind, InstKind::Ewise(..) | InstKind::Cast(_));
            let dtype = k.args[arg].dtype;
            if computed
                && !cached[value]
                && v.level == Level::Elem
                && inst.level == Level::Elem
                && dtype == dtype.compute()
            {
                out[value] = Some(s);
            }
        }
    }
    out
}

/// Rough work an element: transcendental functions weigh more than sums.
fn cost(k: &Kernel) -> usize {
    k.insts
        .iter()
        .map(|i| match &i.kind {
            InstKind::Ewise(row, _) if row.kind == crate::op::ewise::Kind::Float && row.arity == 1 => 8,
            InstKind::Load { .. } | InstKind::Store { .. } => 2,
            _ => 1,
        })
        .sum::<usize>()
        .max(1)
}

/// Rows when the reduce space is long and its last axis lies along memory in what is loaded.
fn style(k: &Kernel, cols: usize) -> Style {
    if k.order.lanes == 1 || cols < SHORT_ROW {
        return Style::Columns;
    }
    Style::Rows
}

/// The pass each instruction belongs to.
fn stages(k: &Kernel) -> Vec<usize> {
    let mut stage = vec![0usize; k.insts.len()];
    for v in 0..k.insts.len() {
        stage[v] = k
            .operands(v)
            .iter()
            .map(|&o| stage[o] + matches!(k.insts[o].kind, InstKind::Reduce(..)) as usize)
            .max()
            .unwrap_or(0);
    }
    stage
}

/// `roots` and the element values they need, in order; values for which `stop` is true are at hand already.
fn closure(k: &Kernel, roots: impl Iterator<Item = Val>, mut stop: impl FnMut(Val) -> bool) -> Vec<Val> {
    let mut wanted = vec![false; k.insts.len()];
    let mut stack: Vec<Val> = roots.collect();
    let is_root: Vec<Val> = stack.clone();
    while let Some(v) = stack.pop() {
        if wanted[v] || (!is_root.contains(&v) && stop(v)) {
            continue;
        }
        wanted[v] = true;
        stack.extend(k.operands(v).into_iter().filter(|&o| k.insts[o].level == Level::Elem));
    }
    (0..k.insts.len()).filter(|&v| wanted[v]).collect()
}

/// Registers by linear scan: an element's register is free again after its last use in its pass.
fn registers(k: &Kernel, passes: &[Pass], cached: &[bool], cols: usize) -> (Vec<usize>, usize) {
    let mut slot = vec![usize::MAX; k.insts.len()];
    let mut top = 0;
    let mut take = |v: Val, count: usize| {
        // An odd number of cache lines apart: registers 4 KiB apart would share the same few sets of the first cache.
        let bytes = (count * width(k.insts[v].dtype)).next_multiple_of(128) + 64;
        top += bytes;
        top - bytes
    };
    // How many passes compute a value: those that several do get a register of their own.
    let mut computed = vec![0usize; k.insts.len()];
    passes.iter().flat_map(|p| &p.elems).for_each(|&v| computed[v] += 1);
    for v in 0..k.insts.len() {
        if cached[v] {
            slot[v] = take(v, cols.next_multiple_of(BLOCK));
        } else if k.insts[v].level < Level::Elem || computed[v] > 1 {
            slot[v] = take(v, BLOCK);
        }
    }
    for pass in passes {
        let mut free: Vec<(usize, usize)> = vec![]; // (width, slot)
        let mut last = vec![0usize; k.insts.len()];
        for (i, &v) in pass.elems.iter().enumerate() {
            k.operands(v).iter().for_each(|&o| last[o] = i);
        }
        for (i, &v) in pass.elems.iter().enumerate() {
            if slot[v] == usize::MAX && !matches!(k.insts[v].kind, InstKind::Store { .. }) {
                let w = width(k.insts[v].dtype);
                let again = free.iter().position(|f| f.0 == w).map(|at| free.swap_remove(at).1);
                slot[v] = again.unwrap_or_else(|| take(v, BLOCK));
            }
            for o in k.operands(v) {
                let shared = k.insts[o].level < Level::Elem || cached[o] || computed[o] > 1;
                let w = width(k.insts[o].dtype);
                if !shared && last[o] == i && !free.contains(&(w, slot[o])) {
                    free.push((w, slot[o]));
                }
            }
        }
    }
    (slot, top)
}

/// Bytes an element of a register takes.
pub fn width(dtype: DType) -> usize {
    dtype.compute().size()
}
