//! Where the nodes live: one slab for each thread, with reference counts.
//!
//! Every node sits in a slot of one `Vec`, 32 bytes each, and names its operands by slot. Against one `Rc` for
//! each node this saves an allocation a node and keeps neighbours together in memory, which is what makes a
//! node cost nanoseconds. A node counts the handles and the nodes that refer to it; when the count falls to
//! zero its slot becomes free and its operands are let go in turn, by a loop and not by recursion, so that a
//! chain of a million nodes drops on an ordinary stack.
//!
//! A backward pass has to visit results before their operands. In a tape that only ever grew this would be slot
//! order, backwards. Reused slots can break it, so the tape counts the *inversions*: nodes that sit below one of
//! their operands. The lowest free slot is taken first, and leaves do not count, having nothing to pass on;
//! between them these keep the count at zero for programs that build one graph after another, and a walk is then
//! one sweep through memory. With inversions it sorts first, at about twice the cost.

use crate::bits::BitSet;
use crate::names::Names;
use crate::op::Op;
use std::cell::RefCell;

/// Fills operand places that an operation does not use.
const NONE: u32 = u32::MAX;

pub(crate) struct Node {
    pub(crate) value: f64,
    /// The first operand; for a variable, its place among the names.
    a: u32,
    b: u32,
    /// Handles and nodes that refer to this one.
    refs: u32,
    /// Scratch for [`Tape::walk_sorted`], zero between walks. It counts some of what `refs` counts, so it fits.
    pending: u32,
    pub(crate) op: Op,
}

impl Node {
    /// The slots of the operands.
    #[inline]
    pub(crate) fn operands(&self) -> Operands {
        match self.op.arity() {
            0 => Operands::None,
            1 => Operands::One(self.a),
            _ => Operands::Two(self.a, self.b),
        }
    }
}

pub(crate) enum Operands {
    None,
    One(u32),
    Two(u32, u32),
}

impl Operands {
    #[inline]
    pub(crate) fn each(self, mut f: impl FnMut(u32)) {
        match self {
            Operands::None => {}
            Operands::One(a) => f(a),
            Operands::Two(a, b) => {
                f(a);
                f(b);
            }
        }
    }
}

pub(crate) struct Tape {
    nodes: Vec<Node>,
    live: usize,
    free: BitSet,
    /// No free slot lies below this one.
    lowest_free: u32,
    inversions: usize,
    names: Names,
    // Scratch, empty between uses and kept so that a loop does not allocate it each time.
    work: Vec<u32>,
    reached: BitSet,
    leaves: BitSet,
}

thread_local! {
    static TAPE: RefCell<Tape> = const { RefCell::new(Tape::new()) };
}

/// Runs `f` on this thread's tape. `f` must not drop or make a [`Value`](crate::Value), which would borrow
/// the tape a second time.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&mut Tape) -> R) -> R {
    TAPE.with_borrow_mut(f)
}

/// Gives up one reference. Once the thread's tape is itself gone there is nothing left to give up.
#[inline]
pub(crate) fn release(slot: u32) {
    let _ = TAPE.try_with(|tape| tape.borrow_mut().release(slot));
}

impl Tape {
    const fn new() -> Self {
        Tape {
            nodes: Vec::new(),
            live: 0,
            free: BitSet::new(),
            lowest_free: 0,
            inversions: 0,
            names: Names::new(),
            work: Vec::new(),
            reached: BitSet::new(),
            leaves: BitSet::new(),
        }
    }

    /// How many nodes are referred to.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(crate) fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    /// The name of the variable in `slot`, or of the operation there.
    pub(crate) fn label(&self, slot: u32) -> &str {
        let node = self.node(slot);
        match node.op {
            Op::Var => self.names.get(node.a),
            op => op.name(),
        }
    }

    pub(crate) fn variable(&mut self, name: &str, value: f64) -> u32 {
        let index = self.names.insert(name);
        self.push(Op::Var, value, index, NONE)
    }

    #[inline]
    pub(crate) fn constant(&mut self, value: f64) -> u32 {
        self.push(Op::Const, value, NONE, NONE)
    }

    /// A node for `op` of `a`, which takes over one reference to `a`.
    #[inline]
    pub(crate) fn unary(&mut self, op: Op, a: u32) -> u32 {
        let value = op.eval(self.node(a).value, 0.0);
        self.push(op, value, a, NONE)
    }

