//! L-BFGS: curvature from the last few steps.

use crate::{Optimizer, wolfe};
use gradus_core::{
    Error, Result, Scalar, Tensor, enable_grad,
    grad::Gradients,
    no_grad,
    plan::Explanation,
    replay::{Note, Replay},
};
use gradus_io::{Meta, StateDict, Stateful};

/// L-BFGS, step for step as PyTorch's `LBFGS`: for smooth problems that fit into one batch.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{Lbfgs, LbfgsOptions, LineSearch};
/// // Rosenbrock's valley, with its minimum at (1, 1).
/// let (x, y) = (Tensor::var("x", -1.0f64), Tensor::var("y", 1.5f64));
/// let options = LbfgsOptions { line_search: LineSearch::StrongWolfe, max_iter: 100, ..Default::default() };
/// let mut opt = Lbfgs::new([&x, &y], options);
/// opt.step_with(|| Ok((1.0 - &x).square() + (&y - x.square()).square() * 100.0))?;
/// assert!((x.item::<f64>()? - 1.0).abs() < 1e-5);
/// # Ok::<(), gradus_core::Error>(())
/// ```
///
/// [`Optimizer::step`] makes one iteration without a line search from gradients at hand; [`Lbfgs::step_with`] makes
/// up to `max_iter` of them, calling the loss as often as it needs.
#[derive(Clone)]
pub struct Lbfgs {
    params: Vec<Tensor>,
    options: LbfgsOptions,
    memory: Memory,
}

/// Options of [`Lbfgs`].
#[derive(Clone, Debug)]
pub struct LbfgsOptions {
    /// The first step length of each iteration.
    pub lr: f64,
    /// Iterations a step.
    pub max_iter: usize,
    /// Evaluations a step; five quarters of the iterations if none.
    pub max_eval: Option<usize>,
    /// A gradient whose largest element is below this ends a step.
    pub tolerance_grad: f64,
    /// A change of the loss or of a variable below this ends a step.
    pub tolerance_change: f64,
    /// Past steps that are remembered.
    pub history_size: usize,
    /// How the length of an iteration is found.
    pub line_search: LineSearch,
}

/// How the length of an iteration is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSearch {
    /// It is the learning rate.
    None,
    /// By the strong Wolfe conditions.
    StrongWolfe,
}

impl Default for LbfgsOptions {
    fn default() -> Self {
        LbfgsOptions {
            lr: 1.0,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            line_search: LineSearch::None,
        }
    }
}

/// What lasts from one iteration to the next.
#[derive(Clone, Default)]
struct Memory {
    iterations: u64,
    evaluations: u64,
    direction: Option<Tensor>,
    length: f64,
    last_grad: Option<Tensor>,
    last_loss: f64,
    scale: f64,
    /// Differences of gradients and of variables.
    past: Vec<(Tensor, Tensor)>,
}

/// A loss and its gradient for all variables in one vector.
pub(crate) type Point = (f64, Tensor);

fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    (a * b).sum().item::<f64>()
}

fn largest(a: &Tensor) -> Result<f64> {
    a.abs().max()?.item::<f64>()
}

