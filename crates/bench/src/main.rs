//! `gradus-bench [--json] [--device cuda:N] [names]`: the benchmark's workloads, one JSON line each.
//!
//! Warm up five times, then run for 1.5 s or 200 iterations (at least 7); the median and the minimum are reported.

mod gpu;
mod ops;

use std::time::Instant;

/// Times one workload under the rules above.
pub struct Bench {
    names: Vec<String>,
}

impl Bench {
    /// Whether this workload was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|n| n == name)
    }

    /// Runs and reports.
    pub fn time(&self, name: &str, mut f: impl FnMut()) {
        if !self.wants(name) {
            return;
        }
        for _ in 0..5 {
            f();
        }
        let mut times: Vec<f64> = vec![];
        let start = Instant::now();
        while times.len() < 7 || (times.len() < 200 && start.elapsed().as_secs_f64() < 1.5) {
            let t = Instant::now();
            f();
            times.push(t.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let median = if n % 2 == 1 { times[n / 2] } else { (times[n / 2 - 1] + times[n / 2]) / 2.0 };
        let min = times[0];
        println!(r#"{{"peer": "gradus", "work": "{name}", "ms": {median:.5}, "min_ms": {min:.5}, "iters": {n}}}"#);
    }
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(i) = args.iter().position(|a| a == "--device") {
        let name = args.drain(i..args.len().min(i + 2)).nth(1).unwrap_or_default();
        args.retain(|a| !a.starts_with("--"));
        if let Err(e) = on_gpu(&name, args) {
            eprintln!("{e}");
            std::process::exit(1);
        }
        return;
    }
    if let Some(bad) = args.iter().find(|a| a.starts_with("--") && *a != "--json") {
        eprintln!("no option {bad}; usage: gradus-bench [--json] [--device cuda:N] [names]");
        std::process::exit(2);
    }
    let bench = Bench { names: args.into_iter().filter(|a| !a.starts_with("--")).collect() };
    if let Err(e) = ops::run(&bench) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

/// The GPU's own list of workloads.
fn on_gpu(name: &str, names: Vec<String>) -> gradus_core::Result<()> {
    use gradus_core::{Device, Error};
    use gradus_cuda::CudaDevice;
    let number = match name.split_once(':').unwrap_or((name, "0")) {
        ("cuda", n) => n.parse::<usize>().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| Error::value("--device", format!("no device {name:?}; there is cuda:N")))?;
    gpu::run(Device::cuda(number)?, names)
}
