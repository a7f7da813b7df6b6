//! Where the time goes: every step of every plan, timed.

use super::{explain::describe, run::Lines, steps::Step};
use std::{
    cell::RefCell,
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

thread_local! {
    static TIMES: RefCell<Option<Profile>> = const { RefCell::new(None) };
}

/// Times by step.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// How often and how long each kind of step ran.
    pub steps: HashMap<String, (usize, Duration)>,
    /// How long the whole of it took, building graphs and looking up plans included.
    pub whole: Duration,
    /// Nodes of the graphs that were run.
    pub nodes: usize,
}

impl Profile {
    /// What building, hashing and looking up cost: the time outside steps, a node.
    pub fn host_per_node(&self) -> Duration {
        let steps: Duration = self.steps.values().map(|s| s.1).sum();
        self.whole.saturating_sub(steps) / self.nodes.max(1) as u32
    }
}

/// Runs `f` and times every step of the plans that this thread runs in it.
///
/// ```
/// use gradus_core::{Tensor, plan};
/// let x = Tensor::randn([64, 64]);
/// let (_, times) = plan::profile(|| (&x.matmul(&x).unwrap() + 1.0).eval().unwrap().clone());
/// println!("{times}");
/// assert!(times.steps.keys().any(|s| s.starts_with("matmul")));
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    let before = TIMES.replace(Some(Profile::default()));
    let start = Instant::now();
    let out = f();
    let mut times = TIMES.replace(before).unwrap_or_default();
    times.whole = start.elapsed();
    (out, times)
}

/// Notes the nodes of a graph that is about to run.
pub(super) fn count(nodes: usize) {
    TIMES.with_borrow_mut(|t| {
        if let Some(t) = t {
            t.nodes += nodes;
        }
    });
}

/// A clock for a step, if somebody wants to know.
pub(super) fn clock() -> Option<Instant> {
    TIMES.with_borrow(|t| t.is_some()).then(Instant::now)
}

/// Notes a step's time.
pub(super) fn note(step: &Step, lines: &dyn Lines, start: Instant) {
    let took = start.elapsed();
    TIMES.with_borrow_mut(|t| {
        if let Some(t) = t {
            let entry = t.steps.entry(describe(step, lines).to_string()).or_default();
            *entry = (entry.0 + 1, entry.1 + took);
        }
    });
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by(|a, b| b.1.1.cmp(&a.1.1).then(a.0.cmp(b.0)));
        let all: Duration = steps.iter().map(|s| s.1.1).sum();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        for (what, (count, took)) in steps {
            writeln!(f, "{:9.3} ms {:5.1} % {count:6} x  {what}", ms(*took), 100.0 * ms(*took) / ms(self.whole))?;
        }
        write!(f, "{:9.3} ms in steps of {:.3} ms in all; ", ms(all), ms(self.whole))?;
        write!(f, "{} nodes, {:.0} ns a node outside steps", self.nodes, ms(self.host_per_node()) * 1e6)
    }
}
