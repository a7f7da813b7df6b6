//! Which items share a kernel.
//!
//! A group has a space: a shape, and the axes over which it reduces (perhaps none yet). An item joins the group of one
//! of its inputs when their spaces agree: same elements one to one; a row of the group (its reduced axes gone) one to
//! one; or a row broadcast back over the elements. Groups carry a rank that is larger than the ranks of all groups they
//! read from, and an item joins only where that stays true: so no two groups ever wait for each other, and the check
//! costs nothing.

use super::{
    epilogue::tails,
    items::{Edge, Item, Kind},
    lower::Lowered,
    recompute::recompute,
    schedule::{schedule, stored},
};
use crate::{
    Shape,
    backend::Limits,
    view::{View, ViewOp},
};
use smallvec::SmallVec;

/// Where an item is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody needs it.
    Dead,
    /// It is a source.
    Source,
    /// Inside a group, once an element or once a row.
    Group {
        /// Which group.
        group: usize,
        /// Once a row of the group instead of once an element.
        row: bool,
    },
}

/// Items that become one kernel (or one library call).
pub struct Group {
    /// The space its elements run over.
    pub space: Shape,
    /// The axes it reduces.
    pub axes: Option<SmallVec<[usize; 6]>>,
    /// Its items, in order.
    pub items: Vec<usize>,
    /// A library call; nothing joins it.
    pub opaque: bool,
    rank: usize,
    read_by_others: bool,
    merged_into: Option<usize>,
    /// Loads, counted once a reader.
    pub loads: usize,
}

impl Group {
    /// One item, or one library call.
    pub fn single(space: Shape, item: usize, opaque: bool) -> Group {
        let (rank, read_by_others, merged_into, loads) = (0, false, None, 0);
        Group { space, axes: None, items: vec![item], opaque, rank, read_by_others, merged_into, loads }
    }

    /// The space with reduced axes of extent 1.
    pub fn row_shape(&self) -> Shape {
        let mut s = self.space.clone();
        for &a in self.axes.iter().flatten() {
            s.0[a] = 1;
        }
        s
    }
}

/// The groups of a graph.
pub struct Fused {
    /// In an order that can run.
    pub groups: Vec<Group>,
    /// Where each item is.
    pub place: Vec<Place>,
    /// Which items need a buffer.
    pub stored: Vec<bool>,
}

/// Groups the items.
pub fn fuse(l: &mut Lowered, mut age: Vec<u64>, limits: &Limits) -> Fused {
    let live = live(l);
    let mut f = Fuser { items: &l.items, groups: vec![], place: vec![Place::Dead; l.items.len()], limits };
    for (i, _) in live.iter().enumerate().filter(|(_, live)| **live) {
        f.place[i] = match l.items[i].kind {
            Kind::Leaf(_) | Kind::Scalar(_) | Kind::Iota | Kind::Rand(_) => Place::Source,
            Kind::Opaque(_) => f.alone(i, true),
            Kind::Ewise(_) | Kind::Cast | Kind::Copy | Kind::Reduce(..) | Kind::Gather(_) => f.assign(i),
        };
    }
    f.merge_siblings();
    let (mut place, mut groups) = f.settle();
    recompute(l, &mut place, &mut groups, &mut age, limits);
    tails(l, &mut place, &mut groups, &mut age, limits);
    let stored = stored(l, &place);
    let (groups, place) = schedule(&l.items, &age, groups, place);
    Fused { groups, place, stored }
}

fn live(l: &Lowered) -> Vec<bool> {
    let mut live = vec![false; l.items.len()];
    l.roots.iter().for_each(|(_, e)| live[e.base] = true);
    // Items come after what they read, so one sweep backwards reaches everything.
    for i in (0..l.items.len()).rev() {
        if live[i] {
            l.items[i].inputs.iter().for_each(|e| live[e.base] = true);
        }
    }
    live
}

struct Fuser<'a> {
    items: &'a [Item],
    groups: Vec<Group>,
    place: Vec<Place>,
    limits: &'a Limits,
}

