//! What to compute again instead of storing it.
//!
//! A backward pass reads much that the forward pass had in registers: the mask of a relu, the inside of a gelu, the
//! normalised rows of a layer norm. Each stored tensor costs a write, a read and its memory until then. Where a value
//! follows from *one* tensor that is stored anyway (and rows, scalars or positions) by a little arithmetic, its readers
//! get copies of that arithmetic instead, and it is never stored.

mod late;

use super::{
    fuse::{Group, Place},
    items::{Edge, Item, Kind},
    lower::Lowered,
};
use crate::{
    Shape,
    backend::Limits,
    op::ewise::{self, Ewise},
};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The most arithmetic that is done twice, in plain operations an element.
const MOST: usize = 24;
/// What is this many times smaller than the tensor at hand costs nothing to store.
const SMALL: usize = 8;

/// Gives groups their own copies of cheap values that other groups compute. Groups keep their order of ranks: a copy
/// reads only what the original read.
pub fn recompute(l: &mut Lowered, place: &mut Vec<Place>, groups: &mut [Group], age: &mut Vec<u64>, limits: &Limits) {
    let n = l.items.len();
    let (readers, kept, how) = (vec![vec![]; n], vec![false; n], vec![]);
    let (calls, whole) = (vec![vec![]; n], vec![vec![]; n]);
    let mut r = Recompute { items: &l.items, place, readers, whole, calls, kept, how };
    r.look(&l.roots);
    let mut sizes: Vec<[usize; 2]> = groups.iter().map(|g| [g.items.len(), g.loads + g.items.len()]).collect();
    for i in 0..n {
        let how = r.decide(i, groups, &mut sizes, limits);
        r.how.push(how);
    }
    let late = late::find(&r, &l.roots, groups, age, &mut sizes, limits);
    let Recompute { readers, how, .. } = r;
    let mut c = Copies { items: &mut l.items, place, age, groups, how: &how, made: HashMap::new() };
    for (i, readers) in readers.iter().enumerate() {
        if how[i] != How::Again {
            continue;
        }
        for &(reader, k, g) in readers {
            let (space, row) = space_of(c.items, c.place, &c.groups[g], reader);
            let copy = c.copy(i, g, &space, row);
            c.items[reader].inputs[k] = Edge::whole(copy, &space);
        }
    }
    for late::Late { item, group, readers } in late {
        let space = c.groups[group].space.clone();
        let copy = c.copy(item, group, &space, false);
        for (reader, k) in readers {
            // The copy lies as the original does.
            c.items[reader].inputs[k].base = copy;
        }
    }
    let made: Vec<(usize, usize)> = c.made.iter().map(|(&(g, ..), &copy)| (g, copy)).collect();
    let mut copies: Vec<Vec<usize>> = vec![vec![]; groups.len()];
    made.into_iter().for_each(|(g, copy)| copies[g].push(copy));
    for (group, mut copies) in groups.iter_mut().zip(copies) {
        // Copies are made inputs first, and read nothing of the group itself.
        copies.sort_unstable();
        group.items.splice(0..0, copies);
    }
    drop_dead(l, place, groups);
}

/// What becomes of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Nobody outside its group reads it.
    Inner,
    /// It has a buffer.
    Stored,
    /// Every reader outside its group computes it again.
    Again,
}

struct Recompute<'a> {
    items: &'a [Item],
    place: &'a [Place],
    /// Readers in other groups that could have a copy: item, which of its inputs, group.
    readers: Vec<Vec<(usize, usize, usize)>>,
    /// Readers in other groups that read all of it as it lies, under whatever shape: item and group.
    whole: Vec<Vec<(usize, usize)>>,
    /// Library calls that read an item: which, and which of its inputs.
    calls: Vec<Vec<(usize, usize)>>,
    /// Items that are stored in any case.
    kept: Vec<bool>,
    how: Vec<How>,
}

fn group_of(place: &[Place], i: usize) -> Option<usize> {
    match place[i] {
        Place::Group { group, .. } => Some(group),
        Place::Dead | Place::Source => None,
    }
}

