//! A bias that is added to a product or a convolution while it is still at hand, and a rectifier after it.
//!
//! Where a product is read by an addition of one vector to all its rows (a convolution: of one number to each channel), and
//! by nobody else, and that addition is a kernel of its own, alone or with a `relu` after it, both become part of the
//! product: one pass over memory less.

use super::{
    fuse::{Group, Place},
    items::{Edge, Item, Kind, Opaque},
    lower::Lowered,
};
use crate::{
    Shape,
    backend::Limits,
    op::{
        ConvKind,
        ewise::{self, Ewise},
    },
    view::View,
};
use smallvec::SmallVec;

/// Joins them.
pub fn tails(l: &mut Lowered, place: &mut Vec<Place>, groups: &mut Vec<Group>, age: &mut Vec<u64>, limits: &Limits) {
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
        let Found { sum, relu, product, mut bias, cast } = found;
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
        let kind = match &l.items[product].kind {
            Kind::Opaque(Opaque::Conv(spec)) => Opaque::BiasedConv(spec.clone(), relu.is_some()),
            _ => Opaque::Biased(l.items[product].shape.clone(), relu.is_some()),
        };
        let last = relu.unwrap_or(sum);
        (l.items[last].kind, l.items[last].inputs) = (Kind::Opaque(kind), inputs);
        if relu.is_some() {
            place[sum] = Place::Dead;
        }
        if let Place::Group { group, .. } = std::mem::replace(&mut place[product], Place::Dead) {
            groups[group].items.clear();
        }
        groups[g] = Group::single(l.items[last].shape.clone(), last, true);
    }
}

struct Found {
    sum: usize,
    /// The rectifier of the sum, if there is one.
    relu: Option<usize>,
    product: usize,
    /// The vector, as it lies.
    bias: Edge,
    /// Its conversion, if the group has one.
    cast: Option<usize>,
}

fn is(item: &Item, row: &'static Ewise) -> bool {
    matches!(item.kind, Kind::Ewise(r) if std::ptr::eq(r, row))
}

fn find(l: &Lowered, group: &Group, readers: &[usize], limits: &Limits) -> Option<Found> {
    let (&last, mut rest) = group.items.split_last()?;
    let (mut sum, mut relu) = (last, None);
    if limits.relu && is(&l.items[last], &ewise::RELU) {
        let (&s, before) = rest.split_last()?;
        if readers[s] != 1 || l.items[last].inputs[0].base != s || !l.items[last].inputs[0].is_identity(&l.items) {
            return None;
        }
        (sum, relu, rest) = (s, Some(last), before);
    }
    let item = &l.items[sum];
    let joined = readers[last] >= usize::MAX / 2;
    if joined || group.opaque || group.axes.is_some() || rest.len() > 1 || !is(item, &ewise::ADD) {
        return None;
    }
    let [x, y] = &item.inputs[..] else { return None };
    [(x, y), (y, x)].into_iter().find_map(|(x, bias)| {
        let product = &l.items[x.base];
        // The axis of the bias, and the elements behind it.
        let (axis, inner) = match &product.kind {
            Kind::Opaque(Opaque::Matmul) if limits.bias.contains(&item.dtype) => {
                let axis = product.shape.rank().checked_sub(1)?;
                (product.shape[..axis.checked_sub(1)?].iter().all(|&n| n == 1)).then_some((axis, 1))?
            }
            Kind::Opaque(Opaque::Conv(spec)) if limits.conv_bias.contains(&item.dtype) => {
                let fits = spec.kind == ConvKind::Forward && !spec.channels_last;
                fits.then(|| (1, product.shape[2..].iter().product()))?
            }
            _ => return None,
        };
        let whole = x.view.is_contiguous() && x.view.offset == 0 && x.view.shape.numel() == product.shape.numel();
        if !whole || readers[x.base] != 1 || product.dtype != item.dtype {
            return None;
        }
        let n = product.shape[axis];
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
        let offset = vector(&edge.view, inner, n).filter(|_| stored)?;
        let shape = Shape::from(n);
        let view = View { offset, ..View::contiguous(&shape) };
        Some(Found { sum, relu, product: x.base, bias: Edge::of(edge.base, view), cast })
    })
}

/// Where a view begins that repeats each of `n` elements `inner` times, and that as often as it takes.
fn vector(view: &View, inner: usize, n: usize) -> Option<isize> {
    let (mut within, mut along) = (1, 1);
    for (&extent, &stride) in view.shape.iter().zip(&view.strides).rev().filter(|(n, _)| **n > 1) {
        let step = if within < inner {
            within *= extent;
            0
        } else if along < n {
            along *= extent;
            along / extent
        } else {
            0
        };
        if stride != step as isize {
            return None;
        }
    }
    (within == inner && along == n && view.bounds.is_empty()).then_some(view.offset)
}
