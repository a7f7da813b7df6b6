//! Which results of a plan may be written over one of its inputs.

use crate::{
    kernel::{Access, InstKind, Kernel, Source},
    plan::{Home, Part, Plan, Ref, Step},
};

/// Whether buffer `out` of a plan may be the same memory as its leaf `leaf`: one loop writes the whole of it, element by
/// element from the same element of the leaf, and nobody reads the leaf after that.
pub fn fits(plan: &Plan, leaf: usize, out: usize) -> bool {
    if !matches!((plan.buffers[leaf], plan.buffers[out]), (Home::Leaf(_), Home::Own { .. }))
        || plan.outputs.iter().any(|o| o.buffer == leaf)
    {
        return false;
    }
    let mut written = false;
    for step in &plan.steps {
        let parts = match step {
            Step::Kernel { part, .. } => std::slice::from_ref(part),
            Step::Kernels { parts, .. } => parts,
            Step::Matmul { args, .. } | Step::Conv { args, .. } => {
                if touches(args.iter(), out) || written && touches(args.iter(), leaf) {
                    return false;
                }
                continue;
            }
            Step::Host { args, .. } | Step::Custom { args, .. } => {
                let is_custom = matches!(step, Step::Custom { .. });
                let refs = || args.iter().map(|a| &a.0);
                if is_custom || touches(refs(), out) || written && touches(refs(), leaf) {
                    return false;
                }
                continue;
            }
        };
        let writes = |p: &Part| touches(p.args.iter().zip(&p.kernel.args).filter(|a| a.1.written).map(|a| a.0), out);
        let reads = |p: &Part| touches(p.args.iter(), leaf);
        match parts.iter().filter(|p| writes(p)).count() {
            0 if written => {
                if parts.iter().any(reads) {
                    return false;
                }
            }
            0 => {}
            1 if !written => {
                // Parts of one launch run side by side.
                if !parts.iter().all(|p| if writes(p) { in_place(p, leaf, out) } else { !reads(p) }) {
                    return false;
                }
                written = true;
            }
            _ => return false,
        }
    }
    written
}

fn touches<'a>(mut refs: impl Iterator<Item = &'a Ref>, buffer: usize) -> bool {
    refs.any(|r| r.buffer == buffer)
}

/// Whether an elementwise loop reads `leaf` exactly where it writes `out`.
fn in_place(part: &Part, leaf: usize, out: usize) -> bool {
    let k: &Kernel = &part.kernel;
    if !k.reduce.is_empty() {
        return false;
    }
    let place = |a: usize| part.args[a];
    let mut stored: Option<&Access> = None;
    for i in &k.insts {
        if let InstKind::Store { arg, access, .. } = &i.kind
            && place(*arg).buffer == out
        {
            if stored.is_some() || place(*arg).offset != 0 || !plain(access) {
                return false;
            }
            stored = Some(access);
        }
    }
    let Some(stored) = stored else { return false };
    k.insts.iter().all(|i| match &i.kind {
        InstKind::Load { source: Source::Arg(a), access } if place(*a).buffer == leaf => {
            place(*a).offset == 0 && access == stored
        }
        _ => true,
    })
}

fn plain(a: &Access) -> bool {
    a.offset == 0 && a.bounds.is_empty() && a.lookup.is_empty()
}
