//! Training steps and inference.

use crate::{
    Bench,
    models::{self, Forward, GptShape, Params, VOCAB},
};
use gradus_core::{DType, Reduction, Result, Tensor, no_grad};
use gradus_optim::{Adam, Optimizer, Sgd};

type Loss = fn(&Tensor, &Tensor) -> Result<Tensor>;

fn cross_entropy(y: &Tensor, labels: &Tensor) -> Result<Tensor> {
    y.view([-1, y.dims()[y.rank() - 1] as i64])?.cross_entropy(labels)
}

fn mse(y: &Tensor, target: &Tensor) -> Result<Tensor> {
    y.mse_loss(target, Reduction::Mean)
}

fn made(t: Tensor) -> Result<Tensor> {
    t.eval()?;
    Ok(t)
}

fn labels(n: usize, classes: usize) -> Result<Tensor> {
    made(Tensor::randint(0, classes as i64, [n], DType::I64)?)
}

/// One step: forward, loss, backward, update, and the loss read back.
fn train(
    bench: &Bench,
    name: &str,
    model: Forward,
    (x, y): (Tensor, Tensor),
    loss: Loss,
    mut optimizer: impl Optimizer,
) {
    let mut step = || -> Result<f32> {
        let l = loss(&model(&x)?, &y)?;
        optimizer.step(&l.backward()?)?;
        l.item::<f32>()
    };
    bench.time(name, || {
        if let Err(e) = step() {
            eprintln!("{name}: {e}");
            std::process::exit(1);
        }
    });
}

fn infer(bench: &Bench, name: &str, model: Forward, x: Tensor) {
    bench.time(name, || {
        if let Err(e) = no_grad(|| model(&x)?.to_vec::<f32>()) {
            eprintln!("{name}: {e}");
            std::process::exit(1);
        }
    });
}

const SMALL: GptShape = GptShape { layers: 4, heads: 4, width: 128, block: 64 };
const MID: GptShape = GptShape { layers: 6, heads: 6, width: 384, block: 256 };

/// All of them.
pub fn run(bench: &Bench) -> Result<()> {
    if bench.wants("sine") {
        let mut p = Params::default();
        let m = models::mlp(&mut p, &[1, 64, 1], Tensor::relu)?;
        let data = (made(Tensor::randn([1000, 1]))?, made(Tensor::randn([1000, 1]))?);
        train(bench, "sine", m, data, mse, Sgd::new(&p.all, 0.01));
    }
    if bench.wants("mlp") {
        let mut p = Params::default();
        let m = models::mlp(&mut p, &[784, 128, 64, 10], |x| x.leaky_relu(0.1))?;
        let data = (made(Tensor::randn([64, 784]))?, labels(64, 10)?);
        let sgd = Sgd::new(&p.all, 1e-3).momentum(0.9).weight_decay(0.02);
        train(bench, "mlp", m, data, cross_entropy, sgd);
    }
    if bench.wants("mlp_wide") {
        let mut p = Params::default();
        let m = models::mlp(&mut p, &[784, 1024, 1024, 10], Tensor::relu)?;
        let data = (made(Tensor::randn([256, 784]))?, labels(256, 10)?);
        train(bench, "mlp_wide", m, data, cross_entropy, Adam::new(&p.all, 1e-3));
    }
    if bench.wants("cnn") {
        let mut p = Params::default();
        let m = models::cnn(&mut p)?;
        let data = (made(Tensor::randn([64, 1, 28, 28]))?, labels(64, 10)?);
        train(bench, "cnn", m, data, cross_entropy, Adam::new(&p.all, 1e-3));
    }
    if bench.wants("resnet18") {
        let mut p = Params::default();
        let m = models::resnet18(&mut p, true)?;
        let data = (made(Tensor::randn([32, 3, 32, 32]))?, labels(32, 10)?);
        train(bench, "resnet18", m, data, cross_entropy, Sgd::new(&p.all, 0.1).momentum(0.9));
    }
    for (name, shape, batch) in [("gpt_small", SMALL, 12), ("gpt_mid", MID, 4)] {
        if bench.wants(name) {
            let mut p = Params::default();
            let m = models::gpt(&mut p, shape)?;
            let x = made(Tensor::randint(0, VOCAB as i64, [batch, shape.block], DType::I64)?)?;
            let data = (x, labels(batch * shape.block, VOCAB)?);
            train(bench, name, m, data, cross_entropy, Adam::new(&p.all, 1e-3).decoupled(0.01));
        }
    }
    if bench.wants("lstm") {
        let mut p = Params::default();
        let m = models::lstm(&mut p, 64, 128)?;
        let data = (made(Tensor::randn([32, 64, 64]))?, labels(32, 10)?);
        train(bench, "lstm", m, data, cross_entropy, Adam::new(&p.all, 1e-3));
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
