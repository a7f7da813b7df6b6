//! A rectifier before a maximum pooling goes behind it, where there are fewer elements.
//!
//! `max_pool(relu(x))` is `relu(max_pool(x))`, bit for bit, and the gradient of the one is that of the other: a window
//! whose largest element is above zero hands its gradient to that element either way, all others hand on zeros. So the
//! rectifier's mask is as large as the pooled planes, `relu(x)` is never stored, and the pooling's gradient can be written
//! over `x`, which nobody reads after.

use super::{
    items::{Edge, Item, Kind, Opaque},
    lower::Lowered,
};
use crate::{
    op::{HostOp, MaxPool, ewise},
    view::View,
};
use smallvec::SmallVec;

/// Readers of an item, each with which of its inputs that is.
type Readers = SmallVec<[(usize, usize); 3]>;

/// Exchanges them. `keeps` says of a node whether somebody may want its value later: a forward pass alone leaves its
/// rectifier where it is, for the backward pass that comes after.
pub fn exchange(l: &mut Lowered, keeps: impl Fn(usize) -> bool) {
    if !l.items.iter().any(|i| pooling(i) == Some(MaxPool::Max)) {
        return;
    }
    let mut readers: Vec<Readers> = vec![Readers::new(); l.items.len()];
    // A result counts as a reader that does not fit. What nobody reads is left behind by lowering, and reads nothing.
    l.roots.iter().for_each(|(_, e)| readers[e.base].push((l.items.len(), 0)));
    for (i, item) in l.items.iter().enumerate().rev() {
        if !readers[i].is_empty() {
            item.inputs.iter().enumerate().for_each(|(k, e)| readers[e.base].push((i, k)));
        }
    }
    for pool in 0..l.items.len() {
        let Some(found) = find(&l.items, &readers, pool) else { continue };
        if found.back.is_some() || !keeps(l.items[found.relu].node) {
            found.apply(&mut l.items);
        }
    }
}

fn pooling(item: &Item) -> Option<MaxPool> {
    if let Kind::Opaque(Opaque::Host(HostOp::MaxPool(which, _))) = item.kind { Some(which) } else { None }
}

/// The items by their numbers.
struct Found {
    relu: usize,
    pool: usize,
    /// What the rectifier reads, as planes.
    x: Edge,
    back: Option<Back>,
}

/// Those of the gradient: `where(mask, grad, 0)` with the mask `relu(x) > 0`.
struct Back {
    mask: usize,
    grad: usize,
    chosen: usize,
}

fn find(items: &[Item], readers: &[Readers], pool: usize) -> Option<Found> {
    let is = |i: usize, row| matches!(items.get(i).map(|i| &i.kind), Some(Kind::Ewise(r)) if std::ptr::eq(*r, row));
    // Reads an item element by element, if under another shape: poolings count planes.
    let plain = |e: &Edge| e.is_identity(items);
    let only = |i: usize, reader: (usize, usize)| readers[i][..] == [reader];
    if pooling(&items[pool]) != Some(MaxPool::Max) || readers[pool].is_empty() || !plain(&items[pool].inputs[0]) {
        return None;
    }
    let relu = items[pool].inputs[0].base;
    if !is(relu, &ewise::RELU) || items[relu].moved {
        return None;
    }
    let x = items[relu].inputs.first().filter(|x| x.view.is_contiguous() && !items[x.base].kind.is_virtual())?;
    let x = x.reshaped(&items[pool].inputs[0].view.shape)?;
    if only(relu, (pool, 0)) {
        return Some(Found { relu, pool, x, back: None });
    }
    let of = |f: &dyn Fn(usize, usize) -> bool| readers[relu].iter().find(|r| f(r.0, r.1)).map(|r| r.0);
    let mask = of(&|i, k| is(i, &ewise::GT) && k == 0)?;
    let grad = of(&|i, k| items.get(i).and_then(pooling) == Some(MaxPool::Grad) && k == 0)?;
    let &[(chosen, 1)] = &readers[grad][..] else { return None };
    let same = |a: usize, b: usize| match (&items[a].kind, &items[b].kind) {
        (Kind::Opaque(Opaque::Host(HostOp::MaxPool(_, a))), Kind::Opaque(Opaque::Host(HostOp::MaxPool(_, b)))) => {
            a == b
        }
        _ => false,
    };
    let fits = readers[relu].len() == 3
        && readers[relu].contains(&(pool, 0))
        && is(chosen, &ewise::WHERE)
        && only(mask, (chosen, 0))
        && same(pool, grad)
        && [mask, grad].iter().all(|&i| plain(&items[i].inputs[0]))
        && [0, 1].iter().all(|&k| plain(&items[chosen].inputs[k]))
        && repeated(&items[mask].inputs[1], items)
        && repeated(&items[chosen].inputs[2], items)
        && items[grad].inputs[1].view.shape == items[pool].shape
        && !items[chosen].moved;
    fits.then_some(Found { relu, pool, x, back: Some(Back { mask, grad, chosen }) })
}

/// Whether it is one number everywhere.
fn repeated(e: &Edge, items: &[Item]) -> bool {
    matches!(items[e.base].kind, Kind::Scalar(_)) && e.view.strides.iter().all(|&s| s == 0) && e.view.bounds.is_empty()
}

impl Found {
    fn apply(self, items: &mut [Item]) {
        let Found { relu, pool, x, back } = self;
        let pooled = items[pool].shape.clone();
        let number = |e: &Edge| {
            let strides = pooled.iter().map(|_| 0).collect();
            Edge::of(e.base, View { strides, ..View::contiguous(&pooled) })
        };
        // The rectifier and the pooling change places.
        let kinds = [relu, pool].map(|i| items[i].kind.clone());
        items[relu].shape = pooled.clone();
        items[relu].moved = true;
        items[relu].node = items[pool].node;
        [items[pool].kind, items[relu].kind] = kinds;
        items[relu].inputs[0] = x.clone();
        items[pool].inputs[0] = Edge::whole(relu, &pooled);
        let Some(Back { mask, grad, chosen }) = back else { return };
        let (zero, other) = (number(&items[mask].inputs[1]), number(&items[chosen].inputs[2]));
        let above = items[grad].inputs[1].clone();
        // They keep their places in the order: the mask first, then what it chooses, then the gradient of the planes.
        let (first, second) = (mask.min(grad), mask.max(grad));
        let kinds = [mask, chosen, grad].map(|i| items[i].kind.clone());
        let types = [mask, chosen, grad].map(|i| items[i].dtype);
        let nodes = [mask, chosen].map(|i| items[i].node);
        for (i, node, dtype) in [(first, nodes[0], types[0]), (second, nodes[1], types[1])] {
            items[i].shape = pooled.clone();
            items[i].moved = true;
            (items[i].node, items[i].dtype) = (node, dtype);
        }
        // What is above zero before it is rectified is so after it.
        items[first].inputs = SmallVec::from_iter([Edge::whole(relu, &pooled), zero]);
        items[second].inputs = SmallVec::from_iter([Edge::whole(first, &pooled), above, other]);
        items[chosen].inputs = SmallVec::from_iter([x, Edge::whole(second, &pooled)]);
        [items[first].kind, items[second].kind, items[chosen].kind] = kinds;
    }
}
