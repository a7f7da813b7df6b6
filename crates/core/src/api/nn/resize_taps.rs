//! Interpolation by the CPU's own kernel: the elements and weights of every row and column as tables.

use super::{
    bins::has_kernels,
    resize::{InterpolateMode, InterpolateOptions, Resized},
};
use crate::{
    Shape, Tensor,
    op::{HostOp, Op},
};
use gradus_numerics::resample::{Resample, Taps};
use std::sync::Arc;

/// Tables beyond this many elements are not made: a plan is looked up by them.
const MOST: usize = 1 << 16;

/// The spatial axes at another size, where the kernel can do it.
#[track_caller]
pub(super) fn resampled(x: &Tensor, axes: &[Resized], options: &InterpolateOptions) -> Option<Tensor> {
    if !has_kernels(x) || options.antialias || axes.iter().map(|a| a.n + a.out).sum::<usize>() > MOST {
        return None;
    }
    let align = options.align_corners.unwrap_or(false);
    let of = |r: &Resized| taps(r, align, options.mode);
    let axes_taps = match axes {
        [w] => [Taps::identity(1), of(w)?],
        [h, w] => [of(h)?, of(w)?],
        _ => return None,
    };
    let shape: Shape = x.dims()[..2].iter().copied().chain(axes.iter().map(|a| a.out)).collect();
    Some(x.make(Op::Host(HostOp::Resample(Arc::new(Resample { axes: axes_taps }))), &[x], shape, x.dtype()))
}

/// Positions and weights in f32, as PyTorch computes them.
fn taps(r: &Resized, align: bool, mode: InterpolateMode) -> Option<Taps> {
    let last = r.n - 1;
    let scale = r.scale(align) as f32;
    let position = |i: usize| if align { i as f32 * scale } else { (i as f32 + 0.5) * scale - 0.5 };
    let nearest =
        |shift: f32| move |i: usize| vec![((((i as f32 + shift) * r.scale(false) as f32) as usize).min(last), 1.0)];
    // The element before a position, and how far the position is beyond it.
    let split = |at: f32| {
        let whole = at.floor().min(last as f32);
        (whole, (at - whole).clamp(0.0, 1.0))
    };
    let of: Box<dyn Fn(usize) -> Vec<(usize, f32)>> = match mode {
        InterpolateMode::Nearest | InterpolateMode::NearestExact if r.is_same() => return Some(Taps::identity(r.n)),
        InterpolateMode::Nearest => Box::new(nearest(0.0)),
        InterpolateMode::NearestExact => Box::new(nearest(0.5)),
        InterpolateMode::Linear | InterpolateMode::Bilinear => Box::new(|i| {
            let (low, t) = split(position(i).max(0.0));
            let low = low as usize;
            vec![(low, 1.0 - t), ((low + 1).min(last), t)]
        }),
        InterpolateMode::Bicubic => Box::new(|i| {
            let (low, t) = split(position(i));
            let at = |k: usize| (low as i64 + k as i64 - 1).clamp(0, last as i64) as usize;
            cubic_weights(t).into_iter().enumerate().map(|(k, w)| (at(k), w)).collect()
        }),
        InterpolateMode::Trilinear | InterpolateMode::Area => return None,
    };
    Taps::new(r.n, &(0..r.out).map(of).collect::<Vec<_>>())
}

/// The weights of cubic convolution at `t` between the second and the third of four elements.
fn cubic_weights(t: f32) -> [f32; 4] {
    let a = -0.75f32;
    // Within one of the element, and between one and two.
    let near = |x: f32| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}