    /// A node for `op` of `a` and `b`, which takes over one reference to each.
    #[inline]
    pub(crate) fn binary(&mut self, op: Op, a: u32, b: u32) -> u32 {
        let value = op.eval(self.node(a).value, self.node(b).value);
        self.push(op, value, a, b)
    }

    #[inline]
    fn push(&mut self, op: Op, value: f64, a: u32, b: u32) -> u32 {
        let node = Node { value, a, b, refs: 1, pending: 0, op };
        let full = self.live == self.nodes.len();
        self.live += 1;
        if full {
            let slot = self.nodes.len();
            assert!(slot < NONE as usize, "one thread can hold no more than {NONE} live scalar nodes");
            self.nodes.push(node);
            slot as u32
        } else {
            let slot = self.free.pop_first(self.lowest_free).expect("fewer nodes live than there are slots");
            self.lowest_free = slot;
            self.inversions += usize::from(self.is_inverted(&node, slot));
            self.nodes[slot as usize] = node;
            slot
        }
    }

    /// Whether `node` in `slot` lies below an operand that has operands of its own.
    #[inline]
    fn is_inverted(&self, node: &Node, slot: u32) -> bool {
        let above = |operand: u32| operand > slot && self.node(operand).op.arity() > 0;
        match node.operands() {
            Operands::None => false,
            Operands::One(a) => above(a),
            Operands::Two(a, b) => above(a) || above(b),
        }
    }

    #[inline]
    pub(crate) fn retain(&mut self, slot: u32) {
        let refs = &mut self.nodes[slot as usize].refs;
        *refs = refs.checked_add(1).expect("one scalar node can have no more than 2^32 - 1 references");
    }

    #[inline]
    fn release(&mut self, slot: u32) {
        let refs = &mut self.nodes[slot as usize].refs;
        *refs -= 1;
        if *refs == 0 {
            self.reclaim(slot);
        }
    }

    /// Frees a node without references, and every node that was held only through it.
    fn reclaim(&mut self, slot: u32) {
        let mut work = std::mem::take(&mut self.work);
        work.push(slot);
        while let Some(slot) = work.pop() {
            let node = &self.nodes[slot as usize];
            if node.op == Op::Var {
                self.names.remove(node.a);
            }
            if self.inversions > 0 {
                // Operands outlive the nodes that refer to them, so this sees what `push` saw.
                self.inversions -= usize::from(self.is_inverted(node, slot));
            }
            self.nodes[slot as usize].operands().each(|operand| {
                let refs = &mut self.nodes[operand as usize].refs;
                *refs -= 1;
                if *refs == 0 {
                    work.push(operand);
                }
            });
            self.free.insert(slot);
            self.lowest_free = self.lowest_free.min(slot);
            self.live -= 1;
        }
        self.work = work;
        if self.live == 0 {
            // Start afresh at the bottom, where the next node need not look for a free slot.
            self.nodes.clear();
            self.names.clear();
            self.free.clear();
            self.lowest_free = 0;
        }
    }

    /// Visits every node that `root` depends on, itself included and each once, results before their operands.
    #[inline]
    pub(crate) fn walk(&mut self, root: u32, visit: impl FnMut(&Tape, u32)) {
        if self.inversions == 0 { self.walk_swept(root, visit) } else { self.walk_sorted(root, visit) }
    }

    /// The walk when slot order will do: down from `root`, through the nodes that something visited refers to.
    /// Leaves, which may lie above, come last.
    fn walk_swept(&mut self, root: u32, mut visit: impl FnMut(&Tape, u32)) {
        let mut reached = std::mem::take(&mut self.reached);
        let mut leaves = std::mem::take(&mut self.leaves);
        reached.insert(root);
        reached.drain_down(|reached, slot| {
            visit(self, slot);
            self.node(slot).operands().each(|operand| {
                let is_leaf = self.node(operand).op.arity() == 0;
                if is_leaf { &mut leaves } else { &mut *reached }.insert(operand);
            });
        });
        leaves.drain_down(|_, slot| visit(self, slot));
        (self.reached, self.leaves) = (reached, leaves); // both empty now
    }

