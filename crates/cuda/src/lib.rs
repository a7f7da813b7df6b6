//! gradus on NVIDIA GPUs.
//!
//! Nothing of CUDA is needed to build this crate: the driver, NVRTC and cuBLASLt are looked for when the first GPU is
//! asked for, and what is missing is an error that names it and the places looked in. One binary runs with or without.
//!
//! ```
//! use gradus_core::{Device, Tensor};
//! use gradus_cuda::CudaDevice;
//! let device = Device::best(); // a GPU where there is one, else the CPU
//! let x = Tensor::from([1.0f32, 2.0, 3.0]).to(&device);
//! assert_eq!((&x * 2.0).sum().item::<f32>().unwrap(), 12.0);
//! ```
//!
//! # How it works
//!
//! Kernels arrive in gradus's loop language, are written as CUDA C, compiled for the GPU present, and kept on disk
//! (folder `GRADUS_CACHE`, else the user's cache folder). Matrix products go through cuBLASLt. Everything runs on one
//! stream: memory that is given back can be taken at once. Launches do not wait; reading does. An index outside its
//! axis, or an integer division by zero, is therefore found when something is next read.
//!
//! # Settings
//!
//! [`set_tf32`]: f32 products in TF32 (about 8 times faster, three digits fewer), off unless `GRADUS_TF32=1`.

mod backend;
mod context;
mod conv;
mod disk;
mod flash;
mod graphs;
mod library;
mod many;
mod matmul;
mod module;
mod pool;
mod stage;
mod sys;
mod tables;
mod timer;

pub use backend::{graph_stats, memory_stats, reset_peak_memory};
pub use context::Info;
pub use graphs::GraphStats;
pub use pool::MemoryStats;
pub use timer::Timer;

use gradus_core::{Device, Result};
use std::sync::{
    Mutex,
    atomic::{AtomicU8, Ordering::Relaxed},
};

/// GPUs as constructors of [`Device`].
pub trait CudaDevice: Sized {
    /// GPU `n`; an error names what is missing.
    fn cuda(n: usize) -> Result<Self>;
    /// The first GPU if one can be used, else the CPU.
    fn best() -> Self;
}

impl CudaDevice for Device {
    fn cuda(n: usize) -> Result<Device> {
        static DEVICES: Mutex<Vec<(usize, Device)>> = Mutex::new(vec![]);
        let mut made = DEVICES.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(&(_, device)) = made.iter().find(|(ordinal, _)| *ordinal == n) {
            return Ok(device);
        }
        let device = Device::register(Box::new(backend::Cuda::new(n)?));
        made.push((n, device));
        Ok(device)
    }

    fn best() -> Device {
        Device::cuda(0).unwrap_or_else(|_| Device::cpu())
    }
}

/// The GPUs of this machine; an error says why there are none.
pub fn devices() -> Result<Vec<Info>> {
    context::list()
}

/// 0: not asked yet; 1: off; 2: on.
static TF32: AtomicU8 = AtomicU8::new(0);

/// Whether f32 matrix products may run in TF32.
pub fn tf32() -> bool {
    if TF32.load(Relaxed) == 0 {
        let on = std::env::var("GRADUS_TF32").is_ok_and(|v| v == "1");
        set_tf32(on);
    }
    TF32.load(Relaxed) == 2
}

/// Lets f32 matrix products run in TF32, or not.
pub fn set_tf32(on: bool) {
    TF32.store(1 + on as u8, Relaxed);
}

static BENCHMARK: AtomicU8 = AtomicU8::new(0);

/// Whether large matrix products try several algorithms at first and keep the fastest.
pub fn benchmark() -> bool {
    if BENCHMARK.load(Relaxed) == 0 {
        set_benchmark(std::env::var("GRADUS_CUDA_BENCHMARK").is_ok_and(|v| v == "1"));
    }
    BENCHMARK.load(Relaxed) == 2
}

/// Lets large matrix products try several algorithms at first and keep the fastest, or not (as at first). The choice may be
/// another in the next process, and the last bits of results with it: PyTorch's `cudnn.benchmark`, for products.
pub fn set_benchmark(on: bool) {
    BENCHMARK.store(1 + on as u8, Relaxed);
}
