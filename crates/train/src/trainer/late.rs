//! Losses that are read later, from the device they are on.
//!
//! They are collected in one tensor there. It is a variable, so its next content is computed by the run that steps the
//! optimizer: nothing is launched for it, and no loss of an earlier step holds memory that a recorded run would take again.

use gradus_core::{DType, Result, Tensor};

/// Losses by step, on the device.
#[derive(Default)]
pub(super) struct Late {
    ring: Option<(Tensor, Tensor)>,
    steps: Vec<u64>,
}

impl Late {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Collects a loss, one of at most `most`. It is computed by the next run.
    pub fn push(&mut self, step: u64, loss: &Tensor, most: usize) -> Result<()> {
        let dtype = if loss.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        let fits = |r: &Tensor| r.device() == loss.device() && r.dtype() == dtype && r.numel() >= most;
        let (ring, places) = match self.ring.take().filter(|(r, _)| fits(r)) {
            Some(kept) => kept,
            None => {
                let (zeros, places) = (Tensor::from(vec![0f32; most]), Tensor::arange(0, most as i64, 1, DType::I64)?);
                let ring = zeros.to_dtype(dtype).to(&loss.device()).requires_grad_();
                ring.set_requires_grad(false)?;
                let places = places.to(&loss.device());
                Tensor::eval_all(&[&ring, &places])?;
                (ring, places)
            }
        };
        // The place is an argument of the plan: every step has the same.
        let here = places.eq(self.steps.len() as i64)?;
        let next = here.where_(&loss.detach().to_dtype(dtype).reshape([1])?, &ring)?;
        ring.set(&next)?;
        self.steps.push(step);
        self.ring = Some((ring, places));
        Ok(())
    }

    /// Takes all of them, waiting for the device.
    pub fn take(&mut self) -> Result<Vec<(u64, f64)>> {
        match &self.ring {
            Some((ring, _)) if !self.steps.is_empty() => {
                let losses = ring.to_vec::<f64>()?;
                Ok(std::mem::take(&mut self.steps).into_iter().zip(losses).collect())
            }
            Some(_) | None => Ok(vec![]),
        }
    }
}
