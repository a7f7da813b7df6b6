//! A bias that is added to a product while it is still at hand.
//!
//! Where a product is read by an addition of one vector to all its rows, and by nobody else, and that addition is a kernel of
//! its own (the rows go on into a library call, say), it becomes part of the product: one pass over memory less.

use super::{
    fuse::{Group, Place},
    lower::{Edge, Item, Kind, Lowered, Opaque},
};
use crate::{Shape, backend::Limits, op::ewise, view::View};
use smallvec::SmallVec;

/// Joins them.
pub fn biases(l: &mut Lowered, place: &mut Vec<Place>, groups: &mut Vec<Group>, age: &mut Vec<u64>, limits: &Limits) {
    let mut readers = vec![0usize; l.items.len()];
    for (i, item) in l.items.iter().enumerate() {
        if !matches!(place[i], Place::Dead) {
            item.inputs.iter().for_each(|e| readers[e.base] += 1);
        }
    }
    l.roots.iter().for_each(|(_, e)| readers[e.base] += 1);
    // What is to be joined with others is written where it is joined, if it is a kernel's.
    for item in l.items.iter().filter(|item| matches!(item.kind, Kind::Opaque(Opaque::Cat(_)))) {
        item.inputs.iter().for_each(|e| readers[e.base] = usize::MAX / 2);
    }
    for g in 0..groups.len() {
        let Some(found) = find(l, &groups[g], &readers, limits) else { continue };
        let Found { sum, product, mut bias, cast } = found;
        let n = bias.view.shape.numel();
        if let Some(cast) = cast {
            // The vector alone is converted, once.
            let (dtype, node) = (l.items[cast].dtype, l.items[cast].node);
            let inputs = SmallVec::from_iter([bias]);
            l.items.push(Item { kind: Kind::Cast, inputs, shape: n.into(), dtype, node, moved: true });
            place.push(Place::Group { group: groups.len(), row: false });
            groups.push(Group::single(n.into(), l.items.len() - 1, false));
            age.push(age[sum]);
            place[cast] = Place::Dead;
            bias = Edge::whole(l.items.len() - 1, &n.into());
        }
        let mut inputs = l.items[product].inputs.clone();
        inputs.push(bias);
        let matrix = l.items[product].shape.clone();
        let item = &mut l.items[sum];
        (item.kind, item.inputs) = (Kind::Opaque(Opaque::Biased(matrix)), inputs);
        if let Place::Group { group, .. } = std::mem::replace(&mut place[product], Place::Dead) {
            groups[group].items.clear();
        }
        groups[g] = Group::single(l.items[sum].shape.clone(), sum, true);
    }
}

struct Found {
    sum: usize,
    product: usize,
    /// The vector, as it lies.
    bias: Edge,
    /// Its conversion, if the group has one.
    cast: Option<usize>,
}

fn find(l: &Lowered, group: &Group, readers: &[usize], limits: &Limits) -> Option<Found> {
    let (&sum, rest) = group.items.split_last()?;
    let item = &l.items[sum];
    let adds = matches!(item.kind, Kind::Ewise(row) if std::ptr::eq(row, &ewise::ADD));
    let joined = readers[sum] >= usize::MAX / 2;
    if joined || group.opaque || group.axes.is_some() || rest.len() > 1 || !adds || !limits.bias.contains(&item.dtype) {
        return None;
    }
    let [x, y] = &item.inputs[..] else { return None };
    [(x, y), (y, x)].into_iter().find_map(|(x, bias)| {
        let product = &l.items[x.base];
        let matrix = product.shape.rank() >= 2 && product.shape[..product.shape.rank() - 2].iter().all(|&n| n == 1);
        let whole = x.view.is_contiguous() && x.view.offset == 0 && x.view.shape.numel() == product.shape.numel();
        let is_product = matches!(product.kind, Kind::Opaque(Opaque::Matmul));
        if !is_product || !matrix || !whole || readers[x.base] != 1 || product.dtype != item.dtype {
            return None;
        }
        let n = *product.shape.last()?;
        let (cast, edge) = match rest.first() {
            Some(&c) if bias.base == c => {
                let own = matches!(l.items[c].kind, Kind::Cast) && readers[c] == 1 && bias.is_identity(&l.items);
                (Some(c), own.then(|| &l.items[c].inputs[0])?)
            }
            Some(_) => return None,
            None => (None, bias),
        };
        let base = &l.items[edge.base];
        let stored = !base.kind.is_virtual() && (cast.is_some() || base.dtype == item.dtype);
        let offset = vector(&edge.view, n).filter(|_| stored)?;
        let shape = Shape::from(n);
        let view = View { offset, ..View::contiguous(&shape) };
        Some(Found { sum, product: x.base, bias: Edge::of(edge.base, view), cast })
    })
}

/// Where a view begins that repeats one vector of `n` elements over all rows.
fn vector(view: &View, n: usize) -> Option<isize> {
    let mut along = 1;
    for (&extent, &stride) in view.shape.iter().zip(&view.strides).rev() {
        let right = if along < n { stride == along as isize } else { stride == 0 };
        if extent > 1 && !right {
            return None;
        }
        along *= if along < n { extent } else { 1 };
    }
    (along == n && view.bounds.is_empty()).then_some(view.offset)
}
