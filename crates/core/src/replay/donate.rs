//! Which results of a plan may be written over one of its inputs.

use crate::plan::{Home, Part, Plan, Ref, Step};

/// Whether buffer `out` of a plan may be the same memory as its leaf `leaf`: one loop writes it, and nobody
/// reads the leaf after that.
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
            Step::Matmul { args, tail, .. } | Step::Conv { args, tail, .. } => {
                let refs = || args.iter().chain(tail.iter().map(|t| &t.bias));
                if touches(refs(), out) || written && touches(refs(), leaf) {
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

/// Whether a loop may write `out` over `leaf`: both are whole, and it reads an element for the last time before it writes it.
fn in_place(part: &Part, leaf: usize, out: usize) -> bool {
    let place = |buffer: usize| {
        let mut at = part.args.iter().enumerate().filter(|(_, r)| r.buffer == buffer);
        at.next().filter(|(_, r)| r.offset == 0 && at.next().is_none()).map(|(a, _)| a)
    };
    match (place(leaf), place(out)) {
        (Some(read), Some(written)) => part.kernel.may_overwrite(read, written),
        (None, Some(_)) => !touches(part.args.iter(), leaf),
        (_, None) => false,
    }
}
