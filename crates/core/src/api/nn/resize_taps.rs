//! Interpolation by the CPU's own kernel, two axes at a time.

use super::{
    bins::has_kernels,
    resize::{InterpolateMode, InterpolateOptions, Resized},
};
use crate::{
    Shape, Tensor,
    op::{HostOp, Op},
};
use gradus_numerics::resample::{Axis, Resize, Rule};
use std::sync::Arc;

/// Tables beyond this many elements are not made: they would take more room than lines of many planes.
const MOST: usize = 1 << 20;

/// The spatial axes at another size, where the kernel can do it.
#[track_caller]
pub(super) fn resampled(x: &Tensor, axes: &[Resized], options: &InterpolateOptions) -> Option<Tensor> {
    if !has_kernels(x) || options.antialias || axes.iter().any(|a| a.n + a.out > MOST) {
        return None;
    }
    let align = options.align_corners.unwrap_or(false);
    let of = |r: &Resized| axis(r, align, options.mode);
    let shape: Shape = x.dims()[..2].iter().copied().chain(axes.iter().map(|a| a.out)).collect();
    let run = |x: &Tensor, axes: [Axis; 2], shape: Shape| {
        x.make(Op::Host(HostOp::Resample(Arc::new(Resize::new(axes)))), &[x], shape, x.dtype())
    };
    match axes {
        [w] => Some(run(x, [Axis::same(1), of(w)?], shape)),
        [h, w] => Some(run(x, [of(h)?, of(w)?], shape)),
        [d, h, w] => {
            // Planes first; then the depth, whose elements are whole planes.
            let (lead, plane) = (x.dims()[0] * x.dims()[1], h.out * w.out);
            let planes = x.reshape_to(&Shape::from([lead * d.n, h.n, w.n]));
            let planes = run(&planes, [of(h)?, of(w)?], Shape::from([lead * d.n, h.out, w.out]));
            let deep = planes.reshape_to(&Shape::from([lead, d.n, plane]));
            let deep = run(&deep, [of(d)?, Axis::same(plane)], Shape::from([lead, d.out, plane]));
            Some(deep.reshape_to(&shape))
        }
        _ => None,
    }
}

fn axis(r: &Resized, align: bool, mode: InterpolateMode) -> Option<Axis> {
    let (rule, align) = match mode {
        InterpolateMode::Nearest | InterpolateMode::NearestExact if r.is_same() => return Some(Axis::same(r.n)),
        InterpolateMode::Nearest => (Rule::Nearest, false),
        InterpolateMode::NearestExact => (Rule::NearestExact, false),
        InterpolateMode::Linear | InterpolateMode::Bilinear | InterpolateMode::Trilinear => (Rule::Linear, align),
        InterpolateMode::Bicubic => (Rule::Cubic, align),
        InterpolateMode::Area => return None,
    };
    Some(Axis::new(r.n, r.out, rule, r.scale(align) as f32, align))
}
