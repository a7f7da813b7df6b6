//! `scaling`: the scalar engine against tensors, on the same training step.

use super::{fail::Done, json::Json, out::Out, plot::Plot};
use clap::ArgMatches;
use gradus::{
    Result, Tensor, manual_seed,
    nn::{Layer, Linear, Module, Sequential, Tanh},
    optim::{Optimizer, Sgd},
    scalar::{self, Value},
};
use std::{path::PathBuf, process::ExitCode, time::Instant};

const HIDDEN: usize = 64;

/// The median time of a step in milliseconds, over at least `least` of them and about a second.
fn median(least: usize, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    step()?;
    let mut times = vec![];
    let start = Instant::now();
    while times.len() < least || (times.len() < 100 && start.elapsed().as_secs_f64() < 1.0) {
        let t = Instant::now();
        step()?;
        times.push(t.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn point(i: usize, n: usize) -> f64 {
    (i as f64 / n as f64 - 0.5) * std::f64::consts::TAU
}

/// One step of fitting a sine with a network 1-64-1, one scalar a node; and how many nodes that makes.
fn scalars(n: usize) -> Result<(f64, usize)> {
    let first = |i: usize| (i as f64 * 0.7).sin() * 0.5;
    let mut weights: Vec<f64> = (0..3 * HIDDEN + 1).map(first).collect();
    let mut nodes = 0;
    let ms = median(3, || {
        let vars: Vec<Value> = weights.iter().map(|&w| scalar::var("w", w)).collect();
        let (w1, rest) = vars.split_at(HIDDEN);
        let (b1, rest) = rest.split_at(HIDDEN);
        let (w2, b2) = rest.split_at(HIDDEN);
        let error = |i: usize| {
            let x = point(i, n);
            let hidden = w1.iter().zip(b1).map(|(w, b)| (w * x + b).tanh());
            let y: Value = hidden.zip(w2).map(|(h, w)| h * w).sum::<Value>() + &b2[0];
            let e = y - x.sin();
            &e * &e
        };
        let loss: Value = (0..n).map(error).sum::<Value>() * (1.0 / n as f64);
        let grads = loss.backward();
        for (w, v) in weights.iter_mut().zip(&vars) {
            *w -= 0.01 * grads.wrt(v).unwrap_or(0.0);
        }
        nodes = scalar::live_nodes();
        Ok(())
    })?;
    Ok((ms, nodes))
}

/// The same step with tensors.
fn tensors(n: usize) -> Result<f64> {
    manual_seed(0);
    let model = Sequential::from((Linear::new(1, HIDDEN), Tanh, Linear::new(HIDDEN, 1)));
    let x: Vec<f32> = (0..n).map(|i| point(i, n) as f32).collect();
    let x = Tensor::from_slice(&x, [n, 1])?;
    let y = x.sin();
    y.eval()?;
    let mut opt = Sgd::new(&model.parameters(), 0.01);
    median(5, || {
        let loss = (model.forward(&x)? - &y).square().mean();
        opt.step(&loss.backward()?)?;
        loss.item::<f32>().map(drop)
    })
}

/// `gradus scaling`
pub fn run(m: &ArgMatches, out: &Out) -> Done {
    let points: Vec<usize> = m.get_many::<usize>("points").map_or(vec![100, 1000, 10_000], |p| p.copied().collect());
    out.say("A training step of a network 1-64-1 on a sine, in milliseconds (medians):\n");
    out.say(format!("{:>9} {:>12} {:>12} {:>10} {:>12}", "points", "scalars", "tensors", "ratio", "nodes"));
    let mut rows = vec![];
    for &n in &points {
        let ((scalar, nodes), tensor) = (scalars(n)?, tensors(n)?);
        out.say(format!("{n:>9} {scalar:>12.3} {tensor:>12.3} {:>9.0}x {nodes:>12}", scalar / tensor));
        rows.push((n, scalar, tensor, nodes));
    }
    let line = |f: fn(&(usize, f64, f64, usize)) -> f64| rows.iter().map(|r| (r.0 as f64, f(r))).collect::<Vec<_>>();
    let plot = Plot {
        title: "ms a step over points, both by powers of ten".into(),
        x_label: "points".into(),
        y_label: "ms a step".into(),
        log: true,
        series: vec![("scalars".into(), line(|r| r.1)), ("tensors".into(), line(|r| r.2))],
    };
    out.say(format!("\n{}", plot.text(60, 12)));
    if let Some(path) = m.get_one::<PathBuf>("out") {
        plot.save(path)?;
        out.say(format!("drew {}", path.display()));
    }
    let row = |r: &(usize, f64, f64, usize)| {
        Json::object([
            ("points", r.0.into()),
            ("scalar_ms", r.1.into()),
            ("tensor_ms", Json::from(r.2)),
            ("nodes", r.3.into()),
        ])
    };
    out.finish(Json::object([("scaling", Json::List(rows.iter().map(row).collect()))]));
    Ok(ExitCode::SUCCESS)
}
