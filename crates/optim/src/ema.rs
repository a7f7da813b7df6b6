//! An average of the weights over time.

use gradus_core::{Error, Result, Tensor, no_grad};
use gradus_io::{Meta, StateDict, Stateful};

/// An exponential moving average of variables, often better than the weights it follows: PyTorch's
/// `AveragedModel` with `get_ema_multi_avg_fn(decay)`.
///
/// ```
/// use gradus_core::Tensor;
/// use gradus_optim::Ema;
/// let w = Tensor::var("w", Tensor::from([1.0f32]));
/// let mut ema = Ema::new([&w], 0.9);
/// w.set(&Tensor::from([2.0f32]))?;
/// ema.update()?; // after each optimizer step
/// w.set(&Tensor::from([3.0f32]))?;
/// ema.update()?;
/// ema.with(|| Ok(assert!((w.item::<f32>()? - 2.1).abs() < 1e-6)))?; // the averages stand in for the weights
/// assert_eq!(w.item::<f32>()?, 3.0);
/// # Ok::<(), gradus_core::Error>(())
/// ```
pub struct Ema {
    params: Vec<Tensor>,
    averages: Vec<Tensor>,
    decay: f64,
    updates: u64,
}

impl Ema {
    /// Follows these variables; the first update copies them.
    pub fn new<'a>(params: impl IntoIterator<Item = &'a Tensor>, decay: f64) -> Ema {
        let params: Vec<Tensor> = params.into_iter().cloned().collect();
        let averages = params.iter().map(|p| p.resolve().detach()).collect();
        Ema { params, averages, decay, updates: 0 }
    }

    /// Takes the variables' present values in, all in one run.
    pub fn update(&mut self) -> Result<()> {
        // The first copy goes through the same graph, so there is one plan.
        let decay = if self.updates == 0 { 0.0 } else { self.decay };
        let next: Vec<Tensor> = no_grad(|| {
            let pairs = self.averages.iter().zip(&self.params);
            pairs.map(|(a, p)| a * decay + p.resolve().detach() * (1.0 - decay)).collect()
        });
        Tensor::eval_all(&next.iter().collect::<Vec<_>>())?;
        self.averages = next;
        self.updates += 1;
        Ok(())
    }

    /// The averages, in the order of the variables.
    pub fn averages(&self) -> &[Tensor] {
        &self.averages
    }

    /// Runs `f` while the variables hold their averages (for a validation, or to save them), then puts them back.
    pub fn with<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let own: Vec<Tensor> = self.params.iter().map(|p| p.resolve().detach()).collect();
        Tensor::eval_all(&own.iter().collect::<Vec<_>>())?;
        // Put back on every way out, a panic of `f` included.
        struct Restore<'a>(&'a [Tensor], Vec<Tensor>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                for (p, v) in self.0.iter().zip(&self.1) {
                    // It held this value before, so it fits.
                    let _ = p.set(v);
                }
            }
        }
        let _restore = Restore(&self.params, own);
        for (p, a) in self.params.iter().zip(&self.averages) {
            p.set(a)?;
        }
        f()
    }
}

impl Stateful for Ema {
    fn state(&self) -> StateDict {
        let mut state: StateDict =
            self.averages.iter().enumerate().map(|(k, a)| (format!("average.{k}"), a.clone())).collect();
        state.metadata_mut().insert("decay".into(), Meta::Float(self.decay));
        state.metadata_mut().insert("updates".into(), Meta::Int(self.updates as i64));
        state
    }

    #[track_caller]
    fn load_state(&mut self, state: &StateDict) -> Result<()> {
        if state.len() != self.params.len() {
            let why = format!("the state has {} averages, and there are {} variables", state.len(), self.params.len());
            return Err(Error::value("ema", why));
        }
        let (decay, updates) = (state.number("decay")?, state.integer("updates")?);
        let averages = self.params.iter().enumerate();
        self.averages = averages.map(|(k, p)| state.tensor_like(&format!("average.{k}"), p)).collect::<Result<_>>()?;
        (self.decay, self.updates) = (decay, u64::try_from(updates).unwrap_or(0));
        Ok(())
    }
}
