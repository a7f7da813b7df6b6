//! Large operands of library calls that a backward pass needs again: the output of a gelu, say, which the forward pass
//! multiplies by a weight and the backward pass by a gradient. Between the two it would lie there at the peak of memory.
//! Where a kernel of the backward pass reads what it follows from anyway, that kernel computes it again on the way.

use super::{How, Recompute, group_of};
use crate::{
    backend::Limits,
    plan::{
        fuse::{Group, Place},
        items::{Edge, Kind},
    },
};

/// Bytes from which on memory counts for more than a second write.
const LARGE: usize = 32 << 20;
/// Library calls in between that make a reader late.
const FAR: usize = 3;

/// An item that a group computes again, for these readers: which of their inputs.
pub struct Late {
    pub item: usize,
    pub group: usize,
    pub readers: Vec<(usize, usize)>,
}

/// Finds them, and counts them into the sizes of groups.
pub fn find(
    r: &Recompute<'_>,
    roots: &[(usize, Edge)],
    groups: &[Group],
    age: &[u64],
    sizes: &mut [[usize; 2]],
    limits: &Limits,
) -> Vec<Late> {
    let mut calls: Vec<u64> =
        (0..r.items.len()).filter(|&i| matches!(r.items[i].kind, Kind::Opaque(_))).map(|i| age[i]).collect();
    calls.sort_unstable();
    let before = |t: u64| calls.partition_point(|&c| c < t);
    let is_late = |i: usize, reader: usize| before(age[reader]) >= before(age[i]) + FAR;
    let bytes = |i: usize| r.items[i].shape.numel() * r.items[i].dtype.size();
    let mut found: Vec<Late> = vec![];
    for i in (0..r.items.len()).filter(|&i| bytes(i) >= LARGE && !r.calls[i].is_empty() && r.readers[i].is_empty()) {
        let element = matches!(r.place[i], Place::Group { row: false, .. });
        if !r.items[i].kind.is_pointwise() || !element || roots.iter().any(|(_, e)| e.base == i) {
            continue;
        }
        let (late, early): (Vec<_>, Vec<_>) = r.calls[i].iter().copied().partition(|c| is_late(i, c.0));
        let Some(tree) = r.tree(i).filter(|_| !late.is_empty() && !early.is_empty()) else { continue };
        // The tensor of its size that it follows from.
        let stored = |e: &&Edge| r.how[e.base] == How::Stored && bytes(e.base) * super::SMALL > bytes(i);
        let Some(from) = tree.iter().flat_map(|&t| &r.items[t].inputs).find(stored).map(|e| e.base) else { continue };
        let home = group_of(r.place, i);
        // Groups that read it, or that compute again what lies between.
        let again = tree.iter().flat_map(|&t| &r.readers[t]).map(|&(reader, _, g)| (reader, g));
        let host = r.whole[from].iter().copied().chain(again).find(|&(reader, g)| {
            Some(g) != home
                && is_late(i, reader)
                && groups[g].space.numel() == r.items[i].shape.numel()
                && r.fits(&tree, &groups[g].space, sizes[g], limits)
                && !waits_for(r, groups, g, &late, &found)
        });
        if let (Some((_, group)), true) = (host, bytes(from) <= bytes(i)) {
            sizes[group][0] += tree.len();
            sizes[group][1] += tree.len() + r.reads(&tree);
            found.push(Late { item: i, group, readers: late });
        }
    }
    found
}

/// Whether a group needs the result of one of these calls, directly or not.
fn waits_for(r: &Recompute<'_>, groups: &[Group], g: usize, calls: &[(usize, usize)], found: &[Late]) -> bool {
    let mut seen = vec![false; groups.len()];
    let mut stack = vec![g];
    while let Some(g) = stack.pop() {
        if std::mem::replace(&mut seen[g], true) {
            continue;
        }
        if groups[g].items.iter().any(|i| calls.iter().any(|c| c.0 == *i)) {
            return true;
        }
        let inputs = groups[g].items.iter().flat_map(|&i| &r.items[i].inputs);
        stack.extend(inputs.filter_map(|e| group_of(r.place, e.base)));
        // Calls that were found before wait for the groups that serve them.
        let served = |l: &&Late| l.readers.iter().any(|c| groups[g].items.contains(&c.0));
        stack.extend(found.iter().filter(served).map(|l| l.group));
    }
    false
}
