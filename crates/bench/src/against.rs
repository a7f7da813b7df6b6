//! `--against torch`: every workload here and in PyTorch, taking turns, each in a process of its own.

use crate::{limits, phase};
use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The workloads both sides have.
const WORK: [&str; 34] = [
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
    "small_add_50",
    "grad_chain",
];

/// Runs PyTorch's script, and a chain of small additions that is read at its end, which the script has not; says at the end how much
/// memory it took.
const WRAPPER: &str = "import sys, runpy, resource
sys.argv = sys.argv[1:]
made = runpy.run_path(sys.argv[0], run_name='__main__')
if 'small_add_50' in sys.argv:
    import torch
    x, y = torch.randn(8), torch.randn(8)
    def chain():
        z = x
        for _ in range(50):
            z = z + y
        return z.tolist()
    made['timed']('small_add_50', chain)
print('\"peak_kb\": %d' % resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)";

/// Turns that may be taken again, for each round.
const SPARE: usize = 3;

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

    /// The figure of the last turn.
    fn last(&self) -> f64 {
        self.ms.last().copied().unwrap_or(f64::NAN)
    }

    /// Leaves the last turn out.
    fn forget(&mut self) {
        self.ms.pop();
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

/// Prints the table: medians of `rounds` runs of each side, taking turns, and the median of PyTorch's time over ours. A turn in which the cores
/// moved (`phase`) is taken again.
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
        "| work | PyTorch, ms | gradus, ms | bare loop, ms | PyTorch / gradus | core to core, ns | PyTorch, MB | gradus, MB |\n|---|---|---|---|---|---|---|---|"
    );
    for name in WORK.iter().filter(|w| names.is_empty() || names.iter().any(|n| n == *w)) {
        let (mut theirs, mut ours, mut bare) = (Side::default(), Side::default(), Side::default());
        let (mut ratios, mut distances) = (vec![], vec![]);
        let mut spare = SPARE * rounds;
        while ratios.len() < rounds {
            let mut distance: Vec<f64> = phase::latency().into_iter().collect();
            let mut turn = |side: &mut Side, program: &OsStr, args: &[&OsStr]| -> Result<(), String> {
                let mut c = Command::new(program);
                c.args(args);
                side.note(&output(c)?)?;
                distance.extend(phase::latency());
                Ok(())
            };
            turn(&mut ours, me.as_os_str(), &["--json".as_ref(), name.as_ref()])?;
            let limit = limits::of(name);
            if let Some(limit) = limit {
                turn(&mut bare, me.as_os_str(), &["--json".as_ref(), limit.as_ref()])?;
            }
            turn(&mut theirs, &python, &["-c".as_ref(), WRAPPER.as_ref(), script.as_os_str(), name.as_ref()])?;
            // Figures of two phases say nothing of each other: both sides go again.
            if !phase::same(&distance) && spare > 0 {
                spare -= 1;
                [Some(&mut ours), Some(&mut theirs), limit.map(|_| &mut bare)]
                    .into_iter()
                    .flatten()
                    .for_each(Side::forget);
                continue;
            }
            ratios.push(theirs.last() / ours.last());
            distances.extend(distance);
        }
        let (t, o, ratio) = (theirs.median(), ours.median(), crate::median(&ratios));
        let mb = |s: &Side| s.peak_kb / 1024.0;
        let bare = if bare.ms.is_empty() { "-".into() } else { format!("{:.4}", bare.median()) };
        let mixed = if phase::same(&distances) { "" } else { " mixed" };
        let distance =
            if distances.is_empty() { "-".into() } else { format!("{:.0}{mixed}", crate::median(&distances)) };
        println!(
            "| {name} | {t:.4} | {o:.4} | {bare} | {ratio:.2} | {distance} | {:.0} | {:.0} |",
            mb(&theirs),
            mb(&ours)
        );
    }
    Ok(())
}

/// The most memory this process has held, in KiB; zero where the system does not say.
pub fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
