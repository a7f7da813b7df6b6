//! Functions that are recorded once and then done again without running them: [`compile`].
//!
//! A call of an ordinary function makes the nodes of a graph, takes their hash and finds the plan: some hundred
//! nanoseconds a node. A compiled function does so in its first calls only. `tape` notes what happens in such a call: which
//! plans ran and on which tensors, which variables were read and set, which random streams were drawn. `recipe` makes of it
//! what later calls do: the same plans, on the arguments of the call and on what the variables hold now. New contents of
//! variables are written over the old ones where nobody else holds these (`donate`), and nothing else is stored than what
//! the call leaves behind (`prune`); a replayed training step allocates nothing.
//!
//! A recording is never trusted further than it reaches. Arguments of another shape, type, device or order are recorded on
//! their own, and so is what happens under another [`crate::autocast`] or [`crate::no_grad`]; numbers that change
//! (a learning rate) are asked for at every call (`numbers`); a variable that has changed its kind leads to another
//! recording. Two recordings must agree before the first replay. Where a function does what cannot be replayed (it reads a
//! number, takes data from the host), it simply runs, every time, and [`Compiled::status`] says why.

mod donate;
mod numbers;
mod prune;
mod recipe;
mod rerun;
mod tape;

pub use numbers::{Note, Replay, dry_run, log_numbers};
pub(crate) use numbers::{in_place_of, made, used_again};
pub(crate) use tape::{drawn, ran, read, set, spoil};
pub use tape::{note, recording, unreplayable};

use crate::{
    DType, Device, Result, Scalar, Shape, Tensor, autocast_dtype, grad::Tensors, graph::Value, is_grad_enabled, plan,
    view::Coefs,
};
use recipe::Recipe;
use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Recordings a function keeps: one for each kind of arguments.
const KEEP: usize = 16;
/// Recordings of one kind that may disagree before it is given up.
const TRIES: usize = 8;

/// How often something that recordings do not see has changed.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Says that what functions do may have changed without a trace in their arguments and variables (a layer went from
/// training to evaluation): all recordings are made anew.
pub fn outdate() {
    EPOCH.fetch_add(1, Relaxed);
}

/// `f`, recorded in its first calls and then replayed: the same results without building a graph again, as
/// `torch.compile` and `jax.jit` do it. Best for a whole training step.
///
/// `f` gets what it changes beside variables (an optimizer, or `()`), and tensors. What it returns is constant for
/// gradients. What it does apart from tensors and variables (printing, counting) happens only when it really runs; numbers
/// of its own are those of the recording, unless the optimizer makes them. Pass what changes as a tensor.
///
/// ```
/// use gradus_core::{Tensor, compile};
/// let w = Tensor::var("w", Tensor::from([1.0f32, 2.0]));
/// let mut step = compile(|_: &mut (), [x]| {
///     let loss = (&w * x).square().sum();
///     w.set(&(&w - loss.backward()?.wrt(&w)? * 0.1))?;
///     Ok(loss)
/// });
/// let x = Tensor::from([1.0f32, 0.5]);
/// let losses: Vec<f32> = (0..10).map(|_| step.call(&mut (), [&x])?.item()).collect::<gradus_core::Result<_>>()?;
/// assert!(losses[9] < 0.7 && losses.is_sorted_by(|a, b| a > b));
/// assert_eq!(step.status().replays, 7);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub fn compile<S: Replay, const N: usize, O: Tensors, F>(f: F) -> Compiled<S, N, O, F>
where
    F: FnMut(&mut S, [&Tensor; N]) -> Result<O>,
{
    Compiled { f, entries: vec![], replays: 0, clock: 0, state: PhantomData }
}

/// A function that [`compile`] made.
pub struct Compiled<S, const N: usize, O, F> {
    f: F,
    entries: Vec<Entry<O>>,
    replays: usize,
    clock: u64,
    state: PhantomData<fn(&mut S)>,
}

