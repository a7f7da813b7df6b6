//! Training steps and inference.

use crate::{
    Bench,
    models::{self, CnnShape, Forward, GptShape, Params, VOCAB},
};
use gradus_core::{DType, Error, Reduction, Result, Tensor, compile, no_grad};
use gradus_optim::{Adam, Optimizer, Sgd};

/// What a step makes smaller.
pub type Loss = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Of the last axis, for all others as one.
pub fn cross_entropy(y: &Tensor, labels: &Tensor) -> Result<Tensor> {
    y.view([-1, y.dims()[y.rank() - 1] as i64])?.cross_entropy(labels)
}

fn mse(y: &Tensor, target: &Tensor) -> Result<Tensor> {
    y.mse_loss(target, Reduction::Mean)
}

/// A tensor, computed.
pub fn made(t: Tensor) -> Result<Tensor> {
    t.eval()?;
    Ok(t)
}

/// Random classes.
pub fn labels(n: usize, classes: usize) -> Result<Tensor> {
    made(Tensor::randint(0, classes as i64, [n], DType::I64)?)
}

/// A training workload.
pub struct Work {
    step: Box<dyn FnMut() -> Result<Tensor>>,
    /// What it trains.
    #[cfg(test)]
    params: Vec<Tensor>,
}

impl Work {
    /// One step: forward, loss, backward, update, and the loss read back.
    pub fn step(&mut self) -> Result<f32> {
        (self.step)()?.item::<f32>()
    }
}

fn train(bench: &Bench, name: &str) -> Result<()> {
    let mut work = training(name, !bench.plain)?;
    bench.time(name, || {
        if let Err(e) = work.step() {
            eprintln!("{name}: {e}");
            std::process::exit(1);
        }
    });
    Ok(())
}

fn infer(bench: &Bench, name: &str, model: Forward, x: Tensor) {
    let mut compiled = compile(|_: &mut (), [x]: [&Tensor; 1]| model(x));
    bench.time(name, || {
        let y = no_grad(|| if bench.plain { model(&x) } else { compiled.call(&mut (), [&x]) });
        if let Err(e) = y.and_then(|y| y.to_vec::<f32>()) {
            eprintln!("{name}: {e}");
            std::process::exit(1);
        }
    });
}

const CNN: CnnShape = CnnShape { inputs: 1, side: 28, channels: [32, 64], hidden: 128 };
const SMALL: GptShape = GptShape { layers: 4, heads: 4, width: 128, block: 64 };
const MID: GptShape = GptShape { layers: 6, heads: 6, width: 384, block: 256 };

/// The training workloads.
pub const TRAINING: [&str; 8] = ["sine", "mlp", "mlp_wide", "cnn", "resnet18", "gpt_small", "gpt_mid", "lstm"];

/// One of [`TRAINING`], freshly made; its step is compiled, or plain.
pub fn training(name: &str, compiled: bool) -> Result<Work> {
    let p = &mut Params::default();
    let images =
        |shape: &[usize]| -> Result<(Tensor, Tensor)> { Ok((made(Tensor::randn(shape))?, labels(shape[0], 10)?)) };
    let (model, data, loss): (Forward, (Tensor, Tensor), Loss) = match name {
        "sine" => {
            let data = (made(Tensor::randn([1000, 1]))?, made(Tensor::randn([1000, 1]))?);
            (models::mlp(p, &[1, 64, 1], Tensor::relu)?, data, mse)
        }
        "mlp" => (models::mlp(p, &[784, 128, 64, 10], |x| x.leaky_relu(0.1))?, images(&[64, 784])?, cross_entropy),
        "mlp_wide" => (models::mlp(p, &[784, 1024, 1024, 10], Tensor::relu)?, images(&[256, 784])?, cross_entropy),
        "cnn" => (models::cnn(p, CNN)?, images(&[64, 1, 28, 28])?, cross_entropy),
        "resnet18" => (models::resnet18(p, true)?, images(&[32, 3, 32, 32])?, cross_entropy),
        "gpt_small" | "gpt_mid" => {
            let (shape, batch) = if name == "gpt_small" { (SMALL, 12) } else { (MID, 4) };
            let x = made(Tensor::randint(0, VOCAB as i64, [batch, shape.block], DType::I64)?)?;
            (models::gpt(p, shape)?, (x, labels(batch * shape.block, VOCAB)?), cross_entropy)
        }
        "lstm" => (models::lstm(p, 64, 128)?, images(&[32, 64, 64])?, cross_entropy),
        _ => return Err(Error::value("training", format!("no workload {name:?}; there are {TRAINING:?}"))),
    };
    let params = std::mem::take(&mut p.all);
    let optimizer: Box<dyn Optimizer> = match name {
        "sine" => Box::new(Sgd::new(&params, 0.01)),
        "mlp" => Box::new(Sgd::new(&params, 1e-3).momentum(0.9).weight_decay(0.02)),
        "resnet18" => Box::new(Sgd::new(&params, 0.1).momentum(0.9)),
        "gpt_small" | "gpt_mid" => Box::new(Adam::new(&params, 1e-3).decoupled(0.01)),
        _ => Box::new(Adam::new(&params, 1e-3)),
    };
    Ok(Work {
        step: step(model, data, loss, optimizer, compiled),
        #[cfg(test)]
        params,
    })
}

/// Forward, loss, backward and update.
pub fn step(
    model: Forward,
    (x, y): (Tensor, Tensor),
    loss: Loss,
    mut optimizer: Box<dyn Optimizer>,
    compiled: bool,
) -> Box<dyn FnMut() -> Result<Tensor>> {
    let step = move |optimizer: &mut Box<dyn Optimizer>, [x, y]: [&Tensor; 2]| {
        let l = loss(&model(x)?, y)?;
        optimizer.step(&l.backward()?)?;
        Ok(l)
    };
    if compiled {
        let mut step = compile(step);
        Box::new(move || step.call(&mut optimizer, [&x, &y]))
    } else {
        Box::new(move || step(&mut optimizer, [&x, &y]))
    }
}

/// All of them.
pub fn run(bench: &Bench) -> Result<()> {
    for name in TRAINING.into_iter().filter(|name| bench.wants(name)) {
        train(bench, name)?;
    }
    if bench.wants("resnet18_b1") {
        let m = models::resnet18(&mut Params::default(), false)?;
        infer(bench, "resnet18_b1", m, made(Tensor::randn([1, 3, 32, 32]))?);
    }
    if bench.wants("gpt_mid_b1") {
        let m = models::gpt(&mut Params::default(), MID)?;
        let x = made(Tensor::randint(0, VOCAB as i64, [1, MID.block], DType::I64)?)?;
        infer(bench, "gpt_mid_b1", m, x);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The losses and all parameters after six steps: in a compiled step, three of these are replays.
    fn trained(name: &str, threads: usize, compiled: bool) -> Vec<Vec<u8>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            gradus_core::manual_seed(7);
            let mut work = training(name, compiled).unwrap();
            let losses: Vec<_> = (0..6).map(|_| work.step().unwrap().to_ne_bytes().to_vec()).collect();
            losses.into_iter().chain(work.params.iter().map(|p| p.to_bytes().unwrap())).collect()
        })
    }

    #[test]
    fn training_gives_the_same_bits_on_any_number_of_threads_compiled_or_not() {
        let _alone = crate::allocations::alone();
        for name in ["cnn", "gpt_small", "lstm"] {
            let one = trained(name, 1, false);
            for threads in [1, 2, 4, 8] {
                assert!(trained(name, threads, true) == one, "{name} on {threads} threads");
            }
        }
    }
}
