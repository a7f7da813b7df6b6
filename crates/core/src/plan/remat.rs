//! Computing again instead of storing.
//!
//! Gradients read what was computed on the way forward: the inside of a GELU, the normalised rows of a layer norm. On a
//! device whose arithmetic is cheap beside its memory, it is faster (and takes less memory for all the time between) to
//! compute these elementwise values once more where they are read, from what is stored anyway.
//!
//! The pass runs on a first grouping ([`super::fuse`]). An elementwise item that only kernels of other groups read is
//! copied into each of these groups, together with the elementwise items of its own group that it is made of, if that
//! moves fewer bytes. Copies keep apart from the groups of what they read ([`Edge::apart`]), so that a second grouping
//! leaves them with their readers.

use super::{
    fuse::{Fused, Place},
    linear::Linear,
    lower::{Edge, Item, Kind, Lowered},
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Smaller items are not worth a thought.
const LEAST: usize = 1 << 14;
/// Items that one value may be made of.
const LONGEST: usize = 24;

/// The items with copies where computing again is cheaper; `None` where nothing changes.
pub fn recompute(l: Lowered, fused: &Fused, graph: &Linear, max_items: usize) -> Result<Lowered, Lowered> {
    let n = l.items.len();
    let mut pass = Pass::new(l, fused, graph, max_items);
    for i in 0..n {
        pass.consider(i);
    }
    if pass.items.len() == n {
        return Err(Lowered { items: pass.items, roots: pass.roots });
    }
    Ok(pass.in_order(n))
}

struct Pass<'a> {
    items: Vec<Item>,
    roots: Vec<(usize, Edge)>,
    /// Group of each item, and whether it is computed once a row; copies are in the groups of their readers.
    group: Vec<Option<(usize, bool)>>,
    opaque: Vec<bool>,
    sizes: Vec<usize>,
    stored: Vec<bool>,
    /// Items whose node is read from outside the plan, or may be.
    fixed: Vec<bool>,
    readers: Vec<Vec<usize>>,
    /// What each group reads from outside.
    reads: HashMap<usize, HashSet<usize>>,
    /// Copies by group and original.
    copies: HashMap<(usize, usize), usize>,
    fused: &'a Fused,
    max_items: usize,
}