/// What an item of a group reads over: its space or, for what it computes once a row, its rows (then `true`).
fn space_of(items: &[Item], place: &[Place], group: &Group, i: usize) -> (Shape, bool) {
    let row = matches!(place[i], Place::Group { row: true, .. }) && !matches!(items[i].kind, Kind::Reduce(..));
    if row { (group.row_shape(), true) } else { (group.space.clone(), false) }
}

impl Recompute<'_> {
    /// Finds out who reads what.
    fn look(&mut self, roots: &[(usize, Edge)]) {
        for (i, item) in self.items.iter().enumerate() {
            let Some(g) = group_of(self.place, i) else { continue };
            let loops = !matches!(item.kind, Kind::Opaque(_));
            for (k, e) in item.inputs.iter().enumerate() {
                if group_of(self.place, e.base).is_none_or(|h| h == g) {
                    continue;
                }
                let table = matches!(item.kind, Kind::Gather(_)) && k == 0;
                let all = e.view.is_contiguous() && e.view.shape.numel() == self.items[e.base].shape.numel();
                if loops && !table && all {
                    self.whole[e.base].push((i, g));
                }
                if loops && !table && e.is_identity(self.items) {
                    self.readers[e.base].push((i, k, g));
                } else {
                    self.kept[e.base] = true;
                    if !loops {
                        self.calls[e.base].push((i, k));
                    }
                }
            }
        }
        roots.iter().for_each(|(_, e)| self.kept[e.base] = true);
    }

    /// `sizes` are the items of each group and the buffers it may need.
    fn decide(&self, i: usize, groups: &[Group], sizes: &mut [[usize; 2]], limits: &Limits) -> How {
        let source = matches!(self.items[i].kind, Kind::Leaf(_) | Kind::Opaque(_));
        if self.kept[i] || source {
            return How::Stored;
        }
        if self.readers[i].is_empty() {
            return How::Inner;
        }
        let pointwise = self.items[i].kind.is_pointwise();
        let element = matches!(self.place[i], Place::Group { row: false, .. });
        let Some(tree) = (pointwise && element).then(|| self.tree(i)).flatten() else { return How::Stored };
        for &(reader, k, g) in &self.readers[i] {
            let (space, row) = space_of(self.items, self.place, &groups[g], reader);
            let read = &self.items[reader].inputs[k].view.shape;
            if !(*read == space || row && read.numel() == space.numel()) || !self.fits(&tree, &space, sizes[g], limits)
            {
                return How::Stored;
            }
        }
        let reads = self.reads(&tree);
        let mut seen: SmallVec<[usize; 4]> = self.readers[i].iter().map(|r| r.2).collect();
        seen.sort_unstable();
        seen.dedup();
        for g in seen {
            sizes[g][0] += tree.len();
            sizes[g][1] += tree.len() + reads;
        }
        How::Again
    }

    fn reads(&self, tree: &[usize]) -> usize {
        tree.iter().map(|&t| self.items[t].inputs.len()).sum()
    }

    /// Whether a group over `space`, of this many items and buffers, has room for copies of these items.
    fn fits(&self, tree: &[usize], space: &Shape, size: [usize; 2], limits: &Limits) -> bool {
        size[0] + tree.len() < limits.max_insts / 4
            && size[1] + tree.len() + self.reads(tree) <= limits.max_args
            && tree.iter().all(|&t| self.items[t].inputs.iter().all(|e| e.reshaped(space).is_some()))
    }

    /// The items to compute again for `i`, if that is cheap and needs no more than one tensor of its size.
    fn tree(&self, i: usize) -> Option<Vec<usize>> {
        let numel = self.items[i].shape.numel();
        let (mut tree, mut stack) = (vec![], vec![i]);
        let mut from: Option<usize> = None;
        let mut cost = 0;
        while let Some(t) = stack.pop() {
            if tree.contains(&t) {
                continue;
            }
            tree.push(t);
            cost += cost_of(&self.items[t].kind);
            if cost > MOST {
                return None;
            }
            for e in &self.items[t].inputs {
                let base = &self.items[e.base];
                if matches!(base.kind, Kind::Rand(_)) {
                    return None;
                }
                if base.kind.is_virtual() || base.shape.numel() * SMALL <= numel {
                    continue;
                }
                if goes_into(self.items, self.place, &self.how, t, e) {
                    stack.push(e.base);
                } else if self.how[e.base] != How::Stored || from.is_some_and(|f| f != e.base) {
                    return None;
                } else {
                    from = Some(e.base);
                }
            }
        }
        // A mask of bytes is not given up for a tensor of floats that would live on only for it.
        let worth = from
            .is_none_or(|f| self.items[f].dtype.size() <= self.items[i].dtype.size() || self.is_read_elsewhere(f, i));
        worth.then_some(tree)
    }

    /// Whether groups other than that of `i` read `f`.
    fn is_read_elsewhere(&self, f: usize, i: usize) -> bool {
        let home = group_of(self.place, i);
        self.kept[f] && group_of(self.place, f) == home || self.readers[f].iter().any(|r| Some(r.2) != home)
    }
}