impl Fuser<'_> {
    fn find(&self, mut g: usize) -> usize {
        while let Some(to) = self.groups[g].merged_into {
            g = to;
        }
        g
    }

    /// The group and row flag of an item, if it is in one.
    fn at(&self, item: usize) -> Option<(usize, bool)> {
        match self.place[item] {
            Place::Group { group, row } => Some((self.find(group), row)),
            Place::Dead | Place::Source => None,
        }
    }

    /// A group of its own.
    fn alone(&mut self, i: usize, opaque: bool) -> Place {
        let item = &self.items[i];
        let (space, axes) = match &item.kind {
            Kind::Reduce(_, axes) => (item.inputs[0].view.shape.clone(), Some(axes.clone())),
            _ => (item.shape.clone(), None),
        };
        let row = axes.is_some();
        let rank =
            1 + item.inputs.iter().filter_map(|e| self.at(e.base)).map(|(g, _)| self.groups[g].rank).max().unwrap_or(0);
        let group = self.groups.len();
        for e in &item.inputs {
            if let Some((g, _)) = self.at(e.base) {
                self.groups[g].read_by_others = true;
            }
        }
        let loads = item.inputs.len();
        self.groups.push(Group {
            space,
            axes,
            items: vec![i],
            opaque,
            rank,
            read_by_others: false,
            merged_into: None,
            loads,
        });
        Place::Group { group, row }
    }

    fn assign(&mut self, i: usize) -> Place {
        let mut candidates: SmallVec<[usize; 3]> = self.items[i]
            .inputs
            .iter()
            .filter_map(|e| self.at(e.base))
            .map(|(g, _)| g)
            .filter(|&g| !self.groups[g].opaque)
            .collect();
        candidates.sort_by_key(|&g| std::cmp::Reverse(self.groups[g].rank));
        candidates.dedup();
        for k in 0..candidates.len() {
            let g = self.find(candidates[k]);
            if self.fits(i, g).is_none() {
                continue;
            }
            // `gelu(x) = x/2 * (erf(cx) + 1)` meets here as two groups over x: one loop computes both.
            for &h in &candidates {
                let h = self.find(h);
                if h != g && self.readable_here(i, h) && self.mergeable(g, h) {
                    self.merge(g, h);
                } else if h != g && self.absorbable(i, g, h) {
                    self.absorb(g, h);
                }
            }
            if let Some(row) = self.fits(i, g) {
                self.join(i, g);
                return Place::Group { group: g, row };
            }
        }
        self.alone(i, false)
    }

    /// Whether all that item `i` reads of group `h` could be read inside it.
    fn readable_here(&self, i: usize, h: usize) -> bool {
        let gather = matches!(self.items[i].kind, Kind::Gather(_));
        self.items[i].inputs.iter().all(|e| match self.at(e.base) {
            Some((g, row)) if g == h => !gather && (self.readable(e, h) || row && e.is_identity(self.items)),
            _ => true,
        })
    }

    /// Whether two groups over one space can be one kernel. Ranks grow along every path between groups, so groups of
    /// equal rank never wait for each other; and one that nobody reads may take any higher rank.
    fn mergeable(&self, g: usize, h: usize) -> bool {
        let (a, b) = (&self.groups[g], &self.groups[h]);
        let lower = if a.rank < b.rank { a } else { b };
        let axes = a.axes.is_none() || b.axes.is_none() || a.axes == b.axes;
        let small = a.items.len() + b.items.len() < self.limits.max_insts / 4
            && self.args_of(a) + self.args_of(b) <= self.limits.max_args;
        !a.opaque && !b.opaque && a.space == b.space && axes && small && (a.rank == b.rank || !lower.read_by_others)
    }

    /// Whether group `h` is a little elementwise arithmetic on stored numbers, one for each row of `g`, that item `i`
    /// alone has asked for so far: an optimizer's decay of a bias, say, beside the sum that is the bias' gradient.
    fn absorbable(&self, i: usize, g: usize, h: usize) -> bool {
        let (to, from) = (&self.groups[g], &self.groups[h]);
        let rows = to.row_shape();
        let fits = self.fits(i, g) == Some(true)
            && from.axes.is_none()
            && !from.opaque
            && !from.read_by_others
            && to.items.len() + from.items.len() < self.limits.max_insts / 4
            && self.args_of(to) + self.args_of(from) <= self.limits.max_args;
        let reads = |e: &Edge| match self.at(e.base) {
            Some((k, _)) => k == h && e.is_identity(self.items),
            None => e.view.apply(&ViewOp::Reshape(rows.clone())).is_some(),
        };
        fits && self.items[i]
            .inputs
            .iter()
            .all(|e| self.at(e.base).is_none_or(|p| p.0 != h) || e.is_identity(self.items))
            && from.items.iter().all(|&k| {
                let item = &self.items[k];
                item.kind.is_pointwise() && item.shape.numel() == rows.numel() && item.inputs.iter().all(reads)
            })
    }

    /// Moves everything of group `h` into the rows of `g`.
    fn absorb(&mut self, g: usize, h: usize) {
        for &k in &self.groups[h].items {
            self.place[k] = Place::Group { group: g, row: true };
        }
        self.merge(g, h);
    }

    /// Buffers a group's kernel may need at the most: what it loads, and every item in case it is stored.
    fn args_of(&self, g: &Group) -> usize {
        g.loads + g.items.len()
    }

    /// Moves everything of group `h` into `g`.
    fn merge(&mut self, g: usize, h: usize) {
        let items = std::mem::take(&mut self.groups[h].items);
        let (rank, loads, read) = (self.groups[h].rank, self.groups[h].loads, self.groups[h].read_by_others);
        let axes = self.groups[h].axes.take();
        self.groups[h].merged_into = Some(g);
        let to = &mut self.groups[g];
        to.items.extend(items);
        to.items.sort_unstable();
        to.rank = to.rank.max(rank);
        to.loads += loads;
        to.read_by_others |= read;
        to.axes = to.axes.take().or(axes);
    }

    /// Whether item `i` may be computed inside group `g`: then, whether as a row.
    fn fits(&self, i: usize, g: usize) -> Option<bool> {
        let (item, group) = (&self.items[i], &self.groups[g]);
        if group.items.len() >= self.limits.max_insts / 4
            || self.args_of(group) + item.inputs.len() + 1 > self.limits.max_args
        {
            return None;
        }
        // Everything from outside must come from groups that run before: of a lower rank, or, while nobody reads this
        // group (so nothing can wait for it), of any rank, and this group's rank goes up.
        let late = |e: &Edge| self.at(e.base).is_some_and(|(h, _)| h != g && self.groups[h].rank >= group.rank);
        if group.read_by_others && item.inputs.iter().any(late) {
            return None;
        }
        if let Kind::Reduce(_, axes) = &item.kind {
            let e = &item.inputs[0];
            let same = group.axes.as_ref().is_none_or(|a| a == axes);
            return (same && self.readable(e, g)).then_some(true);
        }
        let row = self.items[i].inputs.iter().all(|e| self.at(e.base).is_none_or(|(h, r)| h != g || r))
            && item.shape.numel() == group.row_shape().numel()
            && group.axes.is_some()
            && item
                .inputs
                .iter()
                .filter(|e| self.at(e.base).is_some_and(|(h, _)| h == g))
                .all(|e| e.is_identity(self.items));
        let target = if row { group.row_shape() } else { group.space.clone() };
        if item.shape.numel() != target.numel() || (!row && item.shape != target) {
            return None;
        }
        for (n, e) in item.inputs.iter().enumerate() {
            match self.at(e.base) {
                Some((h, _)) if h == g => {
                    // What is looked up in must be a buffer, and this group has not written it yet.
                    let looked_up = matches!(item.kind, Kind::Gather(_)) && n == 0;
                    if looked_up || (!row && !self.readable(e, g)) {
                        return None;
                    }
                }
                _ => {
                    let view = match item.kind {
                        // A table is read along the result's axes, and anywhere along the looked-up one.
                        Kind::Gather(axis) if n == 0 => {
                            let mut view = View { shape: item.shape.clone(), ..e.view.clone() };
                            view.strides[axis] = 0;
                            view
                        }
                        _ => e.view.clone(),
                    };
                    if row && view.apply(&ViewOp::Reshape(target.clone())).is_none() {
                        return None;
                    }
                }
            }
        }
        Some(row)
    }

    /// Whether an edge into group `g` reads an element (one to one) or a row (broadcast).
    fn readable(&self, e: &Edge, g: usize) -> bool {
        match self.at(e.base) {
            Some((h, false)) if h == g => e.is_identity(self.items) && e.view.shape == self.groups[g].space,
            Some((h, true)) if h == g => self.is_row_broadcast(e, g),
            _ => false,
        }
    }

    fn is_row_broadcast(&self, e: &Edge, g: usize) -> bool {
        let group = &self.groups[g];
        let rows = group.row_shape();
        let strides = rows.strides();
        e.view.shape == group.space
            && e.view.bounds.is_empty()
            && e.view.offset == 0
            && (0..rows.rank()).all(|d| {
                let reduced = rows[d] != group.space[d];
                group.space[d] == 1 || e.view.strides[d] == if reduced { 0 } else { strides[d] }
            })
    }

    fn join(&mut self, i: usize, g: usize) {
        let items = self.items;
        let mut rank = self.groups[g].rank;
        let mut loads = 0;
        for e in &items[i].inputs {
            match self.at(e.base) {
                Some((h, _)) if h != g => {
                    self.groups[h].read_by_others = true;
                    rank = rank.max(self.groups[h].rank + 1);
                    loads += 1;
                }
                None => loads += 1,
                Some(_) => {}
            }
        }
        let group = &mut self.groups[g];
        group.rank = rank;
        group.loads += loads;
        group.items.push(i);
        if let Kind::Reduce(_, axes) = &items[i].kind {
            group.axes = Some(axes.clone());
        }
    }

    /// Groups of one rank and space that read the same buffer become one kernel with several outputs.
    fn merge_siblings(&mut self) {
        use std::collections::HashMap;
        /// What is read, at which rank, over which space and axes.
        type Reads = (usize, usize, Shape, Option<SmallVec<[usize; 6]>>);
        let mut seen: HashMap<Reads, usize> = HashMap::new();
        for g in 0..self.groups.len() {
            if self.groups[g].opaque || self.groups[g].merged_into.is_some() {
                continue;
            }
            let mut bases: SmallVec<[usize; 8]> = SmallVec::new();
            for &i in &self.groups[g].items {
                for e in &self.items[i].inputs {
                    let outside = self.at(e.base).is_none_or(|(h, _)| h != g);
                    let base = &self.items[e.base];
                    // One stored number may be read by anybody; over one element, it is all there is.
                    let one = matches!(base.kind, Kind::Leaf(_));
                    let whole = base.shape.numel() == self.groups[g].space.numel();
                    let large = whole && (one || base.shape.numel() > 1);
                    if outside && large && !base.kind.is_virtual() && !bases.contains(&e.base) {
                        bases.push(e.base);
                    }
                }
            }
            for b in bases {
                let group = &self.groups[g];
                let key = (b, group.rank, group.space.clone(), group.axes.clone());
                let Some(&other) = seen.get(&key) else {
                    seen.insert(key, g);
                    continue;
                };
                let other = self.find(other);
                let items = self.groups[other].items.len() + self.groups[g].items.len();
                let args = self.args_of(&self.groups[other]) + self.args_of(&self.groups[g]);
                let same = other != g && self.groups[other].rank == self.groups[g].rank;
                if same && items < self.limits.max_insts / 4 && args <= self.limits.max_args {
                    self.merge(other, g);
                    break;
                }
            }
        }
    }

    /// Final places, with merged groups resolved.
    fn settle(self) -> (Vec<Place>, Vec<Group>) {
        let place = (0..self.place.len())
            .map(|i| match self.at(i) {
                Some((group, row)) => Place::Group { group, row },
                None => self.place[i],
            })
            .collect();
        (place, self.groups)
    }
}
