//! What can be told of a kernel before it is laid out: its style, its passes, its registers.

use super::{
    jit,
    micro::Micro,
    program::{Pass, Style},
    tiles,
};
use crate::{
    DType,
    kernel::{InstKind, Kernel, Level, Val},
};

/// Elements a block: long enough to hide the dispatch, and as short as it takes for all registers to stay in a part of
/// the first cache, between these two.
const BLOCKS: (usize, usize) = (256, 2048);
/// The part of the first cache that registers may take.
const REGISTER_BYTES: usize = 16 * 1024;
/// Rows shorter than this run as columns, many at a time.
const SHORT_ROW: usize = 16;
/// Unless there are fewer than this.
const FEW_ROWS: usize = 8;

/// Values that are written straight to where they are stored, each with the store: what is computed an element at a time, and
/// needs no other type on the way.
pub fn direct(k: &Kernel, cached: &[bool]) -> Vec<Option<Val>> {
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
pub fn cost(k: &Kernel) -> usize {
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
pub fn style(k: &Kernel, cols: usize) -> Style {
    let short = cols < SHORT_ROW && (cols < 2 || k.rows() >= FEW_ROWS);
    if k.order.lanes == 1 || short {
        return Style::Columns;
    }
    Style::Rows
}

/// `roots` and the element values they need, in order; values for which `stop` is true are at hand already.
pub fn closure(k: &Kernel, roots: impl Iterator<Item = Val>, mut stop: impl FnMut(Val) -> bool) -> Vec<Val> {
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

/// Element values that are worth a place in memory when a later pass wants them again: more than two cheap operations
/// from what is at hand.
pub fn worth_keeping(k: &Kernel) -> Vec<bool> {
    let mut price = vec![0usize; k.insts.len()];
    for v in 0..k.insts.len() {
        let inst = &k.insts[v];
        if inst.level == Level::Elem {
            let below: usize = k.operands(v).iter().map(|&o| price[o]).sum();
            price[v] = match &inst.kind {
                InstKind::Load { source: crate::kernel::Source::Rand { .. }, .. } => 8,
                InstKind::Load { access, .. } => 8 * access.lookup.len(),
                InstKind::Ewise(row, _) if row.kind == crate::op::ewise::Kind::Float => below + 8,
                InstKind::Ewise(..) | InstKind::Cast(_) => below + 1,
                InstKind::Const(_) | InstKind::Param(_) | InstKind::Reduce(..) | InstKind::Store { .. } => 0,
            }
            .min(1 << 20);
        }
    }
    price.into_iter().zip(&k.insts).map(|(p, i)| p > 2 && !matches!(i.kind, InstKind::Load { .. })).collect()
}

/// Elements a block for so many registers of four bytes an element.
pub fn block_size(registers: usize) -> usize {
    let fit = REGISTER_BYTES / 4 / registers.max(1);
    if registers == 0 { 2 * BLOCKS.1 } else { (1 << fit.max(1).ilog2()).clamp(BLOCKS.0, BLOCKS.1) }
}

/// Values whose register a block passes through, and those that single calls read.
pub fn touched(k: &Kernel, passes: &[Pass], loops: &[jit::Loop]) -> (Vec<bool>, Vec<bool>) {
    let (mut touched, mut called) = (vec![false; k.insts.len()], vec![false; k.insts.len()]);
    for m in passes.iter().flat_map(|p| &p.calls) {
        match m {
            Micro::Loop(l) => {
                for e in &loops[*l].entries {
                    match e {
                        jit::Entry::Register(v, _) => touched[*v] = true,
                        // What comes as a pointer is read as a whole block, though it be one number in memory.
                        jit::Entry::Value(x)
                            if k.insts[x.v].dtype == DType::Bool || k.insts[x.v].level < Level::Elem =>
                        {
                            called[x.v] = true
                        }
                        jit::Entry::Value(_) | jit::Entry::Memory(_) | jit::Entry::Accumulator(_) => {}
                    }
                }
            }
            Micro::Call { v, .. }
            | Micro::Cast { v, .. }
            | Micro::Fill(v, ..)
            | Micro::Load(v, ..)
            | Micro::Turned(v, _)
            | Micro::Lines(v, ..)
            | Micro::Other(v) => {
                touched[*v] = true;
                k.operands(*v).iter().for_each(|&o| called[o] = true);
            }
            Micro::Store(_, _, src, _) | Micro::Fold { src, .. } => called[src.v] = true,
            Micro::Point(..) | Micro::Spread(..) => {}
        }
    }
    (0..k.insts.len()).filter(|&v| called[v]).for_each(|v| touched[v] = true);
    (touched, called)
}

/// Registers by linear scan: an element's register is free again after its last use in its pass. Where each is, and the
/// bytes of all.
pub fn registers(
    k: &Kernel,
    passes: &[Pass],
    cached: &[bool],
    (own, tiled): (&[bool], &[bool]),
    in_memory: &[bool],
    cols: usize,
    block: usize,
) -> (Vec<usize>, usize) {
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
            slot[v] = take(v, cols.next_multiple_of(block) + 16);
        } else if tiled[v] {
            slot[v] = take(v, tiles::LINES * tiles::pitch(block));
        } else if k.insts[v].level < Level::Elem || (computed[v] > 1 && !in_memory[v]) || own[v] {
            slot[v] = take(v, block);
        }
    }
    for pass in passes {
        let mut free: Vec<(usize, usize)> = vec![]; // (width, slot)
        let mut last = vec![0usize; k.insts.len()];
        for (i, &v) in pass.elems.iter().enumerate() {
            k.operands(v).iter().for_each(|&o| last[o] = i);
        }
        for (i, &v) in pass.elems.iter().enumerate() {
            if slot[v] == usize::MAX && !in_memory[v] && !matches!(k.insts[v].kind, InstKind::Store { .. }) {
                let w = width(k.insts[v].dtype);
                let again = free.iter().position(|f| f.0 == w).map(|at| free.swap_remove(at).1);
                slot[v] = again.unwrap_or_else(|| take(v, block));
            }
            for o in k.operands(v) {
                let shared = tiled[o]
                    || in_memory[o]
                    || k.insts[o].level < Level::Elem
                    || cached[o]
                    || computed[o] > 1
                    || own[o];
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
