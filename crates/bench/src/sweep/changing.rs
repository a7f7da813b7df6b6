//! Another shape at every call: what it costs that a plan is made for a shape that none was made for. Sequences grow, the last batch is
//! short, images come as they are. Nothing is compiled.

use super::{Sweep, normal};
use crate::{
    models::{self, CnnShape, GptShape, Params, VOCAB},
    training::{cross_entropy, labels, made},
};
use gradus_core::{DType, Result, Tensor, no_grad};
use gradus_optim::{Adam, Optimizer};

/// More shapes than a case has calls.
const MOST: usize = 300;

/// The next extent.
fn next(n: &mut usize) -> usize {
    *n = *n % MOST + 1;
    *n
}

pub fn run(w: &Sweep) -> Result<()> {
    let (x, y, wide) = (normal(&[MOST, 40])?, normal(&[MOST, 40])?, normal(&[MOST, 784])?);
    let part = |x: &Tensor, n: &mut usize| -> Result<Tensor> { x.narrow(0, 0, next(n)) };
    let (mut n, mut k) = (0, 0);
    w.one("new_add", || no_grad(|| Ok(part(&x, &mut n)? + part(&y, &mut k)?)))?;
    w.one("new_softmax", || no_grad(|| part(&x, &mut n)?.softmax(0)))?;
    w.one("new_chain", || {
        no_grad(|| {
            let (x, y) = (part(&x, &mut n)?, y.select(0, 0)?);
            Ok((&x * &y + &y).tanh() * x.sigmoid() + &x * &x)
        })
    })?;
    w.one("new_matmul", || no_grad(|| part(&x, &mut n)?.matmul(&y.narrow(0, 0, 40)?)))?;
    let classes = labels(MOST * 2, 10)?;
    let mlp = |p: &mut Params| models::mlp(p, &[784, 300, 100, 10], Tensor::relu);
    network(w, "new_mlp", mlp, (&wide, &classes), 0)?;
    let images = normal(&[MOST, 1, 20, 20])?;
    let shape = CnnShape { inputs: 1, side: 20, channels: [8, 16], hidden: 50 };
    network(w, "new_cnn", |p| models::cnn(p, shape), (&images, &classes), 0)?;
    let tokens = made(Tensor::randint(0, VOCAB as i64, [2, MOST], DType::I64)?)?;
    let shape = GptShape { layers: 2, heads: 4, width: 128, block: MOST };
    network(w, "new_gpt", |p| models::gpt(p, shape), (&tokens, &classes), 1)
}

/// Inference and training on so many rows (or columns) as come next.
fn network(
    w: &Sweep,
    name: &str,
    model: impl Fn(&mut Params) -> Result<models::Forward>,
    (x, y): (&Tensor, &Tensor),
    axis: i64,
) -> Result<()> {
    let mut p = Params::default();
    let forward = model(&mut p)?;
    let mut n = 0;
    w.one(&format!("{name}_infer"), || no_grad(|| forward(&x.narrow(axis, 0, next(&mut n))?)))?;
    let mut opt = Adam::new(&p.all, 1e-3);
    n = 0;
    w.one(&format!("{name}_step"), || {
        let x = x.narrow(axis, 0, next(&mut n))?;
        let out = forward(&x)?;
        let rows = out.numel() / out.dims()[out.rank() - 1];
        let loss = cross_entropy(&out, &y.narrow(0, 0, rows)?)?;
        opt.step(&loss.backward()?)?;
        Ok(loss)
    })
}
