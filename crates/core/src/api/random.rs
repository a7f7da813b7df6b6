//! Random tensors: counter-based, so the same numbers on any number of threads.

use crate::{DType, Device, Result, Shape, Tensor, op::Op};
use std::{panic::Location, sync::Mutex};

/// Seed and the next stream of the process-wide generator.
static STATE: Mutex<(u64, u64)> = Mutex::new((0, 0));

fn state() -> std::sync::MutexGuard<'static, (u64, u64)> {
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Starts the random numbers anew from a seed.
///
/// ```
/// use gradus_core::{manual_seed, Tensor};
/// manual_seed(7);
/// let a = Tensor::rand([4]).to_vec::<f32>().unwrap();
/// manual_seed(7);
/// assert_eq!(a, Tensor::rand([4]).to_vec::<f32>().unwrap());
/// ```
pub fn manual_seed(seed: u64) {
    *state() = (seed, 0);
}

/// Seed and position of the generator, for a checkpoint.
pub fn get_rng_state() -> (u64, u64) {
    *state()
}

/// Puts the generator back to where [`get_rng_state`] found it.
pub fn set_rng_state(at: (u64, u64)) {
    *state() = at;
}

impl Tensor {
    #[track_caller]
    pub(crate) fn uniform_on(shape: Shape, dtype: DType, device: Device) -> Tensor {
        let (seed, stream) = {
            let mut s = state();
            s.1 += 1;
            (s.0, s.1 - 1)
        };
        let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        Tensor::build(Op::Rand { seed, stream }, &[], shape, work, device, Location::caller()).to_dtype(dtype)
    }

    /// Uniform numbers in [0, 1), f32.
    #[track_caller]
    pub fn rand(shape: impl Into<Shape>) -> Tensor {
        Tensor::uniform_on(shape.into(), DType::F32, Device::cpu())
    }

    /// Uniform numbers in [lo, hi), f32.
    #[track_caller]
    pub fn uniform(lo: f64, hi: f64, shape: impl Into<Shape>) -> Tensor {
        Tensor::rand(shape) * (hi - lo) + lo
    }

    /// Normal numbers of mean 0 and deviation 1, f32.
    #[track_caller]
    pub fn randn(shape: impl Into<Shape>) -> Tensor {
        Tensor::normal_on(shape.into(), DType::F32, Device::cpu())
    }

    /// Box-Muller: two uniform streams make one normal.
    #[track_caller]
    pub(crate) fn normal_on(shape: Shape, dtype: DType, device: Device) -> Tensor {
        let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let u = Tensor::uniform_on(shape.clone(), work, device);
        let v = Tensor::uniform_on(shape, work, device);
        // 1 - u is in (0, 1], so the logarithm is finite.
        let r = ((1.0 - u).log() * -2.0).sqrt();
        (r * (v * std::f64::consts::TAU).cos()).to_dtype(dtype)
    }

    /// Normal numbers of this mean and deviation, f32.
    #[track_caller]
    pub fn normal(mean: f64, std: f64, shape: impl Into<Shape>) -> Result<Tensor> {
        if std < 0.0 || std.is_nan() {
            return Err(crate::Error::value("normal", format!("a deviation cannot be {std}")));
        }
        Ok(Tensor::randn(shape) * std + mean)
    }
}