    /// The walk for any order of slots.
    ///
    /// The first loop counts the consumers of each node, the second visits a node once all its consumers have
    /// been: Kahn's algorithm, with the counts kept in the nodes, where the second loop leaves them zero again.
    fn walk_sorted(&mut self, root: u32, mut visit: impl FnMut(&Tape, u32)) {
        let mut work = std::mem::take(&mut self.work);
        work.push(root);
        while let Some(slot) = work.pop() {
            self.node(slot).operands().each(|operand| {
                let pending = &mut self.nodes[operand as usize].pending;
                if *pending == 0 {
                    work.push(operand);
                }
                *pending += 1;
            });
        }
        work.push(root);
        while let Some(slot) = work.pop() {
            visit(self, slot);
            self.node(slot).operands().each(|operand| {
                let pending = &mut self.nodes[operand as usize].pending;
                *pending -= 1;
                if *pending == 0 {
                    work.push(operand);
                }
            });
        }
        self.work = work;
    }

    /// The slots [`Tape::walk`] visits, in its order.
    pub(crate) fn order(&mut self, root: u32) -> Vec<u32> {
        let mut order = Vec::new();
        self.walk(root, |_, slot| order.push(slot));
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_half_a_cache_line() {
        assert_eq!(size_of::<Node>(), 32);
    }

    /// `sin x · exp(sin x)` with `sin x` below or above what comes after it: `[mul, exp, sin, x]`.
    fn product(tape: &mut Tape) -> [u32; 4] {
        let x = tape.variable("x", 2.0);
        let s = tape.unary(Op::Sin, x);
        tape.retain(s);
        let e = tape.unary(Op::Exp, s);
        [tape.binary(Op::Mul, s, e), e, s, x]
    }

    #[test]
    fn walk_visits_results_before_operands() {
        let mut tape = Tape::new();
        let expected = product(&mut tape);
        assert_eq!(tape.inversions, 0);
        assert_eq!(tape.order(expected[0]), expected);
    }

    #[test]
    fn walk_visits_results_before_operands_even_when_slots_are_inverted() {
        let mut tape = Tape::new();
        let hole = tape.constant(0.0);
        let x = tape.variable("x", 2.0);
        let s = tape.unary(Op::Sin, x);
        tape.retain(s);
        tape.release(hole);
        let e = tape.unary(Op::Exp, s);
        assert!(e < s, "the point of this test is a result below its operand");
        let m = tape.binary(Op::Mul, s, e);
        assert_eq!(tape.inversions, 1);
        assert_eq!(tape.order(m), [m, e, s, x]);
        assert_eq!(tape.order(m), [m, e, s, x], "the first walk left its counts at zero");
        tape.release(m);
        assert_eq!((tape.inversions, tape.live), (0, 0));
    }

    #[test]
    fn a_loop_that_remakes_its_variables_is_swept() {
        let mut tape = Tape::new();
        let mut w = tape.variable("w", 1.0);
        for _ in 0..10 {
            let [root, ..] = product(&mut tape);
            tape.retain(w);
            let loss = tape.binary(Op::Add, root, w);
            let next = tape.variable("w", 2.0);
            assert_eq!(tape.inversions, 0, "the old w may lie above the loss, but is a leaf");
            tape.release(w);
            tape.release(loss);
            w = next;
        }
        assert!(tape.nodes.len() <= 8, "slots are reused: {}", tape.nodes.len());
    }

    #[test]
    fn the_lowest_free_slot_is_taken_first() {
        let mut tape = Tape::new();
        let slots: Vec<u32> = (0..10_000).map(|_| tape.constant(0.0)).collect();
        for free in [9_000, 3, 5_000] {
            tape.release(slots[free]);
        }
        assert_eq!([3, 5_000, 9_000], [(); 3].map(|()| tape.constant(1.0)));
        tape.release(slots[7]);
        assert_eq!([7, 10_000], [(); 2].map(|()| tape.constant(1.0)));
    }

    #[test]
    fn reclaim_frees_what_only_the_dropped_node_held() {
        let mut tape = Tape::new();
        let x = tape.variable("x", 2.0);
        tape.retain(x);
        let s = tape.unary(Op::Sin, x);
        let e = tape.unary(Op::Exp, s);
        assert_eq!(tape.live(), 3);
        tape.release(e);
        assert_eq!(tape.live(), 1);
        assert_eq!(tape.label(x), "x");
        tape.release(x);
        assert_eq!((tape.live(), tape.nodes.len()), (0, 0));
        let y = tape.variable("y", 1.0);
        assert_eq!(tape.label(y), "y");
    }
}
