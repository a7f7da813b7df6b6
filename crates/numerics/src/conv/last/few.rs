//! Few output channels: dot products of windows with the weights, along the channels.

use crate::conv::Problem;
use crate::conv::direct::taps;
use crate::simd::{Isa, Simd, dispatch, fold};
use crate::tasks::{Shared, for_tasks};

/// Neighbouring outputs whose windows see the same elements of the kernel: they share what is read of the weights.
const SIDE: usize = 4;

/// Some outputs.
struct Windows {
    /// The first element of the first window, and the distance of windows.
    x: *const f32,
    step: usize,
    /// The same element of the weights, and the distance of output channels.
    w: *const f32,
    o_step: usize,
    /// How many elements along each dimension, and their distances in the image and in the weights.
    taps: [usize; 3],
    x_steps: [usize; 3],
    w_steps: [usize; 3],
    /// Numbers that follow one another in both.
    run: usize,
    /// Outputs, and the distance of positions.
    y: *mut f32,
    y_step: usize,
}

/// `N` windows with `O` output channels.
#[inline(always)]
unsafe fn dots<S: Simd, const N: usize, const O: usize>(t: &Windows) {
    // SAFETY: the instructions are there.
    let mut sums = unsafe { [[S::zero(); O]; N] };
    for d in 0..t.taps[0] {
        for h in 0..t.taps[1] {
            for w in 0..t.taps[2] {
                // SAFETY: the caller's promise.
                unsafe {
                    let x = t.x.add(d * t.x_steps[0] + h * t.x_steps[1] + w * t.x_steps[2]);
                    let from = t.w.add(d * t.w_steps[0] + h * t.w_steps[1] + w * t.w_steps[2]);
                    let mut i = 0;
                    while i + S::LANES <= t.run {
                        let w: [S::V; O] = std::array::from_fn(|o| S::load(from.add(o * t.o_step + i)));
                        for (k, sums) in sums.iter_mut().enumerate() {
                            let x = S::load(x.add(k * t.step + i));
                            sums.iter_mut().zip(w).for_each(|(sum, w)| *sum = S::fma(x, w, *sum));
                        }
                        i += S::LANES;
                    }
                    if i < t.run {
                        let n = t.run - i;
                        let w: [S::V; O] = std::array::from_fn(|o| S::load_first(from.add(o * t.o_step + i), n));
                        for (k, sums) in sums.iter_mut().enumerate() {
                            let x = S::load_first(x.add(k * t.step + i), n);
                            sums.iter_mut().zip(w).for_each(|(sum, w)| *sum = S::fma(x, w, *sum));
                        }
                    }
                }
            }
        }
    }
    for (k, sums) in sums.into_iter().enumerate() {
        for (o, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *t.y.add(k * t.y_step + o) = fold::<S>(sum, |a, b| a + b) };
        }
    }
}

#[inline(always)]
unsafe fn windows_of<S: Simd, const O: usize>(t: &Windows, count: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match count {
            1 => dots::<S, 1, O>(t),
            2 => dots::<S, 2, O>(t),
            3 => dots::<S, 3, O>(t),
            _ => dots::<S, SIDE, O>(t),
        }
    }
}

#[inline(always)]
unsafe fn windows_body<S: Simd>(t: &Windows, count: usize, outer: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match outer {
            1 => windows_of::<S, 1>(t, count),
            2 => windows_of::<S, 2>(t, count),
            3 => windows_of::<S, 3>(t, count),
            _ => windows_of::<S, { super::FEW }>(t, count),
        }
    }
}
dispatch! {
    /// # Safety
    ///
    /// Up to [`SIDE`] windows and up to [`FEW`](super::FEW) output channels, all inside the operands; nobody else writes the
    /// outputs.
    unsafe fn windows = windows_body(t: &Windows, count: usize, outer: usize)
}

/// The convolution, of one group.
pub(super) fn forward(isa: Isa, p: &Problem, x: &[f32], w: &[f32], y: &mut [f32]) {
    let (g, c, o) = (&p.geometry, p.c, p.o);
    let [depths, high, wide] = g.output;
    let [_, kh, kw] = g.kernel;
    // Elements of a row that are neighbours in the image too are one run.
    let near = g.params.dilation[2] == 1;
    let x_line = [g.input[1] * g.input[2] * c, g.input[2] * c, c];
    let x_steps = [0, 1, 2].map(|d| x_line[d] * g.params.dilation[d]);
    let w_steps = [kh * kw * c, kw * c, c];
    let size = x_line[0] * g.input[0];
    let out = Shared::new(y);
    for_tasks(p.n * depths * high, p.n * g.outputs() * p.patch(c) * o >= 1 << 15, |t| {
        let (image, depth, row) = (t / high / depths, t / high % depths, t % high);
        let x = &x[image * size..][..size];
        let (deep, down) = (taps(g, 0, depth), taps(g, 1, row));
        let mut column = 0;
        while column < wide {
            let across = taps(g, 2, column);
            let alike = |n: &usize| taps(g, 2, column + n) == across;
            let count = (1..SIDE.min(wide - column)).take_while(alike).count() + 1;
            let first = [(0, depth, &deep), (1, row, &down), (2, column, &across)].map(|(d, at, seen)| {
                let place = at * g.params.stride[d] + seen.start * g.params.dilation[d];
                place.saturating_sub(g.params.padding[d].0) * x_line[d]
            });
            let from = deep.start * w_steps[0] + down.start * w_steps[1] + across.start * w_steps[2];
            let mut seen = [deep.len(), down.len(), across.len()];
            let mut run = c;
            if near {
                (run, seen[2]) = (c * seen[2], seen[2].min(1));
            }
            let at = (t * wide + column) * o;
            // Windows that see nothing have no place in the image.
            let empty = seen.contains(&0);
            let (x, w) = if empty { (x, w) } else { (&x[first.iter().sum()..], &w[from..]) };
            // SAFETY: the elements that are seen are inside the image and the weights; tasks write different rows.
            unsafe {
                let t = Windows {
                    x: x.as_ptr(),
                    step: g.params.stride[2] * c,
                    w: w.as_ptr(),
                    o_step: p.patch(c),
                    taps: if empty { [0; 3] } else { seen },
                    x_steps,
                    w_steps,
                    run,
                    y: out.ptr().add(at),
                    y_step: o,
                };
                windows(isa, &t, count, o);
            }
            column += count;
        }
    });
}
