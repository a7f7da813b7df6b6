//! Results that are written over an operand which nobody reads after: one buffer instead of two.

use super::{
    memory::Lifetime,
    steps::{Part, Ref, Step},
};
use crate::Device;

/// Finds intermediates that may lie where an operand of the kernel that makes them lies. `lives` are buffers by number with
/// their lives; an operand's life is made to last as long as that of what is written over it. For each life, the earlier
/// one whose memory it shares.
pub fn overwrite(device: Device, steps: &[Step], lives: &mut [(usize, Lifetime)]) -> Vec<Option<usize>> {
    let own: Vec<Lifetime> = lives.iter().map(|l| l.1).collect();
    let mut over: Vec<Option<usize>> = vec![None; lives.len()];
    for (s, step) in steps.iter().enumerate() {
        let life = |r: &Ref| lives.binary_search_by_key(&r.buffer, |l| l.0).ok().filter(|_| r.offset == 0);
        let last = |l: usize, to: usize| own[l].to == s && own[l].from < s && own[l].bytes == own[to].bytes;
        let parts = match step {
            Step::Kernel { part, .. } => std::slice::from_ref(part),
            Step::Kernels { parts, .. } => parts,
            Step::Host { op, args, .. } => {
                let Some(((to, ..), inputs)) = args.split_last() else { continue };
                let Some(to) = life(to).filter(|&l| own[l].from == s) else { continue };
                let fits = |&i: &usize| {
                    let from = inputs[i].0;
                    let once = inputs.iter().filter(|(r, ..)| r.buffer == from.buffer).count() == 1;
                    once && device.backend().overwrites(op, i) && life(&from).is_some_and(|l| last(l, to))
                };
                over[to] = (0..inputs.len()).find(fits).and_then(|i| life(&inputs[i].0));
                continue;
            }
            Step::Matmul { .. } | Step::Conv { .. } | Step::Custom { .. } => continue,
        };
        let mut taken = vec![];
        for p in parts {
            for (w, to) in p.args.iter().enumerate().filter(|(w, _)| p.kernel.args[*w].written) {
                let Some(to) = life(to).filter(|&l| own[l].from == s) else { continue };
                let fits = |(r, operand): (usize, &Ref)| {
                    let l = life(operand)?;
                    (last(l, to) && !taken.contains(&l) && alone(parts, operand.buffer) && p.kernel.may_overwrite(r, w))
                        .then_some(l)
                };
                if let Some(from) = p.args.iter().enumerate().find_map(fits) {
                    taken.push(from);
                    over[to] = Some(from);
                }
            }
        }
    }
    // A chain of them has the memory of its first.
    for l in 0..over.len() {
        while let Some(from) = over[l]
            && let Some(first) = over[from]
        {
            over[l] = Some(first);
        }
        if let Some(first) = over[l] {
            lives[first].1.to = lives[first].1.to.max(own[l].to);
        }
    }
    over
}

/// Whether one argument of the parts of a launch is this buffer.
fn alone(parts: &[Part], buffer: usize) -> bool {
    parts.iter().flat_map(|p| &p.args).filter(|r| r.buffer == buffer).count() == 1
}
