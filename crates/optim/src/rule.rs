//! What makes one optimizer differ from another: its options, and a formula for one variable.

use gradus_core::{Result, Tensor};

/// An optimizer's options and its formula. [`crate::Optim`] does the rest.
///
/// ```
/// use gradus_core::{Result, Tensor};
/// use gradus_optim::{Field, Optim, Optimizer, Rule, Slot};
///
/// /// Steps of one length, whatever the gradient's.
/// #[derive(Clone)]
/// struct SignDescent {
///     lr: f64,
/// }
///
/// impl Rule for SignDescent {
///     const NAME: &'static str = "sign_descent";
///     fn with_lr(lr: f64) -> Self {
///         SignDescent { lr }
///     }
///     fn fields(&mut self) -> Vec<(&'static str, Field<'_>)> {
///         vec![("lr", Field::Number(&mut self.lr))]
///     }
///     fn next(&self, _slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor> {
///         Ok(w - g.sign() * self.lr)
///     }
/// }
///
/// let w = Tensor::var("w", Tensor::from([3.0f32]));
/// let mut opt = Optim::<SignDescent>::new([&w], 0.5);
/// opt.step(&w.square().sum().backward()?)?;
/// assert_eq!(w.item::<f32>()?, 2.5);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub trait Rule: Clone {
    /// The name in errors and states.
    const NAME: &'static str;

    /// The usual options, with this learning rate.
    fn with_lr(lr: f64) -> Self;

    /// The options by name: what schedules change and states keep.
    fn fields(&mut self) -> Vec<(&'static str, Field<'_>)>;

    /// The next value of a variable from its value and its gradient. What must last until the next step goes into the
    /// slot; plain numbers that change from step to step cost nothing, other graphs for other steps cost a plan each.
    fn next(&self, slot: &mut Slot, w: &Tensor, g: &Tensor) -> Result<Tensor>;
}

/// One option.
pub enum Field<'a> {
    /// A number.
    Number(&'a mut f64),
    /// A switch.
    Flag(&'a mut bool),
    /// A count.
    Count(&'a mut usize),
}

/// What an optimizer remembers about one variable.
#[derive(Clone, Default)]
pub struct Slot {
    pub(crate) step: u64,
    /// By name: variables, so that compiled functions find them; plain tensors while a step is being made.
    pub(crate) tensors: Vec<(String, Tensor)>,
    pub(crate) numbers: Vec<(String, f64)>,
}

impl Slot {
    /// The number of this step, from 1.
    pub fn step(&self) -> i32 {
        i32::try_from(self.step).unwrap_or(i32::MAX)
    }

    /// A tensor kept by the last step; zeros like `w` in the first.
    pub fn tensor(&mut self, name: &str, w: &Tensor) -> Result<Tensor> {
        if let Some((_, t)) = self.tensors.iter().find(|t| t.0 == name) {
            return Ok(t.resolve());
        }
        // Stored zeros, not a constant: the first step then has the graph of all others, and shares their plan.
        let bytes = vec![0u8; w.numel().saturating_mul(w.dtype().size())];
        let zeros = Tensor::from_bytes(&bytes, w.shape().clone(), w.dtype())?.to(&w.device());
        self.keep(name, &zeros);
        Ok(zeros)
    }

    /// Keeps a tensor for the next step; it is computed in the same run as the new value.
    pub fn keep(&mut self, name: &str, t: &Tensor) {
        keep(&mut self.tensors, name, t.clone());
    }

    /// A number kept by the last step.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|x| x.0 == name).map(|x| x.1)
    }

    /// Keeps a number for the next step.
    pub fn keep_number(&mut self, name: &str, x: f64) {
        keep(&mut self.numbers, name, x);
    }

    /// Makes variables of its own of what it holds.
    pub(crate) fn own(&mut self) {
        for (_, t) in &mut self.tensors {
            let own = t.resolve().requires_grad_();
            // Gradients are of floats: this switches them off, which nothing can refuse.
            let _ = own.set_requires_grad(false);
            *t = own;
        }
    }

    /// Takes over what a step has made of a copy.
    pub(crate) fn become_(&mut self, next: Slot) -> Result<()> {
        (self.step, self.numbers) = (next.step, next.numbers);
        for (name, new) in next.tensors {
            match self.tensors.iter().find(|t| t.0 == name) {
                Some((_, own)) if new.var_id().is_some() && new.var_id() == own.var_id() => {}
                Some((_, own)) => own.set(&new)?,
                None => {
                    let mut fresh = Slot { tensors: vec![(name, new)], ..Slot::default() };
                    fresh.own();
                    self.tensors.append(&mut fresh.tensors);
                }
            }
        }
        Ok(())
    }

    /// `decay * old + (1 - decay) * x`, kept under `name`.
    pub fn average(&mut self, name: &str, x: &Tensor, decay: f64) -> Result<Tensor> {
        let new = self.tensor(name, x)? * decay + x * (1.0 - decay);
        self.keep(name, &new);
        Ok(new)
    }
}

/// Puts `x` under a name: in its place, or at the end.
fn keep<T>(all: &mut Vec<(String, T)>, name: &str, x: T) {
    match all.iter_mut().find(|k| k.0 == name) {
        Some(k) => k.1 = x,
        None => all.push((name.into(), x)),
    }
}

/// The gradient as most rules want it: turned around to maximize, and with the L2 penalty's part.
pub(crate) fn penalized(g: &Tensor, w: &Tensor, weight_decay: f64, maximize: bool) -> Tensor {
    let g = if maximize { -g } else { g.clone() };
    if weight_decay == 0.0 { g } else { g + w * weight_decay }
}
