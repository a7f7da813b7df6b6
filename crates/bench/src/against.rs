//! `--against torch`: every workload here and in PyTorch, taking turns, each in a process of its own.

use crate::limits;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

/// The workloads both sides have.
const WORK: [&str; 33] = [
    "sine",
    "mlp",
    "mlp_wide",
    "cnn",
    "resnet18",
    "gpt_small",
    "gpt_mid",
    "lstm",
    "resnet18_b1",
    "gpt_mid_b1",
    "matmul_64",
    "matmul_256",
    "matmul_512",
    "matmul_1024",
    "matmul_2048",
    "bmm",
    "matvec",
    "add_bcast",
    "chain",
    "gelu",
    "exp",
    "softmax",
    "layernorm",
    "sum_all",
    "sum_0",
    "sum_1",
    "transpose_copy",
    "conv3x3",
    "conv1x1",
    "maxpool",
    "embedding",
    "small_add",
    "grad_chain",
];

/// Runs PyTorch's script and says at the end how much memory it took.
const WRAPPER: &str = "import sys, runpy, resource
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
print('\"peak_kb\": %d' % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)";

/// One side's figures for a workload.
#[derive(Default)]
struct Side {
    ms: Vec<f64>,
    peak_kb: f64,
}

impl Side {
    fn note(&mut self, out: &str) -> Result<(), String> {
        let ms = number(out, "\"ms\": ").ok_or_else(|| format!("no figure in {out:?}"))?;
        self.ms.push(ms);
        self.peak_kb = self.peak_kb.max(number(out, "\"peak_kb\": ").unwrap_or(0.0));
        Ok(())
    }

    fn median(&self) -> f64 {
        crate::median(&self.ms)
    }
}

/// The number after a key, where it first stands.
fn number(text: &str, key: &str) -> Option<f64> {
    let rest = &text[text.find(key)? + key.len()..];
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".e-+".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn output(mut c: Command) -> Result<String, String> {
    let what = format!("{c:?}");
    let out = c.stderr(Stdio::inherit()).output().map_err(|e| format!("{what}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{what}: {}", out.status));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Prints the table: medians of `rounds` runs of each side, taking turns, and PyTorch's time over ours.
pub fn run(names: &[String], rounds: usize) -> Result<(), String> {
    let python = std::env::var_os("GRADUS_BENCH_PYTHON").ok_or(
        "set GRADUS_BENCH_PYTHON to a Python that has torch 2.11 (python3 -m venv; pip install torch==2.11.0)",
    )?;
    let script = std::env::var_os("GRADUS_BENCH_TORCH")
        .map_or_else(|| PathBuf::from("../shared/bench/torch_cpu.py"), PathBuf::from);
    if !script.is_file() {
        return Err(format!("no file {}: set GRADUS_BENCH_TORCH to PyTorch's side of the benchmark", script.display()));
    }
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    println!(
        "| work | PyTorch, ms | gradus, ms | bare loop, ms | PyTorch / gradus | PyTorch, MB | gradus, MB |\n|---|---|---|---|---|---|---|"
    );
    for name in WORK.iter().filter(|w| names.is_empty() || names.iter().any(|n| n == *w)) {
        let (mut theirs, mut ours, mut bare) = (Side::default(), Side::default(), Side::default());
        for _ in 0..rounds {
            let mut c = Command::new(&me);
            c.args(["--json", name]);
            ours.note(&output(c)?)?;
            if let Some(limit) = limits::of(name) {
                let mut c = Command::new(&me);
                c.args(["--json", limit]);
                bare.note(&output(c)?)?;
            }
            let mut c = Command::new(&python);
            c.args(["-c", WRAPPER]).arg(&script).arg(name);
            theirs.note(&output(c)?)?;
        }
        let (t, o) = (theirs.median(), ours.median());
        let mb = |s: &Side| s.peak_kb / 1024.0;
        let bare = if bare.ms.is_empty() { "-".into() } else { format!("{:.4}", bare.median()) };
        println!("| {name} | {t:.4} | {o:.4} | {bare} | {:.2} | {:.0} | {:.0} |", t / o, mb(&theirs), mb(&ours));
    }
    Ok(())
}

/// The most memory this process has held, in KiB; zero where the system does not say.
pub fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
