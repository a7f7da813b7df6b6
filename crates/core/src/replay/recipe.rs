//! From what happened in a call to what later calls do instead.

use super::{
    Note, Replay, donate,
    prune::prune,
    rerun::{From, Lent, Out, Read, Rerun},
    tape::Tape,
};
use crate::{
    Device, Result, Scalar, Tensor,
    api::draw,
    graph::{Buffer, VarCell},
    plan::{Call, Home, Scratch},
    view::View,
};
use std::{collections::HashMap, sync::Arc};

/// A number that is asked for at each call: which of those given, and the scalar of a run that it becomes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    run: usize,
    scalar: usize,
    given: usize,
}

/// What a call does, without the function.
pub struct Recipe {
    runs: Vec<Rerun>,
    reads: Vec<Read>,
    sets: Vec<(Arc<VarCell>, Out)>,
    outs: Vec<Out>,
    notes: Vec<Note>,
    asked: Vec<Asked>,
    given: Vec<Scalar>,
    /// Streams that are drawn, and the scalars that they become.
    draws: usize,
    drawn: Vec<(usize, usize, usize)>,
    /// An empty buffer, for where there is none.
    nothing: Arc<Buffer>,
}

impl Recipe {
    /// The recipe of what happened, or why there is none. `args` are handles of the arguments that nobody else has.
    pub fn new(mut tape: Tape, args: &[Tensor], returned: &[Tensor]) -> std::result::Result<Recipe, String> {
        if let Some(why) = tape.spoiled {
            return Err(why);
        }
        let nothing = Buffer::alloc(Device::cpu(), 0).map_err(|e| e.to_string())?;
        prune(&mut tape, returned, &nothing);
        // Who a buffer belongs to, and the offset at which its owner has it. Later ones go first.
        let mut owners: HashMap<*const Buffer, (From, isize)> = HashMap::new();
        for (i, (cell, held)) in tape.reads.iter().enumerate() {
            let name = cell.name.as_deref().unwrap_or("without a name");
            let Some(v) = held.node().value() else {
                return Err(format!("the variable {name} was not computed before"));
            };
            if owners.insert(Arc::as_ptr(&v.buffer), (From::Var(i, 0), v.view.offset)).is_some() {
                return Err(format!("the variable {name} shares its memory with another"));
            }
        }
        for (i, a) in args.iter().enumerate() {
            let v = a.node().value().ok_or("an argument was not computed")?;
            owners.insert(Arc::as_ptr(&v.buffer), (From::Arg(i, 0), v.view.offset));
        }
        let mut runs = vec![];
        let mut places: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
        let mut drawn = vec![];
        // Until the end, so that no two buffers can be mistaken for one.
        let mut held = vec![];
        for (r, ran) in tape.runs.into_iter().enumerate() {
            let mut from = vec![];
            for (b, (home, (buffer, at))) in ran.plan.buffers.iter().zip(&ran.buffers).enumerate() {
                let owner = owners.get(&Arc::as_ptr(buffer));
                from.push(match (home, owner) {
                    (Home::Leaf(_), Some(&(owner, start))) => owner.further(at - start),
                    (Home::Leaf(_), None) | (Home::Arena { .. }, _) => From::Kept,
                    (Home::Own { .. }, _) if Arc::ptr_eq(buffer, &nothing) => From::Kept,
                    (Home::Own { .. }, _) => {
                        owners.insert(Arc::as_ptr(buffer), (From::Run(r, b, 0), 0));
                        From::Kept
                    }
                });
            }
            for (node, scalar) in ran.numbers() {
                places.entry(node).or_default().push((r, scalar));
            }
            for (scalar, stream) in ran.draws() {
                let Some(nth) = tape.draws.iter().position(|d| *d == stream) else {
                    return Err("it computes random numbers that were drawn before".into());
                };
                drawn.push((r, scalar, nth));
            }
            ran.plan.prepare();
            let lines = ran.lines();
            let (plan, mut buffers, scalars) = (ran.plan, ran.buffers, ran.graph.scalars);
            for (b, home) in plan.buffers.iter().enumerate() {
                // What this call made may be held by anybody. Constants stay.
                if !matches!(home, Home::Leaf(_)) || from[b] != From::Kept {
                    held.push(std::mem::replace(&mut buffers[b].0, nothing.clone()));
                }
            }
            runs.push(Rerun {
                plan,
                from,
                buffers,
                arena: nothing.clone(),
                scalars,
                lines,
                scratch: Scratch::default(),
            });
        }
        let made_by = |t: &Tensor, what: &str| {
            let v = t.node().value().ok_or_else(|| format!("{what} was not computed"))?;
            match owners.get(&Arc::as_ptr(&v.buffer)) {
                Some(&(From::Run(run, buffer, _), _)) => {
                    let (view, dtype, at, nothing) = (v.view, t.dtype(), t.location(), nothing.clone());
                    Ok(Out { run, buffer, view, dtype, at, tensor: None, nothing })
                }
                Some(_) | None => Err(format!("{what} is not computed by it, but was there before")),
            }
        };
        let mut sets: Vec<(Arc<VarCell>, Out)> = vec![];
        for (cell, to) in tape.sets {
            let name = cell.name.as_deref().unwrap_or("without a name");
            let out = made_by(&to, &format!("what the variable {name} is set to"))?;
            if !dense(&out.view) {
                return Err(format!("the variable {name} is set to a part of a tensor"));
            }
            // Only the last counts.
            sets.retain(|(c, _)| c.id != cell.id);
            sets.push((cell, out));
        }
        let outs: Vec<Out> =
            returned.iter().map(|t| made_by(t, "a tensor it returns")).collect::<std::result::Result<_, _>>()?;
        for (i, o) in outs.iter().enumerate() {
            let place = (o.run, o.buffer);
            let also = sets.iter().map(|s| &s.1).chain(&outs[..i]).any(|p| (p.run, p.buffer) == place);
            if also {
                return Err("it returns one tensor twice, or what it sets a variable to".into());
            }
        }
        let mut asked = vec![];
        let mut notes = vec![];
        let mut given = 0;
        for (note, numbers) in tape.notes {
            for nodes in numbers {
                for &(run, scalar) in nodes.iter().flat_map(|n| places.get(n)).flatten() {
                    asked.push(Asked { run, scalar, given });
                }
                given += 1;
            }
            notes.push(note);
        }
        asked.sort_unstable();
        asked.dedup();
        let reads = tape.reads.into_iter().map(|(cell, held)| {
            let view = held.node().value().map_or_else(|| View::contiguous(held.shape()), |v| v.view);
            let (device, bytes, tracked) = (held.device(), held.numel() * held.dtype().size(), held.requires_grad());
            Read { cell, view, device, bytes, tracked, now: None, lent: false }
        });
        let reads = reads.collect();
        let draws = tape.draws.len();
        let mut recipe = Recipe { runs, reads, sets, outs, notes, asked, given: vec![], draws, drawn, nothing };
        drop(held);
        recipe.write_over();
        Ok(recipe)
    }

