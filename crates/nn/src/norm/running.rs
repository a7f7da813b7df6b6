//! Running statistics of batch and instance norm.

use crate::{Buffer, Module};
use gradus_core::{BatchNormOptions, DType, Result, RunningStats, Tensor};

/// A normalised batch, and new running statistics.
type Normed = Result<(Tensor, Option<RunningStats>)>;

/// Running mean and variance and the number of batches they have seen, under PyTorch's names.
#[derive(Module)]
pub(crate) struct Running {
    pub running_mean: Buffer,
    pub running_var: Buffer,
    pub num_batches_tracked: Buffer,
}

impl Running {
    #[track_caller]
    pub fn new(channels: usize) -> Running {
        Running {
            running_mean: Buffer::new(Tensor::zeros([channels], DType::F32)),
            running_var: Buffer::new(Tensor::ones([channels], DType::F32)),
            num_batches_tracked: Buffer::new(Tensor::zeros((), DType::I64)),
        }
    }

    pub fn stats(&self) -> RunningStats {
        (self.running_mean.resolve(), self.running_var.resolve())
    }

    /// Takes in the statistics of a batch, which `norm` computes with the momentum it is given. Nothing is computed
    /// here: the next run does it along the way.
    #[track_caller]
    pub fn learn(
        &self,
        options: &BatchNormOptions,
        norm: impl FnOnce(&RunningStats, &BatchNormOptions) -> Normed,
    ) -> Result<Tensor> {
        let (y, new) = norm(&self.stats(), options)?;
        if let Some((mean, var)) = new {
            self.running_mean.set(&mean)?;
            self.running_var.set(&var)?;
        }
        Ok(y)
    }

    /// As [`Running::learn`], counting batches. Without a momentum they all count the same.
    #[track_caller]
    pub fn learn_counted(
        &self,
        options: &BatchNormOptions,
        momentum: Option<f64>,
        norm: impl FnOnce(&RunningStats, &BatchNormOptions) -> Normed,
    ) -> Result<Tensor> {
        let seen = &self.num_batches_tracked + 1i64;
        let y = match momentum {
            Some(momentum) => self.learn(&BatchNormOptions { momentum, ..*options }, norm)?,
            None => {
                let old = self.stats();
                // With momentum 1, the batch's own statistics come out.
                let y = self.learn(&BatchNormOptions { momentum: 1.0, ..*options }, norm)?;
                let mixed = |old: &Tensor, new: Tensor| old + (&new - old) / seen.to_dtype(new.dtype());
                let new = self.stats();
                self.running_mean.set(&mixed(&old.0, new.0))?;
                self.running_var.set(&mixed(&old.1, new.1))?;
                y
            }
        };
        self.num_batches_tracked.set(&seen)?;
        Ok(y)
    }
}
