//! `gradus-bench [--json] [names]`: the benchmark's workloads, one JSON line each.
//!
//! Warm up five times, then run for 1.5 s or 200 iterations (at least 7); the median and the minimum are reported.

mod models;
mod ops;
mod training;

use std::time::Instant;

/// Times one workload under the rules above.
pub struct Bench {
    names: Vec<String>,
    profile: bool,
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
        if self.profile {
            let (_, times) = gradus_core::plan::profile(|| (0..5).for_each(|_| f()));
            eprintln!("{name}, five times:\n{times}");
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
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(bad) = args.iter().find(|a| a.starts_with("--") && *a != "--json" && *a != "--profile") {
        eprintln!("no option {bad}; usage: gradus-bench [--json] [--profile] [names]");
        std::process::exit(2);
    }
    let profile = args.iter().any(|a| a == "--profile");
    let bench = Bench { profile, names: args.into_iter().filter(|a| !a.starts_with("--")).collect() };
    if let Err(e) = training::run(&bench).and_then(|()| ops::run(&bench)) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