    /// Finds the variables whose next content can be written over the one before.
    fn write_over(&mut self) {
        for (cell, out) in &self.sets {
            let Some(v) = self.reads.iter().position(|r| r.cell.id == cell.id) else { continue };
            let whole = self.reads[v].view.strides == out.view.strides;
            let elsewhere = self.runs.iter().enumerate().any(|(r, run)| {
                r != out.run && run.from.iter().any(|f| matches!(f, From::Var(w, _) if *w == v))
                    || run.from.iter().any(|f| matches!(f, From::Run(a, b, _) if (*a, *b) == (out.run, out.buffer)))
            });
            let run = &mut self.runs[out.run];
            let mut leaves = (0..run.from.len()).filter(|&b| matches!(run.from[b], From::Var(w, _) if w == v));
            if let (Some(leaf), None, true, false) = (leaves.next(), leaves.next(), whole, elsewhere)
                && run.from[leaf] == From::Var(v, 0)
                && donate::fits(&run.plan, leaf, out.buffer)
            {
                run.from[out.buffer] = From::Over(v);
            }
        }
    }

    /// What differs from another recording of the same call, if anything does but what is asked for anew.
    pub fn differs(&self, other: &Recipe) -> Option<String> {
        let plans = |r: &Recipe| r.runs.iter().map(|r| r.plan.id).collect::<Vec<_>>();
        let sets = |r: &Recipe| r.sets.iter().map(|(c, o)| (c.id, o.run, o.buffer)).collect::<Vec<_>>();
        if plans(self) != plans(other) || sets(self) != sets(other) || self.draws != other.draws {
            return Some("it does something else from call to call".into());
        }
        for (r, (a, b)) in self.runs.iter().zip(&other.runs).enumerate() {
            if a.from != b.from {
                return Some("its tensors come from elsewhere from call to call".into());
            }
            for (i, home) in a.plan.buffers.iter().enumerate() {
                let same = Arc::ptr_eq(&a.buffers[i].0, &b.buffers[i].0) && a.buffers[i].1 == b.buffers[i].1;
                if let (Home::Leaf(node), From::Kept, false) = (home, a.from[i], same) {
                    let at = a.lines[*node].1;
                    let at = format!("{}:{}", at.file(), at.line());
                    return Some(format!(
                        "it reads a tensor that changes and is no argument or variable (made at {at})"
                    ));
                }
            }
            for (i, (x, y)) in a.scalars.iter().zip(&b.scalars).enumerate() {
                let fresh = self.asked.iter().any(|q| (q.run, q.scalar) == (r, i))
                    || self.drawn.iter().any(|d| d.0 == r && (d.1 == i || d.1 + 1 == i));
                if !fresh && x != y {
                    return Some(format!("a number in it changes from call to call: {x:?}, then {y:?}"));
                }
            }
        }
        None
    }

