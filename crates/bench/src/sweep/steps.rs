//! Whole training steps of other widths, lengths and batches, compiled, with Adam; and networks that answer for one input.

use super::{Sweep, normal};
use crate::{
    models::{self, CnnShape, Forward, GptShape, Params, VOCAB},
    training::{cross_entropy, labels, made, step},
};
use gradus_core::{DType, Result, Tensor, compile, no_grad};
use gradus_nn::{Gru, Module, RnnOptions};
use gradus_optim::Adam;

pub fn run(w: &Sweep) -> Result<()> {
    for (sizes, batch) in [
        (&[20usize, 64, 10][..], 1usize),
        (&[20, 64, 10], 100),
        (&[784, 300, 100, 10], 32),
        (&[100, 500, 500, 500, 10], 1000),
        (&[3072, 2000, 10], 100),
    ] {
        let name = format!("{}x{batch}", sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("_"));
        pair(w, &format!("mlp_{name}"), |p| models::mlp(p, sizes, Tensor::relu), images(&[batch, sizes[0]]))?;
    }
    for (inputs, side, channels, batch) in
        [(3, 32, [16, 48], 16), (1, 45, [24, 24], 8), (3, 64, [8, 100], 1), (5, 20, [130, 70], 33)]
    {
        let shape = CnnShape { inputs, side, channels, hidden: 100 };
        let name = format!("cnn_{inputs}_{side}_{}_{}x{batch}", channels[0], channels[1]);
        pair(w, &name, |p| models::cnn(p, shape), images(&[batch, inputs, side, side]))?;
    }
    for (layers, heads, width, block, batch) in
        [(2, 3, 96, 50, 7), (2, 8, 256, 128, 8), (2, 2, 64, 17, 1), (3, 5, 320, 200, 3), (1, 12, 768, 64, 2)]
    {
        let shape = GptShape { layers, heads, width, block };
        let x = made(Tensor::randint(0, VOCAB as i64, [batch, block], DType::I64)?)?;
        let name = format!("gpt_{layers}_{heads}_{width}_{block}x{batch}");
        pair(w, &name, |p| models::gpt(p, shape), Ok((x, labels(batch * block, VOCAB)?)))?;
    }
    for (input, hidden, time, batch) in [(10, 50, 30, 8), (128, 256, 32, 64), (33, 100, 100, 1), (64, 512, 20, 16)] {
        let name = |kind: &str| format!("{kind}_{input}_{hidden}_{time}x{batch}");
        pair(w, &name("lstm"), |p| models::lstm(p, input, hidden), images(&[batch, time, input]))?;
        pair(w, &name("gru"), |p| gru(p, input, hidden), images(&[batch, time, input]))?;
    }
    Ok(())
}

fn images(shape: &[usize]) -> Result<(Tensor, Tensor)> {
    Ok((normal(shape)?, labels(shape[0], 10)?))
}

/// A GRU and a linear layer on its last step.
pub fn gru(p: &mut Params, input: usize, hidden: usize) -> Result<Forward> {
    let gru = Gru::with(input, hidden, RnnOptions { batch_first: true, ..Default::default() })?;
    p.all.extend(gru.parameters());
    let head = p.linear(hidden, 10)?;
    Ok(Box::new(move |x| head.forward(&gru.forward(x, None)?.0.select(1, -1)?)))
}

/// A forward pass, and a step of training.
fn pair(
    w: &Sweep,
    name: &str,
    model: impl Fn(&mut Params) -> Result<Forward>,
    data: Result<(Tensor, Tensor)>,
) -> Result<()> {
    let data = data?;
    both(w, &format!("infer_{name}"), "infer", &model, Ok(data.clone()))?;
    both(w, &format!("step_{name}"), "step", &model, Ok(data))
}

/// One of the two.
pub fn both(
    w: &Sweep,
    name: &str,
    how: &str,
    model: impl Fn(&mut Params) -> Result<Forward>,
    data: Result<(Tensor, Tensor)>,
) -> Result<()> {
    let data = data?;
    let mut p = Params::default();
    let forward = model(&mut p)?;
    if how == "infer" {
        let mut infer = compile(|_: &mut (), [x]: [&Tensor; 1]| forward(x));
        return w.time(name, || no_grad(|| infer.call(&mut (), [&data.0])).map(|y| vec![y]));
    }
    let mut step = step(forward, data, cross_entropy, Box::new(Adam::new(&p.all, 1e-3)), true);
    w.time(name, || step().map(|l| vec![l]))
}
