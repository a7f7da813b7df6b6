//! Operations and gradients of the user's own, and checkpoints.

use gradus_core::{
    DType, Error, Result, Shape, Tensor,
    grad::{GradcheckOptions, checkpoint, custom_vjp, gradcheck_with, vmap},
    manual_seed, no_grad,
    op::{Array, CustomOp},
};
use std::sync::Arc;

/// `x^3` in a loop of its own.
struct Cube;

impl CustomOp for Cube {
    fn name(&self) -> &str {
        "cube"
    }
    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)> {
        match inputs {
            [(shape, DType::F64)] => Ok(((*shape).clone(), DType::F64)),
            _ => Err(Error::value("cube", format!("takes one f64 tensor, not {}", inputs.len()))),
        }
    }
    fn forward(&self, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
        let x = inputs[0].as_slice::<f64>().unwrap();
        for (o, x) in out.chunks_exact_mut(8).zip(x) {
            o.copy_from_slice(&(x * x * x).to_ne_bytes());
        }
        Ok(())
    }
    fn vjp(&self, g: &Tensor, _: &Tensor, x: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(g * x[0].square() * 3.0)])
    }
}

/// As many gradients as its field says, of two inputs; the first is `a + b`.
struct Odd(Vec<bool>);

impl CustomOp for Odd {
    fn name(&self) -> &str {
        "odd"
    }
    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)> {
        Ok((inputs[0].0.clone(), inputs[0].1))
    }
    fn forward(&self, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(inputs[0].bytes);
        Ok(())
    }
    fn vjp(&self, g: &Tensor, _: &Tensor, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(self.0.iter().map(|&there| there.then(|| g.clone())).collect())
    }
}

/// An operation that says nothing of its gradient.
struct Opaque;

impl CustomOp for Opaque {
    fn name(&self) -> &str {
        "opaque_thing"
    }
    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)> {
        Ok((inputs[0].0.clone(), inputs[0].1))
    }
    fn forward(&self, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(inputs[0].bytes);
        Ok(())
    }
}

const TWICE: GradcheckOptions = GradcheckOptions { order: 2, eps: 1e-5, atol: 1e-6, rtol: 1e-5 };

#[test]
fn custom_operations() {
    let x = Tensor::from([[0.5f64, -1.5], [2.0, 0.25]]);
    let y = Tensor::custom(Arc::new(Cube), &[&x.t().unwrap()]).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [0.125, 8.0, -3.375, 0.015625]);
    gradcheck_with(|x| Tensor::custom(Arc::new(Cube), &[&(&x[0] * 2.0)]), &[&x], &TWICE).unwrap();

    // It knows no batches, so vmap calls it for each example; gradients go through.
    let each = |x: &[Tensor]| vmap(|r| Tensor::custom(Arc::new(Cube), &[&r[0]]), &[&x[0]], &[Some(1)], 1);
    assert_eq!(each(std::slice::from_ref(&x)).unwrap().to_vec::<f64>().unwrap(), [0.125, -3.375, 8.0, 0.015625]);
    gradcheck_with(each, &[&x], &TWICE).unwrap();

    let text = |r: Result<Tensor>| r.unwrap_err().to_string();
    assert!(text(Tensor::custom(Arc::new(Cube), &[&x, &x])).contains("cube: takes one f64 tensor, not 2"));
    assert!(text(Tensor::custom(Arc::new(Cube), &[])).contains("at least one input"));
}

#[test]
fn a_gradient_that_is_not_there_is_an_error() {
    let x = Tensor::var("x", Tensor::from([1.0f64]));
    let y = Tensor::custom(Arc::new(Opaque), &[&x]).unwrap();
    let e = y.sum().backward().err().unwrap().to_string();
    assert!(e.contains("opaque_thing") && e.contains("no gradient"), "{e}");
    // Not where it is constant.
    assert!(no_grad(|| Tensor::custom(Arc::new(Opaque), &[&x])).unwrap().to_vec::<f64>().unwrap() == [1.0]);

    let both = |given: Vec<bool>| Tensor::custom(Arc::new(Odd(given)), &[&x, &x]).unwrap().sum().backward();
    assert!(both(vec![true, true]).is_ok());
    let e = both(vec![true]).err().unwrap().to_string();
    assert!(e.contains("odd: its rule returns 1 gradients for 2 inputs"), "{e}");
    let e = both(vec![true, false]).err().unwrap().to_string();
    assert!(e.contains("odd has no gradient for input 1"), "{e}");
}

#[test]
fn custom_gradients_of_composites() {
    // log(1 + e^x), whose plain gradient overflows.
    let softplus = |x: &[Tensor]| {
        let forward = |x: &[Tensor]| Ok((x[0].exp() + 1.0).log());
        custom_vjp("softplus", forward, |g, _, x| Ok(vec![Some(g * x[0].sigmoid())]), &[&x[0]])
    };
    gradcheck_with(softplus, &[&Tensor::from([0.5f64, -1.5, 2.0])], &TWICE).unwrap();
    let x = Tensor::var("x", Tensor::from([1000.0f64]));
    let y = softplus(std::slice::from_ref(&x)).unwrap();
    assert_eq!(y.op_name(), "softplus");
    assert_eq!(y.sum().backward().unwrap().wrt(&x).unwrap().to_vec::<f64>().unwrap(), [1.0]);
    // It costs no copy.
    let plain = (x.exp() + 1.0).log();
    assert_eq!(y.explain().unwrap().launches(), plain.explain().unwrap().launches());

    let w = Tensor::var("w", Tensor::from([2.0f64]));
    let e = custom_vjp("f", |x| Ok(&x[0] * &w), |g, _, _| Ok(vec![Some(g.clone())]), &[&x]).unwrap_err().to_string();
    assert!(e.contains("reads a variable that is not among its inputs"), "{e}");
    let wrong = custom_vjp("g", |x| Ok(&x[0] * 2.0), |_, _, _| Ok(vec![Some(Tensor::ones([7], DType::F64))]), &[&x]);
    assert!(wrong.unwrap().sum().backward().is_err());
}

