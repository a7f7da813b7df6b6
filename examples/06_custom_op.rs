//! An operation of your own, with its gradient. Lambert's W is the y with `y e^y = x`: it is found by iteration, which no
//! tensor operation does, and its derivative has a simple form.
//!
//! cargo run --release --example 06_custom_op

use gradus::{
    Error,
    grad::{GradcheckOptions, custom_vjp, gradcheck_with},
    op::{Array, CustomOp},
    prelude::*,
};
use std::sync::Arc;

struct LambertW;

impl CustomOp for LambertW {
    fn name(&self) -> &str {
        "lambert_w"
    }

    /// What comes out, or why these inputs do not fit: checked when the graph is built.
    fn output(&self, inputs: &[(&Shape, DType)]) -> Result<(Shape, DType)> {
        match inputs {
            [(shape, DType::F64)] => Ok(((*shape).clone(), DType::F64)),
            _ => Err(Error::value(self.name(), "takes one f64 tensor")),
        }
    }

    /// The arithmetic, on plain memory.
    fn forward(&self, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
        let x = inputs.first().and_then(|a| a.as_slice::<f64>()).unwrap_or_default();
        for (out, &x) in out.chunks_exact_mut(8).zip(x) {
            let mut y = x.ln_1p(); // near enough for x > 0, and Newton does the rest
            for _ in 0..30 {
                y -= (y - x * (-y).exp()) / (1.0 + y);
            }
            out.copy_from_slice(&y.to_ne_bytes());
        }
        Ok(())
    }

    /// `W' = 1 / (e^W (1 + W))`. It is made of tensors, so it can be differentiated again: of any order, at no cost.
    fn vjp(&self, grad: &Tensor, y: &Tensor, _: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(grad / (y.exp() * (y + 1.0)))])
    }
}

fn main() -> Result<()> {
    let x = fit(40)?;
    println!("W(x) = 1 at x = {x:.6}, which is e");
    Ok(())
}

/// Looks for the x with W(x) = 1 by so many steps down the gradient.
pub fn fit(steps: usize) -> Result<f64> {
    // Made once and shared: plans are cached by the operation.
    let op: Arc<dyn CustomOp> = Arc::new(LambertW);
    let w = |x: &Tensor| Tensor::custom(op.clone(), &[x]);

    let x = Tensor::from([0.1f64, 1.0, 2.5, 10.0]);
    let y = w(&x)?;
    println!("x   = {x}\nW   = {y}\nWe^W= {}", &y * y.exp());

    // Trust it when differences agree, of the second derivative too.
    gradcheck_with(|x| w(&x[0]), &[&x], &GradcheckOptions { order: 2, ..Default::default() })?;
    println!("first and second derivatives agree with differences");

    // It is an operation like any other: it fuses into graphs, trains, and is named in errors.
    let x = Tensor::var("x", Tensor::from([1.0f64]));
    for _ in 0..steps {
        let loss = (w(&x)? - 1.0).square().sum();
        x.set(&(&x - loss.backward()?.wrt(&x)? * 8.0))?;
    }

    // When tensor operations do compute it, and only the gradient is to be another: one call. Rounding has gradient 0
    // almost everywhere; "straight through" pretends that it is the identity, so that networks can learn around it.
    let v = Tensor::var("v", Tensor::from([0.3f64, 1.8]));
    let rounded = custom_vjp("round_through", |v| Ok(v[0].round()), |g, _, _| Ok(vec![Some(g.clone())]), &[&v])?;
    println!("rounded {rounded}, with gradient {}", rounded.sum().backward()?.wrt(&v)?);
    x.item()
}
