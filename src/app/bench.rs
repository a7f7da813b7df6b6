//! `bench`: a few operations, timed here.

use super::{
    fail::{Done, Failure},
    json::Json,
    out::Out,
};
use clap::ArgMatches;
use gradus::{
    AttentionOptions, ConvOptions, DType, Result, Tensor, manual_seed,
    nn::{Layer, Linear, Module, Relu, Sequential},
    optim::{Adam, Optimizer},
};
use std::{process::ExitCode, time::Instant};

/// An operation, and what one run of it amounts to: arithmetic, or bytes read and written.
struct Bench {
    name: &'static str,
    work: f64,
    unit: &'static str,
    make: fn() -> Result<Step>,
}

type Step = Box<dyn FnMut() -> Result<()>>;

fn ready(tensors: &[&Tensor]) -> Result<()> {
    Tensor::eval_all(tensors)
}

/// Everything is computed anew each time: a tensor that has a value is not run again.
fn benches() -> Vec<Bench> {
    const N: usize = 1024;
    let cube = 2.0 * (N as f64).powi(3);
    vec![
        Bench {
            name: "matmul 1024",
            work: cube / 1e9,
            unit: "GFLOP/s",
            make: || {
                let (a, b) = (Tensor::randn([N, N]), Tensor::randn([N, N]));
                ready(&[&a, &b])?;
                Ok(Box::new(move || a.matmul(&b)?.eval().map(drop)))
            },
        },
        Bench {
            name: "elementwise chain 4M",
            work: 2.0 * 4.0 * 4.194304e6 / 1e9,
            unit: "GB/s",
            make: || {
                let x = Tensor::randn([2048, 2048]);
                ready(&[&x])?;
                Ok(Box::new(move || ((&x * 0.5 + 1.0).tanh() * x.sigmoid() + x.square()).eval().map(drop)))
            },
        },
        Bench {
            name: "softmax [4096, 1024]",
            work: 2.0 * 4.0 * 4.194304e6 / 1e9,
            unit: "GB/s",
            make: || {
                let x = Tensor::randn([4096, 1024]);
                ready(&[&x])?;
                Ok(Box::new(move || x.softmax(-1)?.eval().map(drop)))
            },
        },
        Bench {
            name: "sum 16M",
            work: 4.0 * 16.777216e6 / 1e9,
            unit: "GB/s",
            make: || {
                let x = Tensor::randn([4096, 4096]);
                ready(&[&x])?;
                Ok(Box::new(move || x.sum().eval().map(drop)))
            },
        },
        Bench {
            name: "conv2d 64x64 3x3 of [8, 64, 56, 56]",
            work: 2.0 * 8.0 * 64.0 * 64.0 * 9.0 * 56.0 * 56.0 / 1e9,
            unit: "GFLOP/s",
            make: || {
                let (x, w) = (Tensor::randn([8, 64, 56, 56]), Tensor::randn([64, 64, 3, 3]));
                ready(&[&x, &w])?;
                Ok(Box::new(move || {
                    x.conv2d(&w, None, ConvOptions { padding: 1.into(), ..ConvOptions::default() })?.eval().map(drop)
                }))
            },
        },
        Bench {
            name: "attention [4, 8, 256, 64]",
            work: 4.0 * 4.0 * 8.0 * 256.0 * 256.0 * 64.0 / 1e9,
            unit: "GFLOP/s",
            make: || {
                let (q, k, v) =
                    (Tensor::randn([4, 8, 256, 64]), Tensor::randn([4, 8, 256, 64]), Tensor::randn([4, 8, 256, 64]));
                ready(&[&q, &k, &v])?;
                Ok(Box::new(move || {
                    q.scaled_dot_product_attention(&k, &v, &AttentionOptions::default())?.eval().map(drop)
                }))
            },
        },
        Bench {
            name: "training step, MLP 784-256-128-10, batch 64",
            work: 6.0 * 64.0 * 234_752.0 / 1e9,
            unit: "GFLOP/s",
            make: || {
                let model =
                    Sequential::from((Linear::new(784, 256), Relu, Linear::new(256, 128), Relu, Linear::new(128, 10)));
                let (x, y) = (Tensor::randn([64, 784]), Tensor::randint(0, 10, [64], DType::I64)?);
                ready(&[&x, &y])?;
                let mut opt = Adam::new(&model.parameters(), 1e-3);
                Ok(Box::new(move || {
                    let loss = model.forward(&x)?.cross_entropy(&y)?;
                    opt.step(&loss.backward()?)
                }))
            },
        },
    ]
}

/// `gradus bench`
pub fn run(m: &ArgMatches, out: &Out) -> Done {
    let names: Vec<&String> = m.get_many("NAME").into_iter().flatten().collect();
    let seconds = m.get_one::<f64>("seconds").copied().unwrap_or(1.0);
    let wanted = |b: &Bench| names.is_empty() || names.iter().any(|n| b.name.contains(n.as_str()));
    let chosen: Vec<Bench> = benches().into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        let all: Vec<&str> = benches().iter().map(|b| b.name).collect();
        return Err(Failure::Usage(format!("no benchmark has this in its name; there are: {}", all.join("; "))));
    }
    out.say(format!("{:44} {:>10} {:>10} {:>16}", "", "median ms", "least ms", "at the median"));
    let mut rows = vec![];
    for b in &chosen {
        manual_seed(0);
        let mut step = (b.make)()?;
        for _ in 0..3 {
            step()?;
        }
        let (mut times, start) = (vec![], Instant::now());
        while times.len() < 5 || start.elapsed().as_secs_f64() < seconds {
            let t = Instant::now();
            step()?;
            times.push(t.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let (median, least) = (times[times.len() / 2], times[0]);
        let rate = b.work / (median / 1e3);
        out.say(format!("{:44} {median:>10.3} {least:>10.3} {rate:>8.1} {:7}", b.name, b.unit));
        rows.push(Json::object([
            ("name", b.name.into()),
            ("median_ms", Json::from(median)),
            ("min_ms", least.into()),
            ("rate", rate.into()),
            ("unit", b.unit.into()),
            ("runs", times.len().into()),
        ]));
    }
    out.finish(Json::object([("bench", Json::List(rows))]));
    Ok(ExitCode::SUCCESS)
}