/// How a compiled function is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Calls that were replays.
    pub replays: usize,
    /// Kinds of arguments for which there is a recording.
    pub recordings: usize,
    /// Why calls with the latest arguments run the function every time, if they do.
    pub obstacle: Option<String>,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replays of {} recordings", self.replays, self.recordings)?;
        match &self.obstacle {
            Some(why) => write!(f, "; not replayed now: {why}"),
            None => Ok(()),
        }
    }
}

/// What makes one kind of call differ from another.
#[derive(Clone, PartialEq)]
struct Kind {
    args: Vec<(Shape, DType, Device, Coefs)>,
    grad: bool,
    low: Option<DType>,
    epoch: u64,
}

enum Stage<O> {
    /// To be run once before anything is recorded: what is made on the first occasion is made then.
    New,
    /// To be recorded (again): the last recording, and how many there were.
    Recorded(Option<Box<Recipe>>, usize),
    /// To be replayed, with the arrangement of what is returned.
    Ready(Box<Recipe>, O),
    /// To be run every time, and why.
    Plain(String),
}

struct Entry<O> {
    kind: Kind,
    stage: Stage<O>,
    used: u64,
}

impl Kind {
    fn of(args: &[Tensor]) -> Kind {
        let strides = |t: &Tensor| t.node().peek(|_, v| v.map_or_else(Coefs::new, |v| v.view.strides.clone()));
        let args = args.iter().map(|t| (t.shape().clone(), t.dtype(), t.device(), strides(t))).collect();
        Kind { args, grad: is_grad_enabled(), low: autocast_dtype(), epoch: EPOCH.load(Relaxed) }
    }

    /// Whether it is that of these arguments, here and now.
    fn is_of(&self, args: &[Tensor]) -> bool {
        let same = |((shape, dtype, device, strides), t): (&(Shape, DType, Device, Coefs), &Tensor)| {
            (shape, *dtype, *device) == (t.shape(), t.dtype(), t.device())
                && t.node().peek(|_, v| v.is_some_and(|v| v.view.strides == *strides))
        };
        self.grad == is_grad_enabled()
            && self.low == autocast_dtype()
            && self.epoch == EPOCH.load(Relaxed)
            && self.args.iter().zip(args).all(same)
    }
}

thread_local! {
    static LATER: Cell<bool> = const { Cell::new(false) };
}

/// Whether nothing is recorded on this thread, neither runs nor numbers.
pub(crate) fn idle() -> bool {
    !recording() && numbers::idle()
}

/// Whether this happens in a call of a compiled function, which computes at its end what it returns and what variables were
/// set to: an optimizer need not compute its step before, while the gradients are still held.
pub fn computes_later() -> bool {
    LATER.get()
}

/// Runs what computes at its end.
fn later<R>(f: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            LATER.set(self.0);
        }
    }
    let _back = Back(LATER.replace(true));
    f()
}

/// Computes what a call returns, and what it leaves in variables.
fn finish<O: Tensors>(out: O) -> Result<O> {
    plan::settle(&out.list().iter().collect::<Vec<_>>())?;
    Ok(out)
}

fn constant<O: Tensors>(out: O) -> Result<O> {
    out.each(&mut |t| Ok(t.detach()))
}