impl Lbfgs {
    /// An optimizer of these variables, all of one float type.
    pub fn new<'a>(params: impl IntoIterator<Item = &'a Tensor>, options: LbfgsOptions) -> Lbfgs {
        Lbfgs { params: params.into_iter().cloned().collect(), options, memory: Memory::default() }
    }

    /// Minimises the loss that `closure` makes of the variables' present values; gives the loss it began with.
    #[track_caller]
    pub fn step_with(&mut self, mut closure: impl FnMut() -> Result<Tensor>) -> Result<f64> {
        let o = self.options.clone();
        let max_eval = o.max_eval.unwrap_or(o.max_iter * 5 / 4);
        let params = self.params.clone();
        let mut evaluate = || -> Result<Point> {
            let (loss, grad) = enable_grad(|| {
                let loss = closure()?;
                let grad = flat(&params, &loss.backward()?)?;
                Ok::<_, Error>((loss, grad))
            })?;
            Tensor::eval_all(&[&loss, &grad])?;
            Ok((loss.item::<f64>()?, grad.detach()))
        };
        let (first, mut grad) = evaluate()?;
        let mut loss = first;
        let mut evaluations = 1;
        self.memory.evaluations += 1;
        if largest(&grad)? <= o.tolerance_grad {
            return Ok(first);
        }
        for i in 1..=o.max_iter {
            let (d, slope) = no_grad(|| self.next_direction(&grad, loss))?;
            let last_loss = loss;
            let mut t = self.memory.length;
            if slope > -o.tolerance_change {
                break;
            }
            let mut calls = 0;
            match o.line_search {
                LineSearch::StrongWolfe => {
                    let start: Vec<Tensor> = self.params.iter().map(|p| p.resolve().detach()).collect();
                    let budget = max_eval.saturating_sub(evaluations);
                    let trial = |t: f64| {
                        self.advance(t, &d)?;
                        let there = evaluate();
                        self.params.iter().zip(&start).try_for_each(|(p, x)| p.set(x))?;
                        there
                    };
                    let found = wolfe::search(trial, t, &d, (loss, grad), slope, budget)?;
                    ((loss, grad), t, calls) = (found.point, found.length, found.evaluations);
                    self.memory.length = t;
                    self.advance(t, &d)?;
                }
                LineSearch::None => {
                    self.advance(t, &d)?;
                    if i != o.max_iter {
                        (loss, grad) = evaluate()?;
                        calls = 1;
                    }
                }
            }
            evaluations += calls;
            self.memory.evaluations += calls as u64;
            let done = i == o.max_iter
                || evaluations >= max_eval
                || largest(&grad)? <= o.tolerance_grad
                || largest(&d)? * t.abs() <= o.tolerance_change
                || (loss - last_loss).abs() < o.tolerance_change;
            if done {
                break;
            }
        }
        Ok(first)
    }

    /// The next direction and the slope along it; the length to begin with is in the memory.
    fn next_direction(&mut self, grad: &Tensor, loss: f64) -> Result<(Tensor, f64)> {
        let m = &mut self.memory;
        m.iterations += 1;
        let d = match (&m.direction, &m.last_grad) {
            (Some(d), Some(last)) => {
                let (y, s) = (grad - last, d * m.length);
                let ys = dot(&y, &s)?;
                if ys > 1e-10 {
                    if m.past.len() >= self.options.history_size && !m.past.is_empty() {
                        m.past.remove(0);
                    }
                    m.scale = ys / dot(&y, &y)?;
                    m.past.push((y, s));
                }
                two_loops(&m.past, grad, m.scale)?
            }
            _ => {
                m.scale = 1.0;
                -grad
            }
        };
        let slope = dot(grad, &d)?;
        let first = m.iterations == 1;
        let scale = if first { (1.0 / grad.abs().sum().item::<f64>()?).min(1.0) } else { 1.0 };
        m.length = scale * self.options.lr;
        m.last_grad = Some(grad.clone());
        m.last_loss = loss;
        m.direction = Some(d.clone());
        Ok((d, slope))
    }

    /// Moves the variables along a direction.
    fn advance(&self, t: f64, d: &Tensor) -> Result<()> {
        no_grad(|| {
            let mut at = 0;
            let mut new = vec![];
            for p in &self.params {
                let part = d.narrow(0, at, p.numel())?.reshape(p.shape().clone())?;
                new.push(p.resolve().detach() + part * t);
                at += p.numel();
            }
            Tensor::eval_all(&new.iter().collect::<Vec<_>>())?;
            self.params.iter().zip(&new).try_for_each(|(p, x)| p.set(x))
        })
    }
}

/// The inverse Hessian that the past implies, times the negative gradient.
fn two_loops(past: &[(Tensor, Tensor)], grad: &Tensor, scale: f64) -> Result<Tensor> {
    let mut q = -grad;
    let mut weights = vec![];
    for (y, s) in past.iter().rev() {
        let rho = 1.0 / dot(y, s)?;
        let a = dot(s, &q)? * rho;
        q = q - y * a;
        weights.push((a, rho));
    }
    let mut r = q * scale;
    for ((y, s), (a, rho)) in past.iter().zip(weights.into_iter().rev()) {
        let b = dot(y, &r)? * rho;
        r = r + s * (a - b);
    }
    Ok(r)
}

