//! Distances between rows, and values of images at positions.

use super::library::{of, out_of};
use crate::{
    Result, Tensor,
    op::{Array, GridSample},
};
use gradus_numerics::{
    distance::{Measured, Order, Sizes, Way},
    grid::{Grid, Sampled},
};

/// The sizes of `[.., n, d]` and `[.., m, d]`.
fn sizes(a: &Array<'_>, b: &Array<'_>) -> Sizes {
    let (a, b) = (&a.shape, &b.shape);
    let r = a.rank();
    Sizes { batch: a[..r - 2].iter().product(), n: a[r - 2], m: b[b.rank() - 2], d: a[r - 1] }
}

pub fn distance<T: Measured>(order: Order, pairs: bool, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    match (pairs, inputs) {
        (false, [a, b]) => T::distances(order, sizes(a, b), of(a), of(b), out_of(out)),
        (true, [x]) => T::pairs(order, [x.shape[0], x.shape[1]], of(x), out_of(out)),
        _ => return Err(Tensor::bug("inputs of distances")),
    }
    Ok(())
}

pub fn distance_grad<T: Measured>(way: Way, pairs: bool, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    match (pairs, inputs) {
        (false, [a, b, w]) => T::slopes(way, sizes(a, b), of(a), of(b), of(w), out_of(out)),
        (true, [x, w]) => T::pair_slopes(way, [x.shape[0], x.shape[1]], of(x), of(w), out_of(out)),
        _ => return Err(Tensor::bug("inputs of a gradient of distances")),
    }
    Ok(())
}

pub fn grid_sample<T: Sampled>(which: GridSample, g: &Grid, inputs: &[Array<'_>], out: &mut [u8]) -> Result<()> {
    match (which, inputs) {
        (GridSample::Values, [x, grid]) => T::sample(g, of(x), of(grid), out_of(out)),
        (GridSample::ImageGrad, [grid, grad]) => T::image_grad(g, of(grid), of(grad), out_of(out)),
        (GridSample::GridGrad, [x, grid, grad]) => T::grid_grad(g, of(x), of(grid), of(grad), out_of(out)),
        (GridSample::Values | GridSample::ImageGrad | GridSample::GridGrad, _) => {
            return Err(Tensor::bug("inputs of a sampling"));
        }
    }
    Ok(())
}
