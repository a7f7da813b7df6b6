//! Gradients of running and whole products and of running log-sum-exp, right also where factors are zero.

use crate::op::{HostOp, Op};
use crate::{Result, Tensor};

/// `sum over j >= i of g[j]` along an axis.
pub fn reverse_cumsum(g: &Tensor, axis: usize) -> Result<Tensor> {
    let axis = axis as i64;
    g.flip(axis)?.cumsum(axis)?.flip(axis)
}

/// `s[i] = x[i] + p[i+1] s[i+1]` along an axis, or forwards: see [`HostOp::Cascade`]. Nothing is divided, so factors of
/// zero are right.
fn passed_on(x: &Tensor, p: &Tensor, axis: usize, back: bool) -> Tensor {
    x.make(Op::Host(HostOp::Cascade { axis, back }), &[x, p], x.shape().clone(), x.dtype())
}

/// Each element at the place of the next; the first place is zero.
fn shifted(x: &Tensor, axis: usize) -> Result<Tensor> {
    x.narrow(axis as i64, 0, x.dims()[axis].saturating_sub(1))?.pad_axis(axis, 1, 0)
}

/// `before(i) s[i]`, where running products `y` say what is before; before the first is one.
fn times_before(y: &Tensor, s: &Tensor, axis: usize) -> Result<Tensor> {
    let n = s.dims()[axis];
    Ok(shifted(y, axis)? * s + s.narrow(axis as i64, 0, 1)?.pad_axis(axis, 0, n - 1)?)
}

/// The product over all axes but one's own element: everything before it times everything after it.
pub fn product(axes: &[usize], g: &Tensor, x: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 {
        return Ok(x.clone());
    }
    if let &[axis] = axes {
        return others(axis, g, x);
    }
    // The reduced axes go last and become one.
    let kept: Vec<i64> = (0..x.rank()).filter(|d| !axes.contains(d)).map(|d| d as i64).collect();
    let order: Vec<i64> = kept.iter().copied().chain(axes.iter().map(|&a| a as i64)).collect();
    let moved = x.permute(order.clone())?;
    let mut flat: Vec<usize> = kept.iter().map(|&d| x.dims()[d as usize]).collect();
    flat.push(1);
    let g = g.permute(order.clone())?.reshape(flat.clone())?;
    flat[kept.len()] = axes.iter().map(|&a| x.dims()[a]).product();
    let dx = others(kept.len(), &g, &moved.reshape(flat)?)?.reshape(moved.shape())?;
    let mut back = vec![0i64; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from as usize] = to as i64);
    dx.permute(back)
}

/// The same along one axis, on which `g` has one element: the gradient of the last of the running products.
fn others(axis: usize, g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let last = g.pad_axis(axis, x.dims()[axis] - 1, 0)?;
    times_before(&x.cumprod(axis as i64)?, &passed_on(&last, x, axis, true), axis)
}

/// `y[j] = x[0] ... x[j]`: `dx[i] = before(i) * sum over j >= i of g[j] x[i+1] ... x[j]`.
pub fn cumprod(axis: usize, g: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    if x.numel() == 0 {
        return Ok(g.clone());
    }
    times_before(y, &passed_on(g, x, axis, true), axis)
}

/// `y[i] = x[i] + p[i] y[i-1]`: what is passed on one way in the result is passed on the other way in the gradient, and
/// a factor's gradient is that of the element it is passed to times the element it is passed from.
pub fn cascade(axis: usize, back: bool, g: &Tensor, y: &Tensor, p: &Tensor) -> Result<(Tensor, Tensor)> {
    let dx = passed_on(g, p, axis, !back);
    let dp = if back { shifted(&dx, axis)? * y } else { &dx * shifted(y, axis)? };
    Ok((dx, dp))
}

/// `dx[i] = sum over j >= i of g[j] exp(x[i] - y[j])`, where no exponent is positive.
pub fn logcumsumexp(axis: usize, g: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (n, along) = (x.dims()[axis], axis as i64);
    let less = n.saturating_sub(1);
    let steps = (y.narrow(along, 0, less)? - y.narrow(along, n.min(1), less)?).exp().pad_axis(axis, n - less, 0)?;
    Ok((x - y).exp() * passed_on(g, &steps, axis, true))
}
