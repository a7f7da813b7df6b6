//! `--sweep`: many operations on odd, thin, small, sliced and turned shapes, in other types and of other widths: where a
//! cliff would show. `--sweep --against torch` takes turns at every case (`turns`) with `torch.py` and the other Python files, which have
//! the same lists, and prints PyTorch's time over ours, the worst first.

pub mod any;
mod calls;
mod changing;
mod elements;
mod layers;
mod shapes;
mod steps;
mod turns;
mod wide;

use gradus_core::{Result, Tensor, manual_seed};
use std::{process::Command, time::Instant};

/// PyTorch's side of it.
const TORCH: &str = concat!(
    include_str!("torch.py"),
    "\n\n",
    include_str!("wide.py"),
    "\n\n",
    include_str!("any.py"),
    "\n\n",
    include_str!("calls.py"),
    "\n\n",
    include_str!("changing.py"),
    "\n\n",
    include_str!("run.py")
);

/// Times cases and prints `name ms`.
pub struct Sweep {
    names: Vec<String>,
    /// Whether to say which steps the time goes to.
    profile: bool,
}

impl Sweep {
    /// Times what a case computes; names that were given are beginnings.
    fn time(&self, name: &str, mut f: impl FnMut() -> Result<Vec<Tensor>>) -> Result<()> {
        if !self.names.iter().any(|n| name.starts_with(n.as_str())) {
            return Ok(());
        }
        let mut run = || -> Result<f64> {
            let start = Instant::now();
            let out = f()?;
            Tensor::eval_all(&out.iter().collect::<Vec<_>>())?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        };
        for _ in 0..4 {
            run()?;
        }
        if self.profile {
            let (_, times) = gradus_core::plan::profile(|| (0..5).try_for_each(|_| run().map(drop)));
            eprintln!("{name}, five times:\n{times}");
        }
        let mut measure = || -> Result<f64> {
            // Whose turn it was not is asleep, with all of its threads.
            let start = Instant::now();
            while turns::asked() && start.elapsed() < turns::WAKING {
                run()?;
            }
            let (mut times, start) = (vec![], Instant::now());
            while times.len() < 5 || (times.len() < 200 && start.elapsed().as_secs_f64() < 0.06) {
                times.push(run()?);
            }
            Ok(crate::median(&times))
        };
        if turns::asked() {
            return turns::serve(name, measure);
        }
        println!("{name} {:.5}", measure()?);
        Ok(())
    }

    /// A case that makes one tensor.
    fn one(&self, name: &str, mut f: impl FnMut() -> Result<Tensor>) -> Result<()> {
        self.time(name, || f().map(|t| vec![t]))
    }

    /// The gradient of a sum, weighted by what the result is.
    fn gradient(&self, name: &str, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let v = Tensor::var("x", x);
        self.one(name, || f(&v)?.square().sum().backward()?.wrt(&v))
    }
}

/// Normal numbers, computed.
fn normal(shape: &[usize]) -> Result<Tensor> {
    let t = Tensor::randn(shape);
    t.eval()?;
    Ok(t)
}

/// What names stand for: beginnings in the list of calls become its names, no name at all becomes everything.
pub fn chosen(names: &[String]) -> Vec<String> {
    if names.is_empty() {
        // All other names begin with nothing.
        return std::iter::once(String::new()).chain(calls::names("")).collect();
    }
    let expand = |n: &String| match calls::is_case(n) && !n.ends_with(')') {
        true => calls::names(n),
        false => vec![n.clone()],
    };
    names.iter().flat_map(expand).collect()
}

/// Runs the cases whose names begin so.
pub fn run(names: &[String], profile: bool) -> Result<()> {
    manual_seed(0);
    let sweep = Sweep { names: names.to_vec(), profile };
    // Cases that are their names, and those whose names begin so.
    let (named, listed): (Vec<&String>, Vec<&String>) =
        names.iter().partition(|n| any::is_case(n) || calls::is_case(n));
    if !listed.is_empty() {
        gradus_core::no_grad(|| elements::run(&sweep))?;
        layers::run(&sweep)?;
        shapes::run(&sweep)?;
        steps::run(&sweep)?;
        wide::run(&sweep)?;
        changing::run(&sweep)?;
    }
    for name in named {
        match any::is_case(name) {
            true => any::run(&sweep, name)?,
            false => calls::run(&sweep, name)?,
        }
    }
    Ok(())
}

/// Both sides in turns, case by case, `rounds` times and more where ours is behind; the table of the ratios, the worst first.
pub fn against(names: &[String], rounds: usize) -> std::result::Result<(), String> {
    let python = std::env::var_os("GRADUS_BENCH_PYTHON").ok_or(
        "set GRADUS_BENCH_PYTHON to a Python that has torch 2.11 (python3 -m venv; pip install torch==2.11.0)",
    )?;
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut ours = Command::new(&me);
    ours.arg("--sweep").args(names);
    let mut theirs = Command::new(&python);
    theirs.args(["-c", TORCH]).args(names);
    let mut rows = turns::take(turns::Side::start(ours)?, turns::Side::start(theirs)?, rounds)?;
    rows.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    println!("| case | PyTorch, ms | gradus, ms | PyTorch / gradus | core to core, ns |\n|---|---|---|---|---|");
    for turns::Timed { name, theirs, ours, ratio, distance } in &rows {
        let distance = distance.map_or("-".into(), |ns| format!("{ns:.0}"));
        println!("| {name} | {theirs:.4} | {ours:.4} | {ratio:.2} | {distance} |");
    }
    let behind = rows.iter().filter(|r| r.ratio < 1.0).count();
    let median = rows.get(rows.len() / 2).map_or(f64::NAN, |r| r.ratio);
    println!("\n{} cases, {behind} behind PyTorch, median ratio {median:.2}", rows.len());
    Ok(())
}