impl<S: Replay, const N: usize, O: Tensors, F> Compiled<S, N, O, F>
where
    F: FnMut(&mut S, [&Tensor; N]) -> Result<O>,
{
    /// Calls it.
    #[track_caller]
    pub fn call(&mut self, state: &mut S, args: [&Tensor; N]) -> Result<O> {
        let args = args.map(|t| t.resolve());
        if recording() {
            // A part of a function that is being recorded itself.
            return constant((self.f)(state, args.each_ref())?);
        }
        plan::settle(&args.each_ref())?;
        self.clock += 1;
        let at = self.entry(&args);
        let entry = &mut self.entries[at];
        entry.used = self.clock;
        if let Stage::Ready(recipe, arrangement) = &mut entry.stage {
            if recipe.replay(state, &args)? {
                self.replays += 1;
                let mut new = recipe.returned();
                return arrangement
                    .clone()
                    .each(&mut |_| new.next().ok_or_else(|| Tensor::bug("a replay returned less than the function")));
            }
            entry.stage = Stage::Recorded(None, 0);
        }
        match &mut entry.stage {
            Stage::Recorded(last, tries) => {
                let (last, tries) = (last.take(), *tries + 1);
                let (out, next) = recorded(&mut self.f, state, &args, last, tries)?;
                entry.stage = next;
                constant(out)
            }
            Stage::New | Stage::Plain(_) | Stage::Ready(..) => {
                let out = finish(later(|| (self.f)(state, args.each_ref()))?)?;
                if matches!(entry.stage, Stage::New) {
                    entry.stage = Stage::Recorded(None, 0);
                }
                constant(out)
            }
        }
    }

    /// The place of what is known of such a call.
    fn entry(&mut self, args: &[Tensor]) -> usize {
        if let Some(at) = self.entries.iter().position(|e| e.kind.is_of(args)) {
            return at;
        }
        let kind = Kind::of(args);
        self.entries.retain(|e| e.kind.epoch == kind.epoch);
        if self.entries.len() >= KEEP {
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, e)| e.used).map_or(0, |(i, _)| i);
            self.entries.swap_remove(oldest);
        }
        self.entries.push(Entry { kind, stage: Stage::New, used: 0 });
        self.entries.len() - 1
    }

    /// How it is doing: how many calls were replays, and what stands in the way of more.
    pub fn status(&self) -> Status {
        let ready = |e: &&Entry<O>| matches!(e.stage, Stage::Ready(..));
        let latest = self.entries.iter().max_by_key(|e| e.used);
        let obstacle = latest.and_then(|e| match &e.stage {
            Stage::Plain(why) => Some(why.clone()),
            Stage::New | Stage::Recorded(..) | Stage::Ready(..) => None,
        });
        Status { replays: self.replays, recordings: self.entries.iter().filter(ready).count(), obstacle }
    }
}

/// Runs a function and records it; `last` is the recording before. What it returns, and what to do next time.
fn recorded<S, const N: usize, O: Tensors>(
    f: &mut impl FnMut(&mut S, [&Tensor; N]) -> Result<O>,
    state: &mut S,
    args: &[Tensor; N],
    last: Option<Box<Recipe>>,
    tries: usize,
) -> Result<(O, Stage<O>)> {
    // Handles of its own: an argument can then be told from the same tensor that the function has from elsewhere.
    let own = args.each_ref().map(|t| match t.node().value() {
        Some(v) => {
            let value = Value { buffer: v.buffer.alias(), view: v.view };
            Tensor::from_value(value, t.dtype(), t.location())
        }
        None => t.clone(),
    });
    let (out, tape) = tape::record(|| later(|| f(state, own.each_ref())).and_then(finish));
    let out = out?;
    if let Some(why) = tape.shared {
        let next = if tries >= TRIES { Stage::Plain(why) } else { Stage::Recorded(None, tries) };
        return Ok((out, next));
    }
    let returned: Vec<Tensor> = out.list().iter().map(|t| t.resolve()).collect();
    let recipe = match Recipe::new(tape, &own, &returned) {
        Ok(recipe) => Box::new(recipe),
        Err(why) => return Ok((out, Stage::Plain(why))),
    };
    let next = match last.map(|last| last.differs(&recipe)) {
        Some(None) => {
            let nothing = Tensor::constant(Scalar::F(0.0), DType::F32, Device::cpu());
            Stage::Ready(recipe, out.clone().each(&mut |_| Ok(nothing.clone()))?)
        }
        Some(Some(why)) if tries >= TRIES => Stage::Plain(why),
        Some(Some(_)) | None => Stage::Recorded(Some(recipe), tries),
    };
    Ok((out, next))
}
