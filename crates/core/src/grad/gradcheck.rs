//! Gradients against central differences.

use super::{Tensors, vjp};
use crate::{DType, Error, ErrorKind, Result, Tensor, no_grad};

/// How [`gradcheck_with`] compares.
#[derive(Clone, Copy, Debug)]
pub struct GradcheckOptions {
    /// Derivatives up to this order: 2 checks the gradients of gradients too.
    pub order: usize,
    /// Half the step of the differences.
    pub eps: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
}

impl Default for GradcheckOptions {
    fn default() -> Self {
        GradcheckOptions { order: 1, eps: 1e-5, atol: 1e-6, rtol: 1e-5 }
    }
}

/// Compares the gradients of `f` at `inputs` with central differences: in f64, for random weights of the outputs. Inputs
/// that are not floats are passed on as they are.
///
/// ```
/// use gradus_core::{grad, Tensor};
/// let x = Tensor::from([0.5f64, 1.5]);
/// grad::gradcheck(|x| Ok(x[0].sin() * &x[0]), &[&x]).unwrap();
/// let wrong = |x: &[Tensor]| Ok(&x[0] * x[0].detach());
/// assert!(grad::gradcheck(wrong, &[&x]).unwrap_err().to_string().contains("input 0, element [0]"));
/// ```
#[track_caller]
pub fn gradcheck<O: Tensors>(f: impl Fn(&[Tensor]) -> Result<O>, inputs: &[&Tensor]) -> Result<()> {
    gradcheck_with(f, inputs, &GradcheckOptions::default())
}

/// As [`gradcheck`], to any order and with other tolerances.
///
/// ```
/// use gradus_core::{grad::{gradcheck_with, GradcheckOptions}, Tensor};
/// let third = GradcheckOptions { order: 3, ..Default::default() };
/// gradcheck_with(|x| Ok(x[0].tanh()), &[&Tensor::from([0.5f64, 1.5])], &third).unwrap();
/// ```
#[track_caller]
pub fn gradcheck_with<O: Tensors>(
    f: impl Fn(&[Tensor]) -> Result<O>,
    inputs: &[&Tensor],
    options: &GradcheckOptions,
) -> Result<()> {
    for x in inputs {
        if x.dtype().is_float() && x.dtype() != DType::F64 {
            let why = format!("differences need f64, and an input is {}", x.dtype());
            return Err(Error::dtype("gradcheck", &[x.dtype()], why).operand(x).hint("convert it with to_dtype"));
        }
    }
    let inputs: Vec<Tensor> = inputs.iter().map(|x| x.detach()).collect();
    check(&|x| Ok(f(x)?.list()), &inputs, options, 1)
}

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// One order, and the next on the function that gives the gradients of this one.
fn check(f: Function<'_>, inputs: &[Tensor], options: &GradcheckOptions, order: usize) -> Result<()> {
    if order > options.order {
        return Ok(());
    }
    let refs: Vec<&Tensor> = inputs.iter().collect();
    let (outputs, pullback) = vjp(|x| Ok(floats(&f(x)?)), &refs)?;
    let weights: Vec<Tensor> =
        outputs.iter().enumerate().map(|(k, y)| random(y, (order * 64 + k) as u64)).collect::<Result<_>>()?;
    let grads = pullback(&weights.iter().collect::<Vec<_>>())?;
    let value = |x: &[Tensor]| {
        let ys = no_grad(|| f(x))?;
        floats(&ys).iter().zip(&weights).try_fold(0.0, |s, (y, w)| Ok::<f64, Error>(s + (y * w).sum().item::<f64>()?))
    };
    for (i, (x, g)) in inputs.iter().zip(&grads).enumerate().filter(|(_, (x, _))| x.dtype().is_float()) {
        let (at, analytic) = (x.to_vec::<f64>()?, g.to_vec::<f64>()?);
        for (e, &a) in analytic.iter().enumerate() {
            let moved = |by: f64| -> Result<f64> {
                let mut xs = inputs.to_vec();
                let mut v = at.clone();
                v[e] += by;
                xs[i] = Tensor::from_vec(v, x.shape())?;
                value(&xs)
            };
            let numeric = (moved(options.eps)? - moved(-options.eps)?) / (2.0 * options.eps);
            let close = (a - numeric).abs() <= options.atol + options.rtol * numeric.abs();
            if !close {
                let index = index(e, x.dims());
                let why = format!(
                    "input {i}, element {index:?}: the gradient is {a}, differences give {numeric} (order {order})"
                );
                return Err(Error::new("gradcheck", ErrorKind::Gradient(why)).operand(x));
            }
        }
    }
    // The next order is of the gradients as functions of inputs and weights.
    let n = inputs.len();
    let next = |xw: &[Tensor]| {
        let (x, w) = xw.split_at(n);
        let (_, pullback) = vjp(|x| Ok(floats(&f(x)?)), &x.iter().collect::<Vec<_>>())?;
        Ok(floats(&pullback(&w.iter().collect::<Vec<_>>())?))
    };
    check(&next, &[inputs, &weights].concat(), options, order + 1)
}

fn floats(ts: &[Tensor]) -> Vec<Tensor> {
    ts.iter().filter(|t| t.dtype().is_float()).cloned().collect()
}

/// Numbers in (0.5, 1.5) in the shape of `like`, the same in every run; the process's generator stays where it is.
fn random(like: &Tensor, stream: u64) -> Result<Tensor> {
    let mut state = stream.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        0.5 + (state >> 11) as f64 / (1u64 << 53) as f64
    };
    Tensor::from_vec((0..like.numel()).map(|_| next()).collect::<Vec<f64>>(), like.shape())
}

/// The position of an element in row-major order.
fn index(mut flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&n| {
            let i = flat % n.max(1);
            flat /= n.max(1);
            i
        })
        .collect();
    at.reverse();
    at
}
