//! What is sorted in place of elements.

use super::packed::{self, Packing};
use crate::element::Order;
use crate::lanes::PARALLEL_WORK;
use crate::scratch;
use crate::tasks::for_chunks;

/// An element's sort key and position: sorting these is stable whatever the algorithm, and
/// compares integers side by side instead of following positions to floats.
pub(crate) type Item = (u64, u32);

/// Memory for the items of a lane.
#[derive(Default)]
pub(super) struct Items {
    pub wide: Vec<Item>,
    pub packed: Vec<u64>,
}

impl Items {
    /// Writes the first positions of a lane in sorted order, as many as `out` has; false where its keys and positions do
    /// not fit into one word together.
    pub fn argsort<T: Order>(&mut self, x: &[T], descending: bool, out: &mut [i64]) -> bool {
        let Some(how) = Packing::of(x, descending) else { return false };
        if x.len() <= packed::FEW {
            let mut few = [u64::MAX; packed::FEW];
            few.iter_mut().zip(x).zip(0..).for_each(|((item, x), i)| *item = how.item(*x, i));
            packed::sort_few(&mut few, x.len());
            out.iter_mut().zip(few).for_each(|(o, item)| *o = how.position(item) as i64);
            return true;
        }
        if x.len() < packed::CUT || (x.len() < PARALLEL_WORK && !how.many_bits()) {
            self.packed.clear();
            self.packed.extend(x.iter().zip(0..).map(|(x, i)| how.item(*x, i)));
            self.packed.resize(2 * x.len(), 0);
            let (items, room) = self.packed.split_at_mut(x.len());
            packed::sort(items, room, how);
            out.iter_mut().zip(items).for_each(|(o, item)| *o = how.position(*item) as i64);
            return true;
        }
        // Fresh pages for so many would take longer than sorting them.
        let mut room = scratch::take(4 * x.len());
        packed::sorted_all(x, how, &mut room, |items| {
            for_chunks(out, PARALLEL_WORK / 4, 1, true, |(c, out)| {
                let items = &items[c * (PARALLEL_WORK / 4)..];
                out.iter_mut().zip(items).for_each(|(o, item)| *o = how.position(*item) as i64);
            });
        });
        true
    }
}

/// The items of a lane in order of position.
pub(crate) fn all<T: Order>(x: &[T], descending: bool, items: &mut Vec<Item>) {
    let key = |x: &T| if descending { !x.key() } else { x.key() };
    items.clear();
    items.extend(x.iter().enumerate().map(|(i, x)| (key(x), i as u32)));
}

/// The items, which are in order of position, in order of their keys: the same order as sorting them gives. Long lists
/// whose keys differ in a few bytes only are dealt out by those, the last byte first.
pub(crate) fn sorted(items: &mut Vec<Item>) -> &[Item] {
    let n = items.len();
    let first = items.first().map_or(0, |i| i.0);
    let differ = items.iter().fold(0, |d, i| d | (i.0 ^ first));
    let bytes = (0..8).filter(|b| differ >> (8 * b) & 0xff != 0);
    if n < 256 || 2 * bytes.clone().count() > n.ilog2() as usize {
        items.sort_unstable();
        return items;
    }
    items.resize(2 * n, (0, 0));
    let (mut from, mut to) = items.split_at_mut(n);
    for b in bytes {
        let digit = |i: &Item| (i.0 >> (8 * b)) as usize & 0xff;
        let mut place = [0u32; 256];
        from.iter().for_each(|i| place[digit(i)] += 1);
        let mut sum = 0;
        place.iter_mut().for_each(|p| (*p, sum) = (sum, sum + *p));
        for i in from.iter() {
            let at = &mut place[digit(i)];
            to[*at as usize] = *i;
            *at += 1;
        }
        (from, to) = (to, from);
    }
    from
}
