//! A plan that runs again: where its buffers come from, and where its results go.

use super::tape::Named;
use crate::{
    DType, Device, Result, Scalar, Tensor,
    graph::{Buffer, Value, VarCell},
    plan::{Home, Plan, Scratch},
    view::View,
};
use std::{panic::Location, sync::Arc};

/// Where a buffer of a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// An argument, and how far into it.
    Arg(usize, isize),
    /// A variable, and how far into what it holds.
    Var(usize, isize),
    /// An earlier run's buffer, and how far into it.
    Run(usize, usize, isize),
    /// The same memory as a variable that is only read up to where this is written, where nobody else holds it.
    Over(usize),
    /// As it was.
    Kept,
}

/// A plan with what it runs on.
pub struct Rerun {
    pub plan: Arc<Plan>,
    pub from: Vec<From>,
    pub buffers: Vec<(Arc<Buffer>, isize)>,
    pub arena: Arc<Buffer>,
    pub scalars: Vec<Scalar>,
    pub lines: Named,
    pub scratch: Scratch,
}

/// A variable that is read.
pub struct Read {
    pub cell: Arc<VarCell>,
    pub view: View,
    pub device: Device,
    pub bytes: usize,
    pub tracked: bool,
    /// What it holds in this call.
    pub now: Option<(Arc<Buffer>, isize)>,
    pub lent: bool,
}

/// A tensor that the function returns, or sets a variable to.
pub struct Out {
    pub run: usize,
    pub buffer: usize,
    pub view: View,
    pub dtype: DType,
    pub at: &'static Location<'static>,
    /// What was returned last, and is used again once nobody holds it.
    pub tensor: Option<Tensor>,
    pub nothing: Arc<Buffer>,
}

/// Gives lent variables back, on every way out.
pub struct Lent<'a>(pub &'a mut [Read]);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        for r in self.0.iter_mut() {
            if std::mem::take(&mut r.lent) {
                r.cell.returned();
            }
            r.now = None;
        }
    }
}

impl From {
    pub fn further(self, by: isize) -> From {
        match self {
            From::Arg(i, at) => From::Arg(i, at + by),
            From::Var(i, at) => From::Var(i, at + by),
            From::Run(r, b, at) => From::Run(r, b, at + by),
            From::Over(_) | From::Kept => self,
        }
    }
}

impl Read {
    /// Takes its memory to be written in place, if it can be had and is nothing but the variable's.
    pub fn borrow(&mut self) {
        self.now = self.cell.lend();
        self.lent = self.now.is_some();
        let own = |(buffer, at): &(Arc<Buffer>, isize)| *at == 0 && buffer.bytes() == self.bytes;
        if self.lent && !self.now.as_ref().is_some_and(own) {
            (self.now, self.lent) = (None, false);
            self.cell.returned();
        }
    }

    /// Whether the variable holds what a plan for the one it held before can read.
    pub fn as_recorded(&self) -> bool {
        self.cell.look(|t| {
            let like = |v: &Value| v.view.strides == self.view.strides && v.buffer.device() == self.device;
            t.requires_grad() == self.tracked
                && t.node().hooks.get().is_none()
                && t.node().peek(|_, v| v.is_some_and(|v| like(v)))
        })
    }
}

impl Rerun {
    /// Finds the buffers of this call.
    pub fn bind(&mut self, args: &[Tensor], reads: &[Read], before: &[Rerun]) -> Result<()> {
        let lost = || Tensor::bug("a replay without one of its tensors");
        if self.arena.bytes() != self.plan.arena {
            self.arena = Buffer::alloc(self.plan.device, self.plan.arena)?;
        }
        for (b, from) in self.from.iter().enumerate() {
            let bound = match *from {
                From::Arg(i, at) => {
                    args.get(i).and_then(|a| a.node().peek(|_, v| v.map(|v| (v.buffer.clone(), v.view.offset + at))))
                }
                From::Var(v, at) => reads[v].now.as_ref().map(|(buffer, start)| (buffer.clone(), start + at)),
                From::Run(r, o, at) => before.get(r).map(|run| (run.buffers[o].0.clone(), run.buffers[o].1 + at)),
                From::Over(v) if reads[v].lent => reads[v].now.as_ref().map(|n| (n.0.clone(), 0)),
                From::Over(_) | From::Kept => match self.plan.buffers[b] {
                    Home::Own { bytes } if self.buffers[b].0.bytes() != bytes => {
                        Some((Buffer::alloc(self.plan.device, bytes)?, 0))
                    }
                    Home::Arena { .. } => Some((self.arena.clone(), 0)),
                    Home::Own { .. } | Home::Leaf(_) => continue,
                },
            };
            self.buffers[b] = bound.ok_or_else(lost)?;
        }
        Ok(())
    }

    /// Lets go of what is not its own.
    pub fn release(&mut self, nothing: &Arc<Buffer>) {
        for (b, from) in self.from.iter().enumerate() {
            match from {
                From::Arg(..) | From::Var(..) | From::Run(..) => self.buffers[b].0 = nothing.clone(),
                From::Over(_) | From::Kept => {}
            }
        }
    }

    /// Gives a variable its next content.
    pub fn settle(&mut self, cell: &VarCell, out: &Out, nothing: &Arc<Buffer>) {
        let buffer = std::mem::replace(&mut self.buffers[out.buffer].0, nothing.clone());
        match cell.exchange(&buffer, &out.view) {
            // The next content goes where the one before this was, if nobody holds that.
            Some(mut old) => {
                let spare = !Arc::ptr_eq(&old, &buffer) && old.bytes() == buffer.bytes();
                if spare && self.from[out.buffer] == From::Kept && Arc::get_mut(&mut old).is_some() {
                    self.buffers[out.buffer].0 = old;
                }
            }
            None => cell.replace(cell.current().next_snapshot(cell, Value { buffer, view: out.view.clone() })),
        }
    }
}

impl Out {
    /// Makes sure that what was returned before stays as it is, if somebody holds it.
    pub fn make_room(&mut self, runs: &mut [Rerun]) {
        let place = &mut runs[self.run].buffers[self.buffer].0;
        let free = self.tensor.as_mut().and_then(|t| Arc::get_mut(&mut t.0)).and_then(|n| n.own_value());
        if !free.is_some_and(|v| Arc::ptr_eq(&v.buffer, place) && Arc::strong_count(place) == 2) {
            self.tensor = None;
            *place = self.nothing.clone();
        }
    }

    /// Makes the tensor that is returned.
    pub fn give(&mut self, runs: &[Rerun]) {
        let (buffer, view) = (&runs[self.run].buffers[self.buffer].0, &self.view);
        let make = || Tensor::from_value(Value { buffer: buffer.clone(), view: view.clone() }, self.dtype, self.at);
        self.tensor.get_or_insert_with(make);
    }
}
