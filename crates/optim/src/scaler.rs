//! Scaling the loss, so that small gradients survive in f16.

use crate::Optimizer;
use gradus_core::{Error, Result, Tensor, grad::Gradients};
use gradus_io::{Meta, StateDict, Stateful};

/// Keeps gradients within the range of f16, as PyTorch's `GradScaler` does.
///
/// The loss is multiplied by a large number before the backward pass, and the gradients are divided by it after. When one
/// is infinite or NaN, the step is left out and the number halved; after 2,000 steps without that, it is doubled.
///
/// ```
/// use gradus_core::{DType, Tensor, autocast};
/// use gradus_optim::{GradScaler, Sgd};
/// let w = Tensor::var("w", Tensor::from([[0.5f32]]));
/// let (mut opt, mut scaler) = (Sgd::new([&w], 0.1), GradScaler::new());
/// let x = Tensor::from([[0.25f32], [0.25], [0.25], [0.25]]);
/// let loss = autocast(DType::F16, || Ok::<_, gradus_core::Error>(x.linear(&w, None)?.mean()))?;
/// let grads = scaler.scale(&loss).backward()?;
/// assert!(scaler.step(&mut opt, &grads)?);
/// scaler.update();
/// assert!((w.item::<f32>()? - 0.475).abs() < 1e-6);
/// # Ok::<(), gradus_core::Error>(())
/// ```
///
/// To clip gradients, [`GradScaler::unscale`] them first; [`GradScaler::step`] then takes them as they are.
#[derive(Clone)]
pub struct GradScaler {
    scale: f64,
    growth_factor: f64,
    backoff_factor: f64,
    growth_interval: u64,
    /// Steps in a row whose gradients were finite.
    good: u64,
    /// Whether gradients since the last update are all finite: a tensor, for nothing has run when they are unscaled.
    finite: Option<Tensor>,
    /// What the last step found.
    skipped: bool,
}

impl Default for GradScaler {
    fn default() -> Self {
        GradScaler::new()
    }
}

impl GradScaler {
    /// With PyTorch's numbers: 65536 at first, times 2 after 2,000 good steps, times 0.5 after a bad one.
    pub fn new() -> GradScaler {
        GradScaler {
            scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            good: 0,
            finite: None,
            skipped: false,
        }
    }

    /// With this number at first.
    pub fn init_scale(self, scale: f64) -> GradScaler {
        GradScaler { scale, ..self }
    }

    /// With these factors after enough good steps and after a bad one.
    pub fn factors(self, growth_factor: f64, backoff_factor: f64) -> GradScaler {
        GradScaler { growth_factor, backoff_factor, ..self }
    }

    /// With growth after this many good steps.
    pub fn growth_interval(self, growth_interval: u64) -> GradScaler {
        GradScaler { growth_interval: growth_interval.max(1), ..self }
    }

    /// The number by which losses are multiplied now.
    pub fn get_scale(&self) -> f64 {
        self.scale
    }

    /// A loss times the number. The number is an argument of the plan: another one costs no new plan.
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Tensor {
        loss * self.scale
    }

    /// Gradients of a scaled loss divided by the number. Nothing has run yet.
    #[track_caller]
    pub fn unscale(&mut self, grads: &Gradients) -> Result<Gradients> {
        if self.finite.is_some() {
            let why = "gradients were unscaled already since the last update";
            return Err(Error::value("unscale", why).hint("call update after each step"));
        }
        let unscaled = grads.map(|_, g| Ok(g * (1.0 / self.scale)))?;
        let each = unscaled.iter().map(|(_, g)| g.detach().isfinite().all().reshape([1]));
        let each = each.collect::<Result<Vec<_>>>()?;
        if !each.is_empty() {
            self.finite = Some(Tensor::cat(&each.iter().collect::<Vec<_>>(), 0)?.all());
        }
        Ok(unscaled)
    }

    /// Steps the optimizer, if all gradients are finite; says whether it did. Gradients that were not unscaled yet are.
    ///
    /// To know, it waits for the gradients: this is the one place of a training step where the host waits for the device.
    #[track_caller]
    pub fn step(&mut self, opt: &mut (impl Optimizer + ?Sized), grads: &Gradients) -> Result<bool> {
        let unscaled;
        let grads = match &self.finite {
            Some(_) => grads,
            None => {
                unscaled = self.unscale(grads)?;
                &unscaled
            }
        };
        let Some(finite) = &self.finite else {
            opt.step(grads)?; // without gradients there is nothing to be infinite
            return Ok(true);
        };
        Tensor::eval_all(&grads.iter().map(|(_, g)| g).chain([finite]).collect::<Vec<_>>())?;
        self.skipped = !finite.item::<bool>()?;
        if !self.skipped {
            opt.step(grads)?;
        }
        Ok(!self.skipped)
    }

    /// The number for the next step, from what this one found.
    pub fn update(&mut self) {
        self.finite = None;
        if std::mem::take(&mut self.skipped) {
            (self.scale, self.good) = (self.scale * self.backoff_factor, 0);
            return;
        }
        self.good += 1;
        if self.good >= self.growth_interval {
            (self.scale, self.good) = (self.scale * self.growth_factor, 0);
        }
    }
}

impl Stateful for GradScaler {
    fn state(&self) -> StateDict {
        let mut state = StateDict::new();
        let numbers =
            [("scale", self.scale), ("growth_factor", self.growth_factor), ("backoff_factor", self.backoff_factor)];
        let counts = [("growth_interval", self.growth_interval), ("good", self.good)];
        let meta = state.metadata_mut();
        meta.extend(numbers.map(|(k, x)| (k.to_string(), Meta::Float(x))));
        meta.extend(counts.map(|(k, n)| (k.to_string(), Meta::Int(n as i64))));
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        let count = |key: &str| state.integer(key).map(|n| u64::try_from(n).unwrap_or(0));
        *self = GradScaler {
            scale: state.number("scale")?,
            growth_factor: state.number("growth_factor")?,
            backoff_factor: state.number("backoff_factor")?,
            growth_interval: count("growth_interval")?.max(1),
            good: count("good")?,
            finite: None,
            skipped: false,
        };
        Ok(())
    }
}
