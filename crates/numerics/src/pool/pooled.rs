//! The types that are pooled.

use super::{MeanPool, Pool};

/// Numbers with routines for pooling: those of this module for `f32`, plainer ones for `f64`.
pub trait Pooled: Sized {
    /// The maximum of each window: see [`super::max_pool`].
    fn max_pool(p: &Pool, x: &[Self], y: &mut [Self]);
    /// The element of `values` where each window's maximum is: see [`super::max_pool_pick`].
    fn max_pool_pick(p: &Pool, x: &[Self], values: &[Self], y: &mut [Self]);
    /// Where each window's maximum is: see [`super::max_pool_indices`].
    fn max_pool_indices(p: &Pool, x: &[Self], at: &mut [i64]);
    /// The gradient of [`Pooled::max_pool`].
    fn max_pool_grad(p: &Pool, x: &[Self], grad: &[Self], dx: &mut [Self]);
    /// The same over `x` itself: see [`super::max_pool_grad_over`].
    fn max_pool_grad_over(p: &Pool, x: &mut [Self], grad: &[Self]) -> bool;
    /// The mean of each bin: see [`super::mean_pool`].
    fn mean_pool(p: &MeanPool, x: &[Self], y: &mut [Self]);
    /// The gradient of [`Pooled::mean_pool`].
    fn mean_pool_grad(p: &MeanPool, grad: &[Self], dx: &mut [Self]);
}

impl Pooled for f32 {
    fn max_pool(p: &Pool, x: &[f32], y: &mut [f32]) {
        super::max_pool(p, x, y);
    }

    fn max_pool_pick(p: &Pool, x: &[f32], values: &[f32], y: &mut [f32]) {
        super::max_pool_pick(p, x, values, y);
    }

    fn max_pool_indices(p: &Pool, x: &[f32], at: &mut [i64]) {
        super::max_pool_indices(p, x, at);
    }

    fn max_pool_grad(p: &Pool, x: &[f32], grad: &[f32], dx: &mut [f32]) {
        super::max_pool_grad(p, x, grad, dx);
    }

    fn max_pool_grad_over(p: &Pool, x: &mut [f32], grad: &[f32]) -> bool {
        super::max_pool_grad_over(p, x, grad)
    }

    fn mean_pool(p: &MeanPool, x: &[f32], y: &mut [f32]) {
        super::mean_pool(p, x, y);
    }

    fn mean_pool_grad(p: &MeanPool, grad: &[f32], dx: &mut [f32]) {
        super::mean_pool_grad(p, grad, dx);
    }
}
