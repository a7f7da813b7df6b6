//! Walking a graph, with a stack of our own instead of recursion.

use super::Tensor;
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
    sync::{Mutex, MutexGuard, atomic::Ordering::Relaxed},
};

/// A hasher for node ids, which are sequential: one multiplication is enough.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ b as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }
    fn write_u64(&mut self, x: u64) {
        self.0 = (self.0 ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64);
    }
}

pub(crate) type IdMap<T> = HashMap<u64, T, BuildHasherDefault<IdHasher>>;
pub(crate) type IdSet = HashSet<u64, BuildHasherDefault<IdHasher>>;

/// All nodes reachable from `roots` through nodes for which `enter` is true, inputs before users.
///
/// ```
/// use gradus_core::{graph::topological, Tensor};
/// let x = Tensor::from([1.0f32, 2.0]);
/// let y = (&x * 2.0).exp();
/// let order = topological(&[&y], |_| true);
/// let names: Vec<_> = order.iter().map(|t| t.op_name()).collect();
/// assert_eq!(names, ["data", "scalar", "mul", "exp"]);
/// ```
pub fn topological(roots: &[&Tensor], enter: impl Fn(&Tensor) -> bool) -> Vec<Tensor> {
    let mut order = Vec::new();
    let mut seen = IdSet::default();
    let mut stack: Vec<(Tensor, bool)> = Vec::new();
    for root in roots {
        stack.push((root.resolve(), false));
        while let Some((t, done)) = stack.pop() {
            if done {
                order.push(t);
                continue;
            }
            if !seen.insert(t.id()) {
                continue;
            }
            let inner = if enter(&t) { t.node().inputs() } else { Default::default() };
            stack.push((t, true));
            for i in inner.into_iter().rev() {
                if !seen.contains(&i.id()) {
                    stack.push((i, false));
                }
            }
        }
    }
    order
}

/// A walk that numbers the nodes it comes by, in the nodes themselves: no map to look them up in. One goes on at a time.
pub(crate) struct Walk {
    number: u64,
    _alone: MutexGuard<'static, u64>,
}

impl Walk {
    /// Waits for the walk before to end.
    pub fn begin() -> Walk {
        static WALKS: Mutex<u64> = Mutex::new(0);
        let mut alone = WALKS.lock().unwrap_or_else(|e| e.into_inner());
        // New nodes carry the mark of walk 0. After 2^32 walks a number comes again: a node would have to live through
        // all of them, and never be walked over, to be mistaken.
        *alone = (*alone % u32::MAX as u64) + 1;
        Walk { number: *alone, _alone: alone }
    }

    /// The number a node got in this walk.
    pub fn place(&self, t: &Tensor) -> Option<usize> {
        let mark = t.node().mark.load(Relaxed);
        (mark >> 32 == self.number).then_some((mark & u32::MAX as u64) as usize)
    }

    /// Numbers a node.
    pub fn set(&self, t: &Tensor, place: usize) {
        t.node().mark.store(self.number << 32 | place as u64, Relaxed);
    }
}
