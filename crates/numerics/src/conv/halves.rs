//! Convolutions of 16-bit numbers in `f32`, rounded once.
//!
//! Where every channel has its own kernel, planes are widened, convolved and rounded a few at a time: all of them would be written
//! and read four times by way of memory, for a few multiplications each.

use super::{ConvParams, Problem, Room, conv_forward, conv_input_grad, conv_weight_grad};
use crate::gemm::{Half, narrow, wide};
use crate::tasks::{Shared, for_tasks};

/// Numbers of the planes of a task, in and out: they stay in the second cache.
const TASK: usize = 1 << 16;

/// Channels that fill vectors.
const LANES: usize = 16;

/// [`conv_forward`] of 16-bit numbers.
pub fn conv_forward_halves<T: Half>(
    input: &[T],
    input_shape: [usize; 5],
    weight: &[T],
    weight_shape: [usize; 5],
    params: &ConvParams,
    output: &mut [T],
) {
    let f = |p: &Planes, x: &[f32], w: &[f32], y: &mut [f32]| {
        conv_forward(x, p.input(input_shape), w, p.weight(weight_shape), &p.params(params), y);
    };
    by_planes(input_shape, weight_shape, params, input, weight, output, f);
}

/// [`conv_input_grad`] of 16-bit numbers.
pub fn conv_input_grad_halves<T: Half>(
    grad: &[T],
    weight: &[T],
    weight_shape: [usize; 5],
    input_shape: [usize; 5],
    params: &ConvParams,
    input_grad: &mut [T],
) {
    let f = |p: &Planes, g: &[f32], w: &[f32], dx: &mut [f32]| {
        conv_input_grad(g, w, p.weight(weight_shape), p.input(input_shape), &p.params(params), dx);
    };
    by_planes(input_shape, weight_shape, params, grad, weight, input_grad, f);
}

/// [`conv_weight_grad`] of 16-bit numbers.
pub fn conv_weight_grad_halves<T: Half>(
    input: &[T],
    input_shape: [usize; 5],
    grad: &[T],
    weight_shape: [usize; 5],
    params: &ConvParams,
    weight_grad: &mut [T],
) {
    let [images, channels, ..] = input_shape;
    let apart = Problem::new(input_shape, weight_shape, params).is_some_and(|p| p.is_depthwise());
    let (size, made) = if apart && images > 0 {
        let planes = images * channels;
        (input.len() / planes, grad.len() / planes)
    } else {
        (0, 0)
    };
    // All images of as many channels as fill vectors, if they fit.
    let some = (TASK / (images * (size + made)).max(1)).max(LANES).min(channels);
    if !apart || some * images * (size + made) > 4 * TASK || channels < 4 * some {
        let (mut x, mut g, mut dw) = (Room::new(input.len()), Room::new(grad.len()), Room::new(weight_grad.len()));
        let (x, g, dw) = (x.numbers(), g.numbers(), dw.numbers());
        wide(input, x);
        wide(grad, g);
        conv_weight_grad(x, input_shape, g, weight_shape, params, dw);
        return narrow(dw, weight_grad);
    }
    let some = channels.div_ceil(channels.div_ceil(some));
    let kernel = weight_grad.len() / channels;
    let out = Shared::new(weight_grad);
    for_tasks(channels.div_ceil(some), true, |t| {
        let (first, n) = (t * some, some.min(channels - t * some));
        let part = Planes { images, channels: Some(n) };
        let (mut x, mut g) = (Room::new(images * n * size), Room::new(images * n * made));
        let (x, g) = (x.numbers(), g.numbers());
        for image in 0..images {
            let at = image * channels + first;
            T::widen_all(&input[at * size..][..n * size], &mut x[image * n * size..][..n * size]);
            T::widen_all(&grad[at * made..][..n * made], &mut g[image * n * made..][..n * made]);
        }
        let mut dw = Room::new(n * kernel);
        let dw = dw.numbers();
        conv_weight_grad(x, part.input(input_shape), g, part.weight(weight_shape), &part.params(params), dw);
        // SAFETY: tasks have the kernels of different channels, which are borrowed exclusively.
        T::round_all(dw, unsafe { std::slice::from_raw_parts_mut(out.ptr().add(first * kernel), n * kernel) });
    });
}

/// A part of the images and, where every channel has its own kernel, of the channels.
struct Planes {
    images: usize,
    /// `None` for all of them.
    channels: Option<usize>,
}

impl Planes {
    fn input(&self, [_, c, d, h, w]: [usize; 5]) -> [usize; 5] {
        [self.images, self.channels.unwrap_or(c), d, h, w]
    }

    fn weight(&self, [o, c, d, h, w]: [usize; 5]) -> [usize; 5] {
        [self.channels.unwrap_or(o), c, d, h, w]
    }

    fn params(&self, p: &ConvParams) -> ConvParams {
        ConvParams { groups: self.channels.unwrap_or(p.groups), ..*p }
    }
}

/// Calls `f` with parts of what `from` and the weights are, and what is to become of `to`.
fn by_planes<T: Half>(
    input: [usize; 5],
    weight: [usize; 5],
    params: &ConvParams,
    from: &[T],
    weights: &[T],
    to: &mut [T],
    f: impl Fn(&Planes, &[f32], &[f32], &mut [f32]) + Sync,
) {
    let mut w = Room::new(weights.len());
    let w = w.numbers();
    wide(weights, w);
    let w = &*w;
    let planes = input[0] * input[1];
    let apart = Problem::new(input, weight, params).is_some_and(|p| p.is_depthwise());
    if !apart || from.is_empty() || to.is_empty() {
        let (mut x, mut y) = (Room::new(from.len()), Room::new(to.len()));
        let (x, y) = (x.numbers(), y.numbers());
        wide(from, x);
        f(&Planes { images: input[0], channels: None }, x, w, y);
        return narrow(y, to);
    }
    // Planes lie image by image: some channels of one, or several images.
    let (channels, kernel) = (input[1], weights.len() / input[1]);
    let (size, made) = (from.len() / planes, to.len() / planes);
    let fitting = (TASK / (size + made)).max(1);
    let some = fitting.min(channels);
    let some = channels.div_ceil(channels.div_ceil(some));
    let cuts = channels.div_ceil(some);
    // At least 8 tasks where there are as many images.
    let images = if cuts > 1 { 1 } else { (fitting / channels).clamp(1, input[0].div_ceil(8)) };
    let out = Shared::new(to);
    for_tasks(input[0].div_ceil(images) * cuts, planes * (size + made) >= TASK / 4, |t| {
        let (image, channel) = (t / cuts * images, t % cuts * some);
        let part = Planes { images: images.min(input[0] - image), channels: Some(some.min(channels - channel)) };
        let (first, count) = (image * channels + channel, part.images * some.min(channels - channel));
        let (mut x, mut y) = (Room::new(count * size), Room::new(count * made));
        let (x, y) = (x.numbers(), y.numbers());
        T::widen_all(&from[first * size..][..count * size], x);
        f(&part, x, &w[channel * kernel..][..some.min(channels - channel) * kernel], y);
        // SAFETY: tasks have different planes of what is borrowed exclusively.
        T::round_all(y, unsafe { std::slice::from_raw_parts_mut(out.ptr().add(first * made), count * made) });
    });
}
