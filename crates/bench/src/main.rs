//! `gradus-bench [--json] [--profile] [--plain] [--device cuda:N] [names]`: the benchmark's workloads, one JSON line each.
//!
//! Warm up five times, then run for 1.5 s or 200 iterations (at least 7); the median and the minimum are reported.
//! Training steps and inference are compiled; `--plain` runs them as they are.
//! `--profile` says on standard error which steps the time goes to (on a GPU, with `GRADUS_CUDA_GRAPHS=0`). `--device dry`
//! runs nothing and prints what a GPU would be asked for. `--against torch [--rounds N]` takes turns with
//! PyTorch, whose interpreter `GRADUS_BENCH_PYTHON` names, and prints a table; beside rows that only read and write stands the time
//! of a bare loop over the same memory. `--sweep` times other shapes and types instead,
//! alone or against PyTorch; with `--draw N [--seed S]` N cases drawn at random, so none that anyone had in mind. `--curve STEPS --device cuda:N` trains on
//! a GPU and on the CPU and compares the losses.

mod against;
#[cfg(test)]
mod allocations;
mod curve;
mod gpu;
mod limits;
mod models;
mod ops;
mod phase;
mod sweep;
mod training;

use std::time::Instant;

/// The middle of some times; of an even number of them, halfway between the two in the middle.
fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let n = times.len();
    (times[(n - 1) / 2] + times[n / 2]) / 2.0
}

/// Times one workload under the rules above.
pub struct Bench {
    names: Vec<String>,
    profile: bool,
    /// Whether steps run as they are instead of compiled.
    plain: bool,
}

impl Bench {
    /// Whether this workload was asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|n| n == name)
    }

    /// Whether this workload, which is none of the list, was asked for.
    pub fn names(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    /// Runs and reports.
    pub fn time(&self, name: &str, mut f: impl FnMut()) {
        self.time_fastest(name, &[()], |()| f());
    }

    /// Runs several ways to do one thing, and reports the fastest.
    pub fn time_fastest<W>(&self, name: &str, ways: &[W], mut f: impl FnMut(&W)) {
        if !self.wants(name) {
            return;
        }
        let times = ways.iter().map(|way| self.times(name, || f(way)));
        let Some(times) = times.min_by(|a, b| median(a).total_cmp(&median(b))) else { return };
        let (n, min) = (times.len(), times.iter().copied().fold(f64::INFINITY, f64::min));
        let median = median(&times);
        let peak = against::peak_kb();
        println!(
            r#"{{"peer": "gradus", "work": "{name}", "ms": {median:.5}, "min_ms": {min:.5}, "iters": {n}, "peak_kb": {peak}}}"#
        );
    }

    /// Warms up, runs, and gives the milliseconds of every run.
    fn times(&self, name: &str, mut f: impl FnMut()) -> Vec<f64> {
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
        times
    }
}

fn main() {
    let mut bench = Bench { names: vec![], profile: false, plain: false };
    let (mut against, mut sweep, mut rounds, mut device, mut steps) = (false, false, 3, None, None);
    let (mut draw, mut seed) = (0, 0);
    let mut args = std::env::args().skip(1);
    let wrong = |what: String| -> ! {
        eprintln!(
            "{what}; usage: gradus-bench [--json] [--profile] [--plain] [--sweep [--draw N] [--seed S]] [--against torch [--rounds N]] [--curve STEPS] [--device cuda:N|dry] [names]"
        );
        std::process::exit(2)
    };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--json" => {}
            "--profile" => bench.profile = true,
            "--plain" => bench.plain = true,
            "--sweep" => sweep = true,
            "--against" => match args.next().as_deref() {
                Some("torch") => against = true,
                other => wrong(format!("--against torch is what there is, not {other:?}")),
            },
            "--device" => match args.next() {
                Some(name) => device = Some(name),
                None => wrong("--device wants a name".into()),
            },
            "--rounds" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => rounds = n,
                _ => wrong("--rounds wants a number above zero".into()),
            },
            "--draw" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) if n > 0 => draw = n,
                _ => wrong("--draw wants a number of cases above zero".into()),
            },
            "--seed" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => seed = n,
                None => wrong("--seed wants a number".into()),
            },
            "--curve" => match args.next().and_then(|n| n.parse().ok()) {
                Some(n) => steps = Some(n),
                None => wrong("--curve wants a number of steps".into()),
            },
            a if a.starts_with("--") => wrong(format!("no option {a}")),
            _ => bench.names.push(arg),
        }
    }
    if let Some(name) = device.filter(|d| d != "cpu") {
        if let Err(e) = on_gpu(&name, bench, steps) {
            eprintln!("{e}");
            std::process::exit(1);
        }
        return;
    }
    if let Some(steps) = steps {
        if let Err(e) = curve::run(&gradus_core::Device::cpu(), steps) {
            eprintln!("{e}");
            std::process::exit(1);
        }
        return;
    }
    if draw > 0 {
        if !sweep {
            wrong("--draw is for --sweep".into());
        }
        bench.names.extend(sweep::any::names(seed, draw));
    }
    if sweep {
        bench.names = sweep::chosen(&bench.names);
    }
    let text = |e: gradus_core::Error| e.to_string();
    let done = match (sweep, against) {
        (true, true) => sweep::against(&bench.names, rounds),
        (true, false) => sweep::run(&bench.names, bench.profile).map_err(text),
        (false, true) => against::run(&bench.names, rounds),
        (false, false) => {
            limits::run(&bench);
            training::run(&bench).and_then(|()| ops::run(&bench)).map_err(text)
        }
    };
    if let Err(e) = done {
        eprintln!("{e}");
        std::process::exit(1);
    }
}

/// The GPU's own list of workloads.
fn on_gpu(name: &str, bench: Bench, curve: Option<u64>) -> gradus_core::Result<()> {
    use gradus_core::{Device, Error};
    use gradus_cuda::CudaDevice;
    if name == "dry" {
        return gpu::run(None, bench);
    }
    let number = match name.split_once(':').unwrap_or((name, "0")) {
        ("cuda", n) => n.parse::<usize>().ok(),
        _ => None,
    };
    let number =
        number.ok_or_else(|| Error::value("--device", format!("no device {name:?}; there are cuda:N and dry")))?;
    match curve {
        Some(steps) => curve::run(&Device::cuda(number)?, steps),
        None => gpu::run(Some(Device::cuda(number)?), bench),
    }
}
