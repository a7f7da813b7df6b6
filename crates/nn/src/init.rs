//! Starting values: PyTorch's `nn.init`. Each gives a parameter (or any variable) a new content.
//!
//! ```
//! use gradus_core::{Fan, Gain};
//! use gradus_nn::{Linear, init};
//! let layer = Linear::new(64, 32);
//! init::kaiming_normal_(&layer.weight, Fan::In, Gain::Relu)?;
//! init::zeros_(layer.bias.as_ref().unwrap())?;
//! # Ok::<(), gradus_core::Error>(())
//! ```

use gradus_core::{DType, Error, Fan, Gain, QrMode, Result, Shape, Tensor, no_grad};

/// Uniform within `1 / sqrt(fan_in)` of 0: what most of PyTorch's layers start from.
#[track_caller]
pub(crate) fn within_one_over_sqrt(shape: impl Into<Shape>, fan_in: usize) -> Tensor {
    let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
    Tensor::uniform(-bound, bound, shape)
}

/// Sets a variable to what `make` gives for its shape, in its type and on its device.
#[track_caller]
fn fill(t: &Tensor, make: impl FnOnce(&Shape) -> Result<Tensor>) -> Result<()> {
    no_grad(|| {
        let new = make(t.shape())?.to_dtype(t.dtype()).to(&t.device());
        t.set(new.eval()?)
    })
}

/// Uniform numbers in [lo, hi).
#[track_caller]
pub fn uniform_(t: &Tensor, lo: f64, hi: f64) -> Result<()> {
    fill(t, |shape| Ok(Tensor::rand_of(shape, DType::F64)? * (hi - lo) + lo))
}

/// Normal numbers.
#[track_caller]
pub fn normal_(t: &Tensor, mean: f64, std: f64) -> Result<()> {
    if std < 0.0 || std.is_nan() {
        return Err(Error::value("normal_", format!("a deviation cannot be {std}")).operand(t));
    }
    fill(t, |shape| Ok(Tensor::randn_of(shape, DType::F64)? * std + mean))
}

/// Normal numbers within [lo, hi].
#[track_caller]
pub fn trunc_normal_(t: &Tensor, mean: f64, std: f64, lo: f64, hi: f64) -> Result<()> {
    fill(t, |shape| Tensor::trunc_normal(mean, std, lo, hi, shape))
}

/// One number everywhere.
#[track_caller]
pub fn constant_(t: &Tensor, value: f64) -> Result<()> {
    fill(t, |shape| Ok(Tensor::full(shape, value, DType::F64)))
}

/// Ones.
#[track_caller]
pub fn ones_(t: &Tensor) -> Result<()> {
    constant_(t, 1.0)
}

/// Zeros.
#[track_caller]
pub fn zeros_(t: &Tensor) -> Result<()> {
    constant_(t, 0.0)
}

/// The identity matrix.
#[track_caller]
pub fn eye_(t: &Tensor) -> Result<()> {
    let &[n, m] = t.dims() else {
        let why = format!("an identity is a matrix, not {}", t.shape());
        return Err(Error::shape("eye_", &[t.shape()], why).operand(t));
    };
    fill(t, |_| Ok(Tensor::eye(n, m, DType::F32)))
}

/// A convolution's weight `[out, in, window..]` that passes channels on: 1 at the middle of each window from a channel
/// to itself, in each of `groups`.
#[track_caller]
pub fn dirac_(t: &Tensor, groups: usize) -> Result<()> {
    let (rank, out) = (t.rank(), t.dims().first().copied().unwrap_or(0));
    if !(3..=5).contains(&rank) || groups == 0 || !out.is_multiple_of(groups) {
        let why = format!("takes 3 to 5 axes and groups that divide the first, not {} in {groups} groups", t.shape());
        return Err(Error::shape("dirac_", &[t.shape()], why).operand(t));
    }
    fill(t, |shape| {
        let (inputs, each) = (shape[1], out / groups);
        let window: Shape = shape[2..].iter().copied().collect();
        let middle: usize = window.iter().zip(window.strides().iter()).map(|(k, s)| k / 2 * *s as usize).sum();
        let mut all = vec![0f32; shape.numel()];
        for o in 0..out {
            let (channel, at) = (o % each, (o * inputs + o % each) * window.numel() + middle);
            if channel < inputs
                && let Some(x) = all.get_mut(at)
            {
                *x = 1.0;
            }
        }
        Tensor::from_vec(all, shape)
    })
}

/// Uniform numbers within `gain sqrt(6 / (inputs + outputs))` of 0.
#[track_caller]
pub fn xavier_uniform_(t: &Tensor, gain: f64) -> Result<()> {
    fill(t, |shape| Tensor::xavier_uniform(shape, gain, DType::F64))
}

/// Normal numbers of deviation `gain sqrt(2 / (inputs + outputs))`.
#[track_caller]
pub fn xavier_normal_(t: &Tensor, gain: f64) -> Result<()> {
    fill(t, |shape| Tensor::xavier_normal(shape, gain, DType::F64))
}

/// Uniform numbers within `gain sqrt(3 / fan)` of 0.
#[track_caller]
pub fn kaiming_uniform_(t: &Tensor, fan: Fan, gain: Gain) -> Result<()> {
    fill(t, |shape| Tensor::kaiming_uniform(shape, fan, gain, DType::F64))
}

/// Normal numbers of deviation `gain / sqrt(fan)`.
#[track_caller]
pub fn kaiming_normal_(t: &Tensor, fan: Fan, gain: Gain) -> Result<()> {
    fill(t, |shape| Tensor::kaiming_normal(shape, fan, gain, DType::F64))
}

/// Orthogonal rows (or columns, where there are more rows), times `gain`; axes after the first count as one.
#[track_caller]
pub fn orthogonal_(t: &Tensor, gain: f64) -> Result<()> {
    if t.rank() < 2 {
        let why = format!("takes two axes or more, not {}", t.shape());
        return Err(Error::shape("orthogonal_", &[t.shape()], why).operand(t));
    }
    fill(t, |shape| {
        let (rows, cols) = (shape[0], shape[1..].iter().product::<usize>());
        let tall = Tensor::randn_of([rows.max(cols), rows.min(cols)], DType::F64)?;
        let (q, r) = tall.qr(QrMode::Reduced)?;
        // With the signs of R's diagonal, Q is uniform over all orthogonal matrices.
        let q = q * r.diagonal(0, 0, 1)?.sign();
        let q = if rows < cols { q.t()? } else { q };
        (q * gain).reshape(shape)
    })
}

/// A matrix of normal numbers, with this share of each column zero.
#[track_caller]
pub fn sparse_(t: &Tensor, sparsity: f64, std: f64) -> Result<()> {
    if t.rank() != 2 || !(0.0..=1.0).contains(&sparsity) {
        let why = format!("takes a matrix and a share of 0 to 1, not {} and {sparsity}", t.shape());
        return Err(Error::shape("sparse_", &[t.shape()], why).operand(t));
    }
    fill(t, |shape| {
        let zeros = (sparsity * shape[0] as f64).ceil();
        // The rank of each element among random numbers of its column.
        let rank = Tensor::rand_of(shape, DType::F64)?.argsort(0, false)?.argsort(0, false)?;
        let kept = rank.ge(zeros as i64)?;
        kept.where_(Tensor::randn_of(shape, DType::F64)? * std, 0.0)
    })
}
