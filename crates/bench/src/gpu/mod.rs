//! The benchmark on a GPU: the workloads of PyTorch's side (`torch_gpu.py`), under the same names.
//!
//! Ten warm-up runs, then fifty timed ones between two events on the device; the median is reported.

mod dry;
mod gpt;
mod ops;
mod train;

use crate::Bench;
use dry::Dry;
use gradus_core::{Device, Result, Tensor, compile, plan};
use gradus_cuda::Timer;
use gradus_optim::Optimizer;
use std::time::Instant;

/// Times workloads on one GPU.
pub struct Gpu {
    /// Where.
    pub device: Device,
    names: Vec<String>,
    /// Whether to say which steps the time goes to.
    profile: bool,
    /// Whether steps run as they are instead of compiled.
    plain: bool,
}

impl Gpu {
    /// Whether this workload was asked for: by name, or by the start of it.
    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|n| name.starts_with(&n[..]))
    }

    /// The medians of `runs` in milliseconds: on the device, and until the host was free again.
    fn median(&self, runs: usize, warm: usize, mut f: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
        for _ in 0..warm {
            f()?;
        }
        if let Some(dry) = Dry::of(&self.device) {
            dry.reset();
            f()?;
            dry.print(self.profile);
            let mut host: Vec<f64> = vec![];
            for _ in 0..runs * std::env::var("GRADUS_DRY").map_or(1, |v| v.parse().unwrap_or(1)) {
                let start = Instant::now();
                f()?;
                host.push(start.elapsed().as_secs_f64() * 1e3);
            }
            host.sort_by(f64::total_cmp);
            println!("{:.4} ms on the host", host[runs / 2]);
            return Ok((f64::NAN, f64::NAN));
        }
        self.device.backend().sync()?;
        if self.profile {
            let (done, times) = plan::profile(|| (0..5).try_for_each(|_| f()));
            done?;
            eprintln!("five times:\n{times}");
        }
        let (mut times, mut host) = (vec![], vec![]);
        for _ in 0..runs {
            let timer = Timer::start(&self.device)?;
            let start = Instant::now();
            f()?;
            host.push(start.elapsed().as_secs_f64() * 1e3);
            times.push(timer.stop()?);
        }
        Ok((crate::median(&times), crate::median(&host)))
    }

    /// The same of a training step, which is compiled.
    fn training<O: Optimizer>(
        &self,
        runs: usize,
        warm: usize,
        optimizer: &mut O,
        [x, y]: [&Tensor; 2],
        mut f: impl FnMut(&mut O, [&Tensor; 2]) -> Result<Tensor>,
    ) -> Result<(f64, f64)> {
        if self.plain {
            return self.median(runs, warm, || f(optimizer, [x, y]).map(drop));
        }
        let mut step = compile(f);
        let times = self.median(runs, warm, || step.call(optimizer, [x, y]).map(drop))?;
        if let Some(why) = step.status().obstacle {
            eprintln!("the step is not replayed: {why}");
        }
        Ok(times)
    }

    /// Counts the peak of memory from now on.
    fn reset_peak(&self) -> Result<()> {
        if Dry::of(&self.device).is_some() { Ok(()) } else { gradus_cuda::reset_peak_memory(&self.device) }
    }

    /// The peak in gigabytes, on a GPU.
    fn peak(&self) -> Result<Option<f64>> {
        if Dry::of(&self.device).is_some() {
            return Ok(None);
        }
        Ok(Some(gradus_cuda::memory_stats(&self.device)?.peak as f64 / 1e9))
    }

    /// Runs an operation and prints its line; `extra` from the milliseconds.
    fn time(&self, name: &str, f: impl FnMut() -> Result<()>, extra: impl FnOnce(f64) -> String) -> Result<()> {
        if self.wants(name) {
            let (ms, host) = self.median(50, 10, f)?;
            println!(r#"{{"peer": "gradus", "work": "{name}", "ms": {ms:.5}, "host_ms": {host:.5}{}}}"#, extra(ms));
        }
        Ok(())
    }
}

/// All workloads, or those whose names start as given; without a device, what they would ask one for.
pub fn run(device: Option<Device>, Bench { names, profile, plain }: Bench) -> Result<()> {
    // As PyTorch's side sets it.
    gradus_cuda::set_tf32(true);
    gradus_cuda::set_benchmark(std::env::var("GRADUS_CUDA_BENCHMARK").map_or(true, |v| v != "0"));
    let gpu = Gpu { device: device.unwrap_or_else(Dry::device), names, profile, plain };
    ops::run(&gpu)?;
    train::run(&gpu)?;
    gpt::run(&gpu)
}