/// Eight layers, four to a segment.
fn network(x: &Tensor, ws: &[Tensor], save: bool) -> Tensor {
    let segment = |h: &Tensor, ws: &[Tensor]| {
        let mut h = h.clone();
        for w in ws {
            h = h.matmul(w).unwrap().tanh();
        }
        h
    };
    let mut h = x.clone();
    for part in ws.chunks(4) {
        h = if save { checkpoint(|x| Ok(segment(&x[0], part)), &[&h]).unwrap() } else { segment(&h, part) };
    }
    h.square().mean()
}

#[test]
fn checkpoints_give_the_same_gradients() {
    manual_seed(3);
    let x = (Tensor::randn([3, 4]) * 0.5).to_dtype(DType::F64);
    let ws: Vec<Tensor> = (0..8).map(|_| Tensor::randn([4, 4]).to_dtype(DType::F64).requires_grad_()).collect();
    let gradients = |save: bool| -> Vec<Vec<f64>> {
        let g = network(&x, &ws, save).backward().unwrap();
        ws.iter().map(|w| g.wrt(w).unwrap().to_vec().unwrap()).collect()
    };
    assert_eq!(gradients(true), gradients(false));
    // Second order, nested, two outputs, and noise that is the same the second time.
    let f = |x: &[Tensor]| {
        let (a, b) = checkpoint(
            |x| {
                let h = checkpoint(|h| Ok(h[0].sin() * &x[1]), &[&x[0]])?;
                Ok((h.exp(), &h + &x[1]))
            },
            &[&x[0], &x[1]],
        )?;
        Ok(&a * &b)
    };
    gradcheck_with(f, &[&Tensor::from([0.5f64, 1.5]), &Tensor::from([0.3f64, -0.4])], &TWICE).unwrap();
    let v = Tensor::var("v", Tensor::from([1.0f32, 2.0, 3.0]));
    let noise = checkpoint(|x| Ok(&x[0] * Tensor::rand([3])), &[&v]).unwrap();
    let g = noise.sum().backward().unwrap().wrt(&v).unwrap();
    let (y, g) = (noise.to_vec::<f32>().unwrap(), g.to_vec::<f32>().unwrap());
    assert!((0..3).all(|k| (y[k] - g[k] * (k + 1) as f32).abs() < 1e-6), "{y:?} {g:?}");
    // What a variable held at the forward pass is what the backward pass computes with.
    let w = Tensor::var("w", Tensor::from([2.0f64]));
    let y = checkpoint(|x| Ok((&x[0] * &w).square()), &[&Tensor::from([3.0f64]).requires_grad_()]).unwrap();
    w.set(&Tensor::from([100.0f64])).unwrap();
    assert_eq!(y.sum().backward().unwrap().wrt(&w).unwrap().to_vec::<f64>().unwrap(), [36.0]);
}

#[test]
fn checkpoints_save_memory() {
    let n = 64;
    let x = Tensor::randn([256, n]);
    let ws: Vec<Tensor> = (0..16).map(|_| (Tensor::randn([n, n]) * 0.1).requires_grad_()).collect();
    Tensor::eval_all(&ws.iter().chain([&x]).collect::<Vec<_>>()).unwrap();
    let layer = 256 * n * 4;
    // In one run, forward and backward: intermediates in the arena.
    let arena = |save: bool| {
        let loss = network(&x, &ws, save);
        let g = loss.backward().unwrap();
        drop(loss);
        let grads: Vec<Tensor> = ws.iter().map(|w| g.wrt(w).unwrap()).collect();
        drop(g);
        Tensor::explain_all(&grads.iter().collect::<Vec<_>>()).unwrap().arena
    };
    let (plain, saved) = (arena(false), arena(true));
    assert!(plain >= 16 * layer && saved <= 11 * layer, "{plain} and {saved}, a layer is {layer}");
    // Forward alone: what stays behind for a backward pass to come.
    let kept = |save: bool| network(&x, &ws, save).explain().unwrap().kept;
    let (plain, saved) = (kept(false), kept(true));
    assert!(plain >= 15 * layer && saved <= 5 * layer, "{plain} and {saved}, a layer is {layer}");
}

#[test]
fn a_checkpoint_reads_what_lies_inside_a_join() {
    let x = Tensor::var("x", (Tensor::arange(0, 64, 1, gradus_core::DType::F32).unwrap() * 0.03).eval().unwrap());
    let gradient = |save: bool| {
        let (first, h) = ((&x * 3.0).exp().cumsum(0).unwrap(), (&x * 2.0).exp().cumsum(0).unwrap());
        // The second part begins in the middle of the joined buffer.
        let joined = Tensor::cat(&[&first, &h], 0).unwrap();
        let f = |h: &Tensor| (h * 0.1).sin() * h;
        let y = if save { checkpoint(|x| Ok(f(&x[0])), &[&h]).unwrap() } else { f(&h) };
        let loss = joined.cumsum(0).unwrap().square().mean() + y.sum();
        drop((first, h, joined, y));
        loss.backward().unwrap().wrt(&x).unwrap().to_vec::<f32>().unwrap()
    };
    let (a, b) = (gradient(true), gradient(false));
    for (a, b) in a.iter().zip(&b) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} with a checkpoint, {b} without");
    }
}
