//! Numbers that change from call to call: learning rates, bias corrections.
//!
//! A plan takes numbers as arguments, so a replay only has to know them. Whoever makes them (an optimizer) is asked anew
//! at every replay: it goes through its formula once more, *dry*. Operations then make no nodes; what is noted is which
//! numbers the formula meets, in which order, and a checksum of its operations, which tells when it has become another.

use crate::{DType, Scalar, Shape, Tensor, op::Op};
use std::{
    any::Any,
    cell::{Cell, RefCell},
};

/// What a compiled function may change beside variables, passed to [`super::Compiled::call`]: an optimizer, several, or
/// nothing (`()`).
pub trait Replay {
    /// Writes the numbers that this call needs for what `note` says was done when the function was recorded, in the order
    /// in which they were given to [`super::note`]. False if it is not this one's note, or if a call would now do something
    /// else: the function is then recorded again. Nothing changes here.
    fn numbers_for(&self, note: &Note, out: &mut Vec<Scalar>) -> bool;

    /// Moves on, after a replay: counts the step.
    fn replayed(&mut self, note: &Note);
}

/// What a part of a recorded function has to know to do its part again.
pub struct Note {
    /// Who wrote it.
    pub owner: u64,
    /// For whoever wrote it.
    pub data: Box<dyn Any + Send>,
}

impl Replay for () {
    fn numbers_for(&self, _: &Note, _: &mut Vec<Scalar>) -> bool {
        false
    }
    fn replayed(&mut self, _: &Note) {}
}

impl<R: Replay + ?Sized> Replay for &mut R {
    fn numbers_for(&self, note: &Note, out: &mut Vec<Scalar>) -> bool {
        (**self).numbers_for(note, out)
    }
    fn replayed(&mut self, note: &Note) {
        (**self).replayed(note)
    }
}

impl<R: Replay + ?Sized> Replay for Box<R> {
    fn numbers_for(&self, note: &Note, out: &mut Vec<Scalar>) -> bool {
        (**self).numbers_for(note, out)
    }
    fn replayed(&mut self, note: &Note) {
        (**self).replayed(note)
    }
}

impl<A: Replay, B: Replay> Replay for (A, B) {
    fn numbers_for(&self, note: &Note, out: &mut Vec<Scalar>) -> bool {
        self.0.numbers_for(note, out) || self.1.numbers_for(note, out)
    }
    fn replayed(&mut self, note: &Note) {
        self.0.replayed(note);
        self.1.replayed(note);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    /// Nodes are made, and their numbers noted.
    Log,
    /// Numbers are noted, and nodes are made only where nothing else will do.
    Dry,
}

#[derive(Default)]
struct Log {
    ids: Vec<u64>,
    values: Vec<Scalar>,
    sum: u64,
    stand_in: Option<Tensor>,
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Off) };
    static LOG: RefCell<Log> = RefCell::default();
}

struct Restore(Mode, Option<Log>);

impl Restore {
    fn enter(mode: Mode, log: Log) -> Restore {
        Restore(MODE.replace(mode), Some(LOG.replace(log)))
    }
    fn leave(mut self) -> Log {
        MODE.set(self.0);
        LOG.replace(self.1.take().unwrap_or_default())
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(before) = self.1.take() {
            MODE.set(self.0);
            drop(LOG.replace(before));
        }
    }
}

/// Runs `f` and, while a function is being recorded, notes the nodes of the numbers that it meets, with their values.
pub fn log_numbers<R>(f: impl FnOnce() -> R) -> (R, Vec<(u64, Scalar)>) {
    if !super::recording() {
        return (f(), vec![]);
    }
    let restore = Restore::enter(Mode::Log, Log::default());
    let out = f();
    let log = restore.leave();
    (out, log.ids.into_iter().zip(log.values).collect())
}

/// Runs a formula over stand-ins for the numbers it meets, which are appended to `values`; the result is a checksum of
/// its operations. Where they keep the shape and type of `stand_in`, no node is made.
pub fn dry_run(stand_in: &Tensor, values: &mut Vec<Scalar>, f: impl FnOnce()) -> u64 {
    let log = Log { values: std::mem::take(values), stand_in: Some(stand_in.clone()), ..Log::default() };
    let restore = Restore::enter(Mode::Dry, log);
    f();
    let log = restore.leave();
    *values = log.values;
    log.sum
}

/// Whether nobody notes numbers.
pub(super) fn idle() -> bool {
    MODE.get() == Mode::Off
}

/// Notes a node, where somebody wants to know.
pub(crate) fn made(id: u64, op: &Op) {
    if MODE.get() == Mode::Off {
        return;
    }
    LOG.with_borrow_mut(|log| log.note(id, op));
}

impl Log {
    fn note(&mut self, id: u64, op: &Op) {
        let name = op.name();
        self.sum = (self.sum ^ name.as_ptr() as u64 ^ (name.len() as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if let Op::Scalar(x) = op {
            self.values.push(*x);
            if self.stand_in.is_none() {
                self.ids.push(id);
            }
        }
    }
}

/// Notes that a number's node is used again.
pub(crate) fn used_again(t: &Tensor) {
    made(t.id(), &t.node().op);
}

/// In a dry run, what stands for the result of an operation; the operation is noted.
pub(crate) fn in_place_of(op: &Op, shape: &Shape, dtype: DType) -> Option<Tensor> {
    if MODE.get() != Mode::Dry {
        return None;
    }
    LOG.with_borrow_mut(|log| {
        let t = log.stand_in.clone().filter(|t| t.dtype() == dtype && t.shape() == shape)?;
        log.note(0, op);
        Some(t)
    })
}
