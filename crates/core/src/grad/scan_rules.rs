//! Gradients of running and whole products and of running log-sum-exp, right also where factors are zero.

use crate::{PadMode, Result, Tensor};

/// `sum over j >= i of g[j]` along an axis.
pub fn reverse_cumsum(g: &Tensor, axis: usize) -> Result<Tensor> {
    let axis = axis as i64;
    g.flip(axis)?.cumsum(axis)?.flip(axis)
}

/// The product over all axes but one's own element: everything before it times everything after it.
pub fn product(axes: &[usize], g: &Tensor, x: &Tensor) -> Result<Tensor> {
    // The reduced axes go last and become one.
    let kept: Vec<i64> = (0..x.rank()).filter(|d| !axes.contains(d)).map(|d| d as i64).collect();
    let order: Vec<i64> = kept.iter().copied().chain(axes.iter().map(|&a| a as i64)).collect();
    let moved = x.permute(order.clone())?;
    let mut flat: Vec<usize> = kept.iter().map(|&d| x.dims()[d as usize]).collect();
    flat.push(axes.iter().map(|&a| x.dims()[a]).product());
    let rows = moved.reshape(flat)?;
    let before = exclusive_cumprod(&rows)?;
    let after = exclusive_cumprod(&rows.flip(-1)?)?.flip(-1)?;
    let others = (before * after).reshape(moved.shape())?;
    let mut back = vec![0i64; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| back[from as usize] = to as i64);
    Ok(others.permute(back)? * g.expand(x.shape())?)
}

/// `1, x0, x0 x1, ...` along the last axis.
fn exclusive_cumprod(x: &Tensor) -> Result<Tensor> {
    let n = x.dims()[x.rank() - 1];
    if n == 0 {
        return Ok(x.clone());
    }
    let ones = x.narrow(-1, 0, 1)?.ones_like();
    Tensor::cat(&[&ones, &x.narrow(-1, 0, n - 1)?], -1)?.cumprod(-1)
}

/// `s[i] = g[i] + p[i] s[i+1]` along the last axis, where `p` has one element less: in log n steps of whole tensors, each
/// of which lets every element see twice as far. Nothing is divided, so factors of zero are right.
fn seen_from(g: &Tensor, p: &Tensor) -> Result<Tensor> {
    let n = g.dims()[g.rank() - 1];
    let (mut sums, mut far, mut product) = (g.clone(), 1, p.clone());
    while far < n {
        let more = &product * &sums.narrow(-1, far, n - far)?;
        sums = &sums + &more.pad(&[0, far as i64], PadMode::Constant(0.0))?;
        if 2 * far < n {
            let left = n - 2 * far;
            product = product.narrow(-1, 0, left)? * product.narrow(-1, far, left)?;
        }
        far *= 2;
    }
    Ok(sums)
}

/// `y[j] = x[0] ... x[j]`: `dx[i] = before(i) * sum over j >= i of g[j] x[i+1] ... x[j]`.
pub fn cumprod(axis: usize, g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (xt, gt) = (x.transpose(axis as i64, -1)?, g.transpose(axis as i64, -1)?);
    let n = xt.dims()[xt.rank() - 1];
    let sums = seen_from(&gt, &xt.narrow(-1, n.min(1), n.saturating_sub(1))?)?;
    (exclusive_cumprod(&xt)? * sums).transpose(axis as i64, -1)
}

/// `dx[i] = sum over j >= i of g[j] exp(x[i] - y[j])`, where no exponent is positive.
pub fn logcumsumexp(axis: usize, g: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let last = |t: &Tensor| t.transpose(axis as i64, -1);
    let (xt, yt, gt) = (last(x)?, last(y)?, last(g)?);
    let n = xt.dims()[xt.rank() - 1];
    let less = n.saturating_sub(1);
    let steps = (yt.narrow(-1, 0, less)? - yt.narrow(-1, n.min(1), less)?).exp();
    ((xt - yt).exp() * seen_from(&gt, &steps)?).transpose(axis as i64, -1)
}
