//! How a kernel lies on threads, for either language.

use crate::kernel::{InstKind, Kernel, Level, Val, collapse};

/// Rows up to this length are walked by one thread each.
const SHORT_ROW: usize = 32;
/// Reductions across memory with fewer outputs than this (and several chunks) take a block each.
const FEW_ROWS: usize = 2048;
/// Threads a block of one-thread-a-point kernels.
const THREADS: usize = 256;

/// What one pass over a row does.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// Row values and row stores that become known before it.
    pub rows: Vec<Val>,
    /// Element values, reductions and stores, in order.
    pub elems: Vec<Val>,
    /// Its reductions, a subset of `elems`.
    pub reduces: Vec<Val>,
}

/// A kernel with its layout.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The kernel with unit axes dropped and adjacent axes merged.
    pub kernel: Kernel,
    pub rows: usize,
    pub cols: usize,
    /// Whether a block takes a row (else a thread does).
    pub by_block: bool,
    /// Accumulators a chunk: those of the order, less the ones that a short row never touches.
    pub lanes: usize,
    /// Elements a chunk.
    pub chunk: usize,
    /// Chunks a row; at least 1.
    pub chunks: usize,
    /// Chunks that a block works on at once.
    pub groups: usize,
    /// Threads a block.
    pub threads: usize,
    /// Whether indices need 64 bits.
    pub wide: bool,
    pub uniforms: Vec<Val>,
    pub passes: Vec<Pass>,
}

impl Schedule {
    /// Lays out a verified kernel for blocks of at most `max_threads`.
    pub fn new(k: &Kernel, max_threads: usize) -> Schedule {
        let kernel = collapse(k);
        let (rows, cols) = (kernel.rows(), kernel.cols());
        let chunk = kernel.order.chunk;
        let chunks = cols.div_ceil(chunk).max(1);
        let lanes = kernel.order.lanes.min(cols.clamp(1, chunk).next_power_of_two());
        let across = kernel.order.lanes == 1;
        let long = if across { rows < FEW_ROWS && chunks >= 4 } else { cols > SHORT_ROW };
        let by_block = long && lanes <= max_threads;
        let groups = if by_block { (max_threads / lanes).min(chunks.next_power_of_two()) } else { 1 };
        let threads = if by_block { lanes * groups } else { THREADS.min(max_threads) };
        let (uniforms, passes) = passes(&kernel);
        let wide = !fits(&kernel, (1 << 30) - 1);
        Schedule { rows, cols, by_block, lanes, chunk, chunks, groups, threads, wide, uniforms, passes, kernel }
    }

    /// Chunks are taken in this many rounds of `groups`.
    pub fn rounds(&self) -> usize {
        self.chunks.div_ceil(self.groups)
    }

    /// Whether anything is reduced.
    pub fn reduces(&self) -> bool {
        self.passes.iter().any(|p| !p.reduces.is_empty())
    }
}

/// Whether all positions and addresses stay within `-most ..= most`.
fn fits(k: &Kernel, most: i128) -> bool {
    let dims: Vec<usize> = k.map.iter().chain(&k.reduce).copied().collect();
    let within = |coefs: &[isize], start: isize| {
        let (mut lo, mut hi) = (start as i128, start as i128);
        for (&n, &c) in dims.iter().zip(coefs) {
            let span = n.saturating_sub(1) as i128 * c as i128;
            if span < 0 { lo += span } else { hi += span }
        }
        lo >= -most && hi <= most
    };
    let sizes = [k.rows(), k.cols(), k.order.chunk].iter().all(|&n| (n as i128) <= most);
    sizes
        && k.insts.iter().all(|i| match &i.kind {
            InstKind::Load { access, .. } | InstKind::Store { access, .. } => {
                let looked: i128 = access.lookup.iter().map(|l| l.size as i128 * (l.stride as i128).abs()).sum();
                looked <= most
                    && within(&access.strides, access.offset)
                    && access.bounds.iter().all(|b| within(&b.coefs, 0) && (b.lo.abs().max(b.hi.abs()) as i128) <= most)
            }
            _ => true,
        })
}

/// Uniform values, and the passes: reductions that need no other first, then those that need these.
fn passes(k: &Kernel) -> (Vec<Val>, Vec<Pass>) {
    let n = k.insts.len();
    let stage = k.stages();
    let count = stage.iter().copied().max().map_or(1, |s| s + 1);
    let mut out: Vec<Pass> = (0..count).map(|_| Pass::default()).collect();
    let mut uniforms = vec![];
    for (v, inst) in k.insts.iter().enumerate() {
        let store = matches!(inst.kind, InstKind::Store { .. });
        match inst.level {
            Level::Uniform if !store => uniforms.push(v),
            Level::Uniform | Level::Row => {
                let pass = &mut out[stage[v]];
                if matches!(inst.kind, InstKind::Reduce(..)) { &mut pass.reduces } else { &mut pass.rows }.push(v);
            }
            Level::Elem => {}
        }
    }
    for (s, pass) in out.iter_mut().enumerate() {
        let mut wanted = vec![false; n];
        let is_root = |v: Val| {
            let inst = &k.insts[v];
            stage[v] == s && inst.level == Level::Elem && matches!(inst.kind, InstKind::Store { .. })
        };
        let mut stack: Vec<Val> = (0..n).filter(|&v| is_root(v)).chain(pass.reduces.iter().copied()).collect();
        while let Some(v) = stack.pop() {
            if !std::mem::replace(&mut wanted[v], true) {
                stack.extend(k.operands(v).into_iter().filter(|&o| k.insts[o].level == Level::Elem));
            }
        }
        pass.elems = (0..n).filter(|&v| wanted[v]).collect();
    }
    (uniforms, out)
}
