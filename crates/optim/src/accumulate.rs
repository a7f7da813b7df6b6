//! Gradients of several batches in one step.

use gradus_core::{Result, Tensor, grad::Gradients};

/// Adds up gradients until there are enough for a step: the effect of a larger batch in the memory of a small one.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::{Accumulator, Optimizer, Sgd};
/// let w = Tensor::var("w", Tensor::from([0.0f32]));
/// let mut opt = Sgd::new([&w], 1.0);
/// let mut sum = Accumulator::new();
/// for target in [1.0, 2.0, 3.0, 4.0] {
///     let loss = (&w - target).square().sum() * 0.5;
///     sum.add(&loss.backward()?)?;
///     if sum.count() == 4 {
///         opt.step(&sum.take_mean()?)?; // one step, from the mean of four gradients
///     }
/// }
/// assert_eq!(w.item::<f32>()?, 2.5);
/// # Ok::<(), gradus_core::Error>(())
/// ```
#[derive(Default)]
pub struct Accumulator {
    sum: Option<Gradients>,
    count: usize,
}

impl Accumulator {
    /// Nothing so far.
    pub fn new() -> Accumulator {
        Accumulator::default()
    }

    /// Adds gradients, and computes the sum (so that the graph of each batch can go).
    pub fn add(&mut self, grads: &Gradients) -> Result<()> {
        let sum = match &self.sum {
            Some(sum) => sum.add(grads),
            None => grads.map(|_, g| Ok(g.clone()))?,
        };
        // What was summed is constant from here on: with the values, the batch's graph is let go of.
        let sum = sum.map(|_, g| Ok(g.detach()))?;
        Tensor::eval_all(&sum.iter().map(|(_, g)| g).collect::<Vec<_>>())?;
        self.sum = Some(sum);
        self.count += 1;
        Ok(())
    }

    /// How many were added since the last take.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The sum, and begins anew; none if nothing was added.
    pub fn take_sum(&mut self) -> Option<Gradients> {
        self.count = 0;
        self.sum.take()
    }

    /// The mean of what was added, and begins anew.
    #[track_caller]
    pub fn take_mean(&mut self) -> Result<Gradients> {
        let n = self.count.max(1) as f64;
        match self.take_sum() {
            Some(sum) => sum.map(|_, g| Ok(g / n)),
            None => Err(gradus_core::Error::value("take_mean", "no gradients were added")),
        }
    }
}
