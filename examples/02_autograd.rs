//! Gradients: of anything that was computed, exact, and tensors themselves.
//!
//! cargo run --release --example 02_autograd

use gradus::{grad, prelude::*};

fn main() -> Result<()> {
    tour(200).map(|_| ())
}

/// Returns how far the line is off after so many steps, for the test.
pub fn tour(steps: usize) -> Result<f64> {
    // A variable is a tensor with a name, whose gradients are kept.
    let x = Tensor::var("x", Tensor::from([1.0f64, 2.0, 3.0]));
    let y = (&x * &x * &x).sum(); // y = sum of x^3
    let grads = y.backward()?;
    println!("x = {x}\ndy/dx = 3 x^2 = {}", grads.wrt(&x)?);

    // A gradient is a tensor with a history: differentiate it again, and again.
    let first = grad::grad(&y, &[&x])?.remove(0);
    let second = grad::grad(&first.sum(), &[&x])?.remove(0);
    let third = grad::grad(&second.sum(), &[&x])?.remove(0);
    println!("second derivatives 6 x = {second}\nthird ones = {third}\n");

    // Derivatives of functions: a Jacobian has a row for each result, a Hessian is that of the gradient.
    let p = Tensor::from([1.0f64, 0.5]);
    let rosenbrock = |p: &Tensor| -> Result<Tensor> {
        let (a, b) = (p.i(0)?, p.i(1)?);
        Ok((1.0 - &a).square() + 100.0 * (b - a.square()).square())
    };
    println!("Hessian of Rosenbrock's function at {p}:\n{}\n", grad::hessian(rosenbrock, &p)?);

    // Gradient descent is three lines: a line through points, by hand.
    let xs = Tensor::linspace(-1.0, 1.0, 50, DType::F64);
    let ys = &xs * 3.0 - 0.5;
    let (w, b) = (Tensor::var("w", 0.0f64), Tensor::var("b", 0.0f64));
    for step in 0..steps {
        let loss = (&w * &xs + &b - &ys).square().mean();
        let grads = loss.backward()?;
        for v in [&w, &b] {
            v.set(&(v - grads.wrt(v)? * 0.3))?; // graphs made before keep the value they saw
        }
        if step % 50 == 0 {
            println!("step {step:3}: loss {:.6}", loss.item::<f64>()?);
        }
    }
    let (w, b) = (w.item::<f64>()?, b.item::<f64>()?);
    println!("found w = {w:.4} and b = {b:.4} of y = w x + b; the points are on 3 x - 0.5\n");

    // What has no gradient is an error that says so, rather than a silent zero. An order is made of integers:
    let z = Tensor::var("z", Tensor::from([0.3f64, 1.7]));
    match z.argsort(0, false)?.to_dtype(DType::F64).sum().backward() {
        Ok(grads) => println!("no gradient came through a sort's order: {}", grads.missing()[0].why),
        Err(e) => println!("asked for the gradient of a sort's order:\n{e}"),
    }
    Ok((w - 3.0).abs() + (b + 0.5).abs())
}