/// Whether a copy of `t` takes a copy of `e`'s item along: arithmetic of the same elements that is not stored.
fn goes_into(items: &[Item], place: &[Place], how: &[How], t: usize, e: &Edge) -> bool {
    let same = group_of(place, t) == group_of(place, e.base);
    items[e.base].kind.is_pointwise()
        && matches!(place[e.base], Place::Group { row: false, .. })
        && e.is_identity(items)
        && match how.get(e.base) {
            Some(How::Stored) => false,
            Some(How::Again) => true,
            Some(How::Inner) | None => same, // a copy (one that came later than the decisions) is its group's own
        }
}

/// Plain operations an element, about.
fn cost_of(kind: &Kind) -> usize {
    match kind {
        Kind::Ewise(row) if std::ptr::eq::<Ewise>(*row, &ewise::DIV) => 3,
        Kind::Ewise(row) if row.kind == ewise::Kind::Float => 6,
        _ => 1,
    }
}

struct Copies<'a> {
    items: &'a mut Vec<Item>,
    place: &'a mut Vec<Place>,
    age: &'a mut Vec<u64>,
    groups: &'a [Group],
    how: &'a [How],
    /// The copy of an item in a group, as a row or not.
    made: HashMap<(usize, usize, bool), usize>,
}

impl Copies<'_> {
    /// The copy of item `i` in group `g`, over its space or its rows. As deep as [`MOST`] operations at the most.
    fn copy(&mut self, i: usize, g: usize, space: &Shape, row: bool) -> usize {
        if let Some(&copy) = self.made.get(&(g, i, row)) {
            return copy;
        }
        let mut inputs: SmallVec<[Edge; 2]> = SmallVec::new();
        for e in self.items[i].inputs.clone() {
            inputs.push(if goes_into(self.items, self.place, self.how, i, &e) {
                Edge::whole(self.copy(e.base, g, space, row), space)
            } else {
                e.reshaped(space).unwrap_or(e)
            });
        }
        let (kind, dtype, node) = (self.items[i].kind.clone(), self.items[i].dtype, self.items[i].node);
        self.items.push(Item { kind, inputs, shape: space.clone(), dtype, node, moved: true });
        self.place.push(Place::Group { group: g, row });
        self.age.push(self.age[self.groups[g].items[0]]);
        self.made.insert((g, i, row), self.items.len() - 1);
        self.items.len() - 1
    }
}

/// Takes out of the groups what nobody reads any more.
fn drop_dead(l: &Lowered, place: &mut [Place], groups: &mut [Group]) {
    let mut live = vec![false; l.items.len()];
    let mut stack: Vec<usize> = l.roots.iter().map(|(_, e)| e.base).collect();
    while let Some(i) = stack.pop() {
        if !std::mem::replace(&mut live[i], true) {
            stack.extend(l.items[i].inputs.iter().map(|e| e.base));
        }
    }
    for g in groups {
        g.items.retain(|&i| live[i]);
    }
    for (place, live) in place.iter_mut().zip(live) {
        if !live {
            *place = Place::Dead;
        }
    }
}
