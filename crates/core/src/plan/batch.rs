//! Many kernels, one launch.
//!
//! An optimizer does the same arithmetic to every parameter, each a tensor of its own. Such kernels have one body and
//! differ in extent and buffers; what nobody in the plan reads can wait until the end. There they become one launch.

use super::{
    codegen::Generated,
    fuse::{Fused, Place},
    lower::Lowered,
};
use crate::kernel::{Inst, InstKind, Kernel, Level, Source, collapse};

/// Groups that run as one step, in order.
pub struct Batch {
    /// Which.
    pub groups: Vec<usize>,
    /// Their kernels under one body, if they are several.
    pub kernels: Vec<Kernel>,
}

/// Bodies to compare with: programs whose results never resemble each other must not be compared all with all.
const BODIES: usize = 32;

/// All groups in the order of their steps: those that others read as they are, then the last ones by body.
pub fn batches(l: &Lowered, fused: &Fused, made: &[Option<Generated>]) -> Vec<Batch> {
    let read = read_by_others(l, fused);
    let mut out: Vec<Batch> = vec![];
    let mut last: Vec<Batch> = vec![];
    let mut single: Vec<usize> = vec![];
    for (g, made) in made.iter().enumerate() {
        let kernel = made.as_ref().filter(|_| !read[g]).map(|m| collapse(&m.kernel));
        let Some(kernel) = kernel.filter(is_plain) else {
            out.push(Batch { groups: vec![g], kernels: vec![] });
            continue;
        };
        if kernel.map.is_empty() {
            single.push(g);
        } else if let Some(b) = last.iter_mut().find(|b| same_body(&b.kernels[0], &kernel)) {
            b.groups.push(g);
            b.kernels.push(kernel);
        } else if last.len() < BODIES {
            last.push(Batch { groups: vec![g], kernels: vec![kernel] });
        } else {
            out.push(Batch { groups: vec![g], kernels: vec![] });
        }
    }
    // One element has no strides of its own: it fits every body of the same instructions.
    for g in single {
        let Some(kernel) = made[g].as_ref().map(|m| collapse(&m.kernel)) else { continue };
        match last.iter_mut().find(|b| same_arithmetic(&b.kernels[0], &kernel)) {
            Some(b) => {
                b.groups.push(g);
                b.kernels.push(Kernel { map: vec![1], ..b.kernels[0].clone() });
            }
            None => last.push(Batch { groups: vec![g], kernels: vec![with_axis(kernel)] }),
        }
    }
    // What resembles no other keeps its place: waiting would only keep what it reads alive.
    let (alone, several): (Vec<Batch>, Vec<Batch>) = last.into_iter().partition(|b| b.groups.len() == 1);
    out.extend(alone);
    out.sort_by_key(|b| b.groups[0]);
    out.extend(several);
    out
}

/// Which groups compute something that another group reads.
fn read_by_others(l: &Lowered, fused: &Fused) -> Vec<bool> {
    let mut read = vec![false; fused.groups.len()];
    for (g, group) in fused.groups.iter().enumerate() {
        for e in group.items.iter().flat_map(|&i| &l.items[i].inputs) {
            if let Place::Group { group: from, .. } = fused.place[e.base]
                && from != g
            {
                read[from] = true;
            }
        }
    }
    read
}

/// Elementwise over one contiguous axis, by plain loads and stores.
fn is_plain(k: &Kernel) -> bool {
    let plain = |i: &Inst| match &i.kind {
        InstKind::Load { source, access } => {
            matches!(source, Source::Arg(_)) && access.bounds.is_empty() && access.lookup.is_empty()
        }
        InstKind::Store { access, .. } => access.bounds.is_empty() && access.lookup.is_empty(),
        InstKind::Const(_) | InstKind::Param(_) | InstKind::Ewise(..) | InstKind::Cast(_) => true,
        InstKind::Reduce(..) => false,
    };
    k.reduce.is_empty() && k.map.len() <= 1 && k.insts.iter().all(plain)
}

/// A kernel of one element, over an axis of one.
fn with_axis(mut k: Kernel) -> Kernel {
    k.map = vec![1];
    for i in &mut k.insts {
        if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
            access.strides = vec![0];
        }
    }
    k
}

fn same_body(a: &Kernel, b: &Kernel) -> bool {
    a.map.len() == b.map.len() && a.args == b.args && a.params == b.params && a.insts == b.insts
}

/// The same but for strides and for what strides say.
fn same_arithmetic(a: &Kernel, b: &Kernel) -> bool {
    let bare = |k: &Kernel| {
        let mut insts = k.insts.clone();
        for i in &mut insts {
            i.level = Level::Elem;
            if let InstKind::Load { access, .. } | InstKind::Store { access, .. } = &mut i.kind {
                access.strides.clear();
            }
        }
        insts
    };
    a.args == b.args && a.params == b.params && a.insts.len() == b.insts.len() && bare(a) == bare(b)
}
