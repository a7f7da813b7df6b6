//! Gradients of running and whole products and of running log-sum-exp, right also where factors are zero.

use crate::{Result, Tensor};

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

/// `y[j] = x[0] ... x[j]`: `dx[i] = before(i) * sum over j >= i of g[j] x[i+1] ... x[j]`, with the products as a matrix,
/// so that no division happens and zeros are right.
pub fn cumprod(axis: usize, g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let (xt, gt) = (x.transpose(axis as i64, -1)?, g.transpose(axis as i64, -1)?);
    let n = xt.dims()[xt.rank() - 1];
    let row = Tensor::arange_on(n, x.device()).unsqueeze(1)?; // i
    let col = Tensor::arange_on(n, x.device()).unsqueeze(0)?; // k or j
    let after = col.gt(&row)?.where_(&xt.unsqueeze(-2)?, x.scalar_like(1.0))?; // [.., i, k]: x[k] for k > i, else 1
    let runs = col.ge(&row)?.where_(&after.cumprod(-1)?, x.scalar_like(0.0))?; // [.., i, j]: x[i+1] ... x[j]
    let sums = (runs * gt.unsqueeze(-2)?).sum_dim(-1, false)?;
    (exclusive_cumprod(&xt)? * sums).transpose(axis as i64, -1)
}

/// `dx[i] = sum over j >= i of g[j] exp(x[i] - y[j])`, where no exponent is positive.
pub fn logcumsumexp(axis: usize, g: &Tensor, y: &Tensor, x: &Tensor) -> Result<Tensor> {
    let last = |t: &Tensor| t.transpose(axis as i64, -1);
    let (xt, yt, gt) = (last(x)?, last(y)?, last(g)?);
    let n = xt.dims()[xt.rank() - 1];
    let row = Tensor::arange_on(n, x.device()).unsqueeze(1)?;
    let col = Tensor::arange_on(n, x.device()).unsqueeze(0)?;
    let gap = xt.unsqueeze(-1)? - yt.unsqueeze(-2)?; // [.., i, j]
    let weights = col.ge(&row)?.where_(&gap, x.scalar_like(f64::NEG_INFINITY))?.exp();
    (weights * gt.unsqueeze(-2)?).sum_dim(-1, false)?.transpose(axis as i64, -1)
}