impl<'a> Pass<'a> {
    fn new(l: Lowered, fused: &'a Fused, graph: &Linear, max_items: usize) -> Pass<'a> {
        let at = |p: &Place| match *p {
            Place::Group { group, row } => Some((group, row)),
            Place::Dead | Place::Source => None,
        };
        let group: Vec<_> = fused.place.iter().map(at).collect();
        let mut fixed: Vec<bool> = l.items.iter().map(|i| graph.nodes[i.node].keep).collect();
        l.roots.iter().for_each(|(_, e)| fixed[e.base] = true);
        let mut readers = vec![vec![]; l.items.len()];
        let mut reads: HashMap<usize, HashSet<usize>> = HashMap::new();
        for (i, item) in l.items.iter().enumerate().filter(|(i, _)| fused.place[*i] != Place::Dead) {
            for e in &item.inputs {
                readers[e.base].push(i);
                if let Some((g, _)) = group[i]
                    && group[e.base].is_none_or(|(h, _)| h != g)
                {
                    reads.entry(g).or_default().insert(e.base);
                }
            }
        }
        Pass {
            group,
            fixed,
            readers,
            reads,
            opaque: fused.groups.iter().map(|g| g.opaque).collect(),
            sizes: fused.groups.iter().map(|g| g.items.len()).collect(),
            stored: fused.stored.clone(),
            copies: HashMap::new(),
            items: l.items,
            roots: l.roots,
            fused,
            max_items,
        }
    }

    fn bytes(&self, i: usize) -> usize {
        let item = &self.items[i];
        if item.kind.is_virtual() { 0 } else { item.shape.numel() * item.dtype.size() }
    }

    /// Whether an item is elementwise, and computed once an element of group `g`.
    fn inside(&self, i: usize, g: usize) -> bool {
        self.items[i].kind.is_pointwise() && self.group[i] == Some((g, false))
    }

    /// The groups that read an item, if it could be computed in each of them.
    fn reading_groups(&self, i: usize, own: usize) -> Option<BTreeSet<usize>> {
        let mut groups = BTreeSet::new();
        for &r in &self.readers[i] {
            let (g, _) = self.group[r]?;
            if g == own {
                continue;
            }
            let same = |e: &Edge| e.base != i || e.is_identity(&self.items) && e.view.shape == self.items[i].shape;
            // What is looked up in must be a buffer.
            let table = matches!(self.items[r].kind, Kind::Gather(_)) && self.items[r].inputs[0].base == i;
            if table
                || self.opaque[g]
                || self.fused.groups[g].space != self.items[i].shape
                || !self.items[r].inputs.iter().all(same)
            {
                return None;
            }
            groups.insert(g);
        }
        (!groups.is_empty()).then_some(groups)
    }

    /// The items that `i` is made of within its group, inputs first, and what these read.
    fn chain(&self, i: usize, own: usize) -> Option<(Vec<usize>, BTreeSet<usize>)> {
        let (mut chain, mut anchors) = (BTreeSet::from([i]), BTreeSet::new());
        let mut todo = vec![i];
        while let Some(k) = todo.pop() {
            for e in &self.items[k].inputs {
                let b = e.base;
                if self.inside(b, own) && !self.stored[b] {
                    if chain.insert(b) {
                        todo.push(b);
                    }
                } else {
                    anchors.insert(b);
                }
            }
            if chain.len() > LONGEST {
                return None;
            }
        }
        // Copies were made after what they read, and read nothing that was made later: but not in the order of numbers.
        let mut sorted: Vec<usize> = vec![];
        let mut done = HashSet::new();
        let mut stack: Vec<(usize, bool)> = vec![(i, false)];
        while let Some((k, ready)) = stack.pop() {
            if done.contains(&k) {
                continue;
            }
            if ready {
                done.insert(k);
                sorted.push(k);
                continue;
            }
            stack.push((k, true));
            stack.extend(self.items[k].inputs.iter().filter(|e| chain.contains(&e.base)).map(|e| (e.base, false)));
        }
        Some((sorted, anchors))
    }

    /// Computes item `i` again wherever it is read, if that is cheaper.
    fn consider(&mut self, i: usize) {
        let Some((own, false)) = self.group[i] else { return };
        let large = self.items[i].shape.numel() >= LEAST;
        if !large || !self.stored[i] || self.fixed[i] || !self.items[i].kind.is_pointwise() {
            return;
        }
        let Some(groups) = self.reading_groups(i, own) else { return };
        let Some((chain, anchors)) = self.chain(i, own) else { return };
        let fits = |g: &usize| self.sizes[*g] + chain.len() <= self.max_items;
        // What is not stored yet and would have to be; an element of this very group stays cheaper as it is.
        let new = |a: usize| !self.stored[a] && self.group[a].is_some();
        let mut cost: usize = anchors.iter().filter(|&&a| new(a)).map(|&a| self.bytes(a)).sum();
        for g in &groups {
            let read = self.reads.get(g);
            let more = anchors
                .iter()
                .filter(|a| read.is_none_or(|r| !r.contains(a)) && self.group[**a].map(|p| p.0) != Some(*g));
            cost += more.map(|&a| self.bytes(a)).sum::<usize>();
        }
        if cost >= self.bytes(i) * (1 + groups.len()) || !groups.iter().all(fits) {
            return;
        }
        for g in groups {
            self.copy_into(g, i, &chain);
        }
        for a in anchors {
            self.stored[a] |= self.group[a].is_some();
        }
        self.stored[i] = false;
    }

    /// Copies a chain into group `g`, and lets its items read the copy.
    fn copy_into(&mut self, g: usize, i: usize, chain: &[usize]) {
        let readers: Vec<usize> =
            self.readers[i].iter().copied().filter(|&r| self.group[r].is_some_and(|p| p.0 == g)).collect();
        let Some(&first) = readers.first() else { return };
        for &k in chain {
            if self.copies.contains_key(&(g, k)) {
                continue;
            }
            let new = self.items.len();
            let (item, node) = (&self.items[k], self.items[first].node);
            let inputs = item.inputs.iter().map(|e| match self.copies.get(&(g, e.base)) {
                Some(&copy) if chain.contains(&e.base) => Edge { base: copy, apart: false, ..e.clone() },
                _ => Edge { apart: true, ..e.clone() },
            });
            let inputs: smallvec::SmallVec<[Edge; 2]> = inputs.collect();
            for e in &inputs {
                self.readers[e.base].push(new);
                if self.group[e.base].is_none_or(|(h, _)| h != g) {
                    self.reads.entry(g).or_default().insert(e.base);
                }
            }
            let copy = Item {
                kind: item.kind.clone(),
                inputs,
                shape: item.shape.clone(),
                dtype: item.dtype,
                node,
                moved: true,
            };
            self.items.push(copy);
            self.group.push(Some((g, false)));
            self.stored.push(false);
            self.fixed.push(true); // it is read in its group alone
            self.readers.push(vec![]);
            self.sizes[g] += 1;
            self.copies.insert((g, k), new);
        }
        let copy = self.copies[&(g, i)];
        for r in readers {
            for e in &mut self.items[r].inputs {
                if e.base == i {
                    e.base = copy;
                }
            }
            self.readers[i].retain(|&x| x != r);
            self.readers[copy].push(r);
        }
        if let Some(reads) = self.reads.get_mut(&g) {
            reads.remove(&i);
        }
    }

    /// The items with copies right before their first readers.
    fn in_order(self, originals: usize) -> Lowered {
        let mut new = vec![usize::MAX; self.items.len()];
        let mut order = Vec::with_capacity(self.items.len());
        for i in 0..originals {
            let mut stack = vec![(i, false)];
            while let Some((k, ready)) = stack.pop() {
                if new[k] != usize::MAX {
                    continue;
                }
                if ready {
                    new[k] = order.len();
                    order.push(k);
                    continue;
                }
                stack.push((k, true));
                stack.extend(self.items[k].inputs.iter().filter(|e| e.base >= originals).map(|e| (e.base, false)));
            }
        }
        let mut items: Vec<Option<Item>> = self.items.into_iter().map(Some).collect();
        let mut out = Vec::with_capacity(order.len());
        for k in order {
            if let Some(mut item) = items[k].take() {
                item.inputs.iter_mut().for_each(|e| e.base = new[e.base]);
                out.push(item);
            }
        }
        let roots = self.roots.into_iter().map(|(n, e)| (n, Edge { base: new[e.base], ..e })).collect();
        Lowered { items: out, roots }
    }
}