    /// Does the call. False, and nothing has changed, where it is not the recorded one any more.
    pub fn replay<S: Replay + ?Sized>(&mut self, state: &mut S, args: &[Tensor]) -> Result<bool> {
        if !self.ask(state) || !self.reads.iter().all(Read::as_recorded) {
            return Ok(false);
        }
        for out in &mut self.outs {
            out.make_room(&mut self.runs);
        }
        let lent = Lent(&mut self.reads);
        for over in self.runs.iter().flat_map(|r| &r.from) {
            if let From::Over(v) = *over {
                lent.0[v].borrow();
            }
        }
        for read in lent.0.iter_mut().filter(|r| !r.lent) {
            read.now = read.cell.look(|t| t.node().peek(|_, v| v.map(|v| (v.buffer.clone(), v.view.offset))));
        }
        for d in 0..self.draws {
            let (seed, stream) = draw();
            for &(run, scalar, _) in self.drawn.iter().filter(|x| x.2 == d) {
                self.runs[run].scalars[scalar] = Scalar::I(seed as i64);
                self.runs[run].scalars[scalar + 1] = Scalar::I(stream as i64);
            }
        }
        for r in 0..self.runs.len() {
            let (before, rest) = self.runs.split_at_mut(r);
            let Some(run) = rest.first_mut() else { break };
            run.bind(args, lent.0, before)?;
            let Rerun { plan, buffers, scalars, lines, scratch, .. } = run;
            Call { plan, buffers, scalars, lines: &*lines, nodes: lines.len() }.run(scratch)?;
            run.release(&self.nothing);
        }
        drop(lent);
        for (cell, out) in &self.sets {
            self.runs[out.run].settle(cell, out, &self.nothing);
        }
        self.notes.iter().for_each(|n| state.replayed(n));
        self.outs.iter_mut().for_each(|o| o.give(&self.runs));
        Ok(true)
    }

    /// Asks for the numbers of this call; false if something else would be done now.
    fn ask<S: Replay + ?Sized>(&mut self, state: &S) -> bool {
        self.given.clear();
        if !self.notes.iter().all(|n| state.numbers_for(n, &mut self.given)) {
            return false;
        }
        for a in &self.asked {
            let Some(x) = self.given.get(a.given) else { return false };
            self.runs[a.run].scalars[a.scalar] = *x;
        }
        // Two numbers may have been one when this was recorded, and are not any more.
        self.asked.iter().all(|a| self.runs[a.run].scalars[a.scalar] == self.given[a.given])
    }

    /// What the last call returned.
    pub fn returned(&self) -> impl Iterator<Item = Tensor> {
        self.outs.iter().filter_map(|o| o.tensor.clone())
    }
}

/// Whether a view is all of a buffer, in some order of its axes.
fn dense(view: &View) -> bool {
    let mut axes: Vec<(isize, usize)> = view.strides.iter().copied().zip(view.shape.iter().copied()).collect();
    axes.retain(|a| a.1 != 1);
    axes.sort_unstable();
    let mut step = 1;
    let fits = axes.iter().all(|&(stride, n)| {
        let right = stride == step;
        step *= n as isize;
        right
    });
    fits && view.offset == 0 && view.bounds.is_empty()
}