/// All gradients in one vector, zeros where there is none.
fn flat(params: &[Tensor], grads: &Gradients) -> Result<Tensor> {
    let parts = params.iter().enumerate().map(|(k, p)| {
        let Some(id) = p.var_id() else {
            return Err(Error::value("lbfgs", format!("parameter {k} is not a variable"))
                .operand(p)
                .hint("make it with Tensor::var"));
        };
        grads.get(id).cloned().unwrap_or_else(|| p.resolve().zeros_like()).reshape([p.numel()])
    });
    let parts: Vec<Tensor> = parts.collect::<Result<_>>()?;
    if parts.is_empty() {
        return Err(Error::value("lbfgs", "there is no variable to optimize"));
    }
    Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0)
}

impl Optimizer for Lbfgs {
    #[track_caller]
    fn step(&mut self, grads: &Gradients) -> Result<()> {
        let grad = no_grad(|| flat(&self.params, grads))?.detach();
        let (d, slope) = no_grad(|| self.next_direction(&grad, f64::NAN))?;
        if slope > -self.options.tolerance_change { Ok(()) } else { self.advance(self.memory.length, &d) }
    }

    fn params(&self) -> Vec<Tensor> {
        self.params.clone()
    }

    fn group_count(&self) -> usize {
        1
    }

    fn option(&self, group: usize, name: &str) -> Option<f64> {
        (group == 0 && name == "lr").then_some(self.options.lr)
    }

    fn set_option(&mut self, group: usize, name: &str, value: f64) -> bool {
        let known = group == 0 && name == "lr";
        if known {
            self.options.lr = value;
        }
        known
    }

    fn explain(&self, grads: &Gradients) -> Result<Explanation> {
        // The direction takes several runs; the largest is the one of the gradient.
        flat(&self.params, grads)?.explain()
    }
}

impl Replay for Lbfgs {
    /// Its steps look at the loss and decide: they cannot be replayed.
    fn numbers_for(&self, _: &Note, _: &mut Vec<Scalar>) -> bool {
        false
    }
    fn replayed(&mut self, _: &Note) {}
}

impl Stateful for Lbfgs {
    fn state(&self) -> StateDict {
        let m = &self.memory;
        let mut state = StateDict::new();
        state.extend(m.direction.iter().map(|t| ("direction", t.clone())));
        state.extend(m.last_grad.iter().map(|t| ("last_grad", t.clone())));
        for (i, (y, s)) in m.past.iter().enumerate() {
            state.extend([(format!("past.{i}.y"), y.clone()), (format!("past.{i}.s"), s.clone())]);
        }
        let meta = state.metadata_mut();
        meta.insert("optimizer".into(), "lbfgs".into());
        for (key, x) in [("length", m.length), ("last_loss", m.last_loss), ("scale", m.scale), ("lr", self.options.lr)]
        {
            meta.insert(key.into(), Meta::Float(x));
        }
        let counts = [("iterations", m.iterations), ("evaluations", m.evaluations), ("past", m.past.len() as u64)];
        meta.extend(counts.map(|(key, n)| (key.to_string(), Meta::Int(n as i64))));
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        if state.metadata().get("optimizer").and_then(|m| m.as_str()) != Some("lbfgs") {
            return Err(Error::value("lbfgs", "the state is not of L-BFGS"));
        }
        let (Some(first), n) = (self.params.first(), self.params.iter().map(Tensor::numel).sum::<usize>()) else {
            return Err(Error::value("lbfgs", "there is no variable to optimize"));
        };
        let like = Tensor::zeros([n], first.dtype()).to(&first.device());
        let maybe = |name: &str| state.contains(name).then(|| state.tensor_like(name, &like)).transpose();
        let count = |key: &str| Ok::<_, Error>(u64::try_from(state.integer(key)?).unwrap_or(0));
        let pair = |i| {
            let one = |what| state.tensor_like(&format!("past.{i}.{what}"), &like);
            Ok((one("y")?, one("s")?))
        };
        let memory = Memory {
            iterations: count("iterations")?,
            evaluations: count("evaluations")?,
            direction: maybe("direction")?,
            length: state.number("length")?,
            last_grad: maybe("last_grad")?,
            last_loss: state.number("last_loss")?,
            scale: state.number("scale")?,
            past: (0..count("past")?).map(pair).collect::<Result<_>>()?,
        };
        self.options.lr = state.number("lr")?;
        self.memory = memory;
        Ok(())
    }
}
