//! Depthwise convolution with channels in the lanes, for small planes: planes of as many channels
//! are transposed, so that no lane is idle whatever the plane's width, and rows of the kernel that
//! lie on zeros are left out.

use super::super::patches::Geometry;
use super::super::turn::turn;
use crate::epilogue::Epilogue;
use crate::scratch;
use crate::simd::{Isa, Simd, dispatch};
use crate::tasks::{Shared, for_tasks};

/// Up to this many neighbouring outputs are summed up side by side.
const SIDE: usize = 8;

/// Some outputs of a row that have their sums' terms alike.
struct Tile {
    count: usize,
    /// The place of the first output's window, and the step from window to window.
    x: usize,
    x_step: usize,
    y: usize,
    y_step: usize,
    /// Which of the terms.
    first: usize,
    end: usize,
}

/// A term of a sum: its place in a window, and the element of the kernel.
struct Term {
    x: usize,
    w: usize,
}

/// What is done to every plane.
pub(super) struct Plan {
    tiles: Vec<Tile>,
    terms: Vec<Term>,
    /// Rows and columns of the source.
    source: (usize, usize),
    /// Columns of zeros left of it, and the width with all zeros.
    left: usize,
    width: usize,
    outputs: usize,
    kernel: usize,
}

impl Plan {
    fn new(g: &Geometry, source: (usize, usize), outputs: usize) -> Plan {
        let kernel = g.kernel.iter().product();
        Plan { tiles: vec![], terms: vec![], source, left: 0, width: source.1, outputs, kernel }
    }

    /// Adds `count` outputs from `y` on, in tiles, that have the terms from `first` on.
    fn add(&mut self, count: usize, (x, x_step): (usize, usize), (y, y_step): (usize, usize), first: usize) {
        let (tiles, end) = (count.div_ceil(SIDE), self.terms.len());
        let mut at = 0;
        for t in 0..tiles {
            let n = (count - at).div_ceil(tiles - t);
            self.tiles.push(Tile { count: n, x: x + at * x_step, x_step, y: y + at * y_step, y_step, first, end });
            at += n;
        }
    }

    /// The convolution, if this takes less time than going by rows.
    pub fn forward(g: &Geometry, lanes: usize) -> Option<Plan> {
        let ([_, high, wide], [_, kh, kw]) = (g.output, g.kernel);
        let (stride, dilation, pad) = (g.params.stride[2], g.params.dilation[2], g.params.padding[2].0);
        // Strided vectors are put together from two.
        let reads = kh * kw * stride.min(2);
        if !is_flat(g) || !pays([g.input[1], g.input[2]], [high, wide], g.outputs() * kh * kw, lanes, reads) {
            return None;
        }
        let mut plan = Plan::new(g, (g.input[1], g.input[2]), g.outputs());
        plan.left = pad;
        plan.width = ((wide - 1) * stride + (kw - 1) * dilation + 1).max(pad + g.input[2]);
        for h in 0..high {
            let first = plan.terms.len();
            for (k, row) in (0..kh).filter_map(|k| Some((k, g.source(1, h, k)?))) {
                plan.terms.extend((0..kw).map(|w| Term { x: row * plan.width + w * dilation, w: k * kw + w }));
            }
            plan.add(wide, (0, stride), (h * wide, 1), first);
        }
        Some(plan)
    }

    /// The gradient for the input, if this takes less time than going by rows.
    pub fn backward(g: &Geometry, lanes: usize) -> Option<Plan> {
        let ([_, high, wide], [_, kh, kw]) = (g.input, g.kernel);
        let ([_, sh, sw], [_, dh, dw]) = (g.params.stride, g.params.dilation);
        let (top, left) = (g.params.padding[1].0, g.params.padding[2].0);
        let sums = high * wide * kh.div_ceil(sh) * kw.div_ceil(sw);
        if !is_flat(g) || g.inputs() == 0 || !pays([g.output[1], g.output[2]], [high, wide], sums, lanes, kh * kw) {
            return None;
        }
        let mut plan = Plan::new(g, (g.output[1], g.output[2]), g.inputs());
        // The source column of input column `v` under element `k`, if there is one; and how far they go.
        let column = |v: usize, k: usize| {
            let at = (v + left) as isize - (k * dw) as isize;
            (at.rem_euclid(sw as isize) == 0).then_some(at.div_euclid(sw as isize))
        };
        let all = || (0..sw.min(wide)).flat_map(|v| (0..kw).filter_map(move |k| column(v, k)));
        plan.left = (-all().min().unwrap_or(0)).max(0) as usize;
        let last = all().max().unwrap_or(0) + wide.div_ceil(sw) as isize;
        plan.width = plan.left + last.max(g.output[2] as isize) as usize;
        for u in 0..high {
            for v in 0..sw.min(wide) {
                let first = plan.terms.len();
                for k in 0..kh {
                    let at = (u + top) as isize - (k * dh) as isize;
                    let (row, rest) = (at.div_euclid(sh as isize), at.rem_euclid(sh as isize));
                    if rest != 0 || row < 0 || row >= g.output[1] as isize {
                        continue;
                    }
                    for w in 0..kw {
                        if let Some(c) = column(v, w) {
                            let x = row as usize * plan.width + (c + plan.left as isize) as usize;
                            plan.terms.push(Term { x, w: k * kw + w });
                        }
                    }
                }
                plan.add((wide - v).div_ceil(sw), (0, 1), (u * wide + v, sw), first);
            }
        }
        Some(plan)
    }
}

/// One plane deep.
pub(super) fn is_flat(g: &Geometry) -> bool {
    g.kernel[0] == 1 && g.input[0] == 1 && g.output[0] == 1 && g.params.padding[0] == (0, 0)
}

/// Whether cycles for as many planes as lanes are fewer than those by rows, whose vectors are read
/// `reads` times: estimates.
fn pays(source: [usize; 2], [high, wide]: [usize; 2], sums: usize, lanes: usize, reads: usize) -> bool {
    let turning = (source[0] * source[1] + high * wide) * 12;
    let by_rows = lanes * (high * (wide.div_ceil(lanes) * (reads * 5 / 4 + 6) + 6) + source[0] * 4);
    high * wide <= 1 << 10 && turning + sums * 6 / 5 < by_rows
}

#[inline(always)]
unsafe fn tile<S: Simd, const N: usize>(plan: &Plan, t: &Tile, x: *const f32, w: *const f32, y: *mut f32) {
    // SAFETY: the plan's places are inside the buffers.
    unsafe {
        let x = x.add(t.x * S::LANES);
        let step = t.x_step * S::LANES;
        let mut sums = [S::zero(); N];
        for term in plan.terms.get_unchecked(t.first..t.end) {
            let (x, w) = (x.add(term.x * S::LANES), S::load(w.add(term.w * S::LANES)));
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = S::fma(S::load(x.add(i * step)), w, *sum);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            S::store(y.add((t.y + i * t.y_step) * S::LANES), sum);
        }
    }
}

/// All outputs of transposed planes.
#[inline(always)]
unsafe fn planes_body<S: Simd>(plan: &Plan, x: *const f32, w: *const f32, y: *mut f32) {
    for t in &plan.tiles {
        // SAFETY: the caller's promise.
        unsafe {
            match t.count {
                1 => tile::<S, 1>(plan, t, x, w, y),
                2 => tile::<S, 2>(plan, t, x, w, y),
                3 => tile::<S, 3>(plan, t, x, w, y),
                4 => tile::<S, 4>(plan, t, x, w, y),
                5 => tile::<S, 5>(plan, t, x, w, y),
                6 => tile::<S, 6>(plan, t, x, w, y),
                7 => tile::<S, 7>(plan, t, x, w, y),
                _ => tile::<S, 8>(plan, t, x, w, y),
            }
        }
    }
}
dispatch!(unsafe fn planes = planes_body(plan: &Plan, x: *const f32, w: *const f32, y: *mut f32));

/// Copies transposed rows to their places between the zeros.
#[inline(always)]
unsafe fn frame_body<S: Simd>(plan: &Plan, from: *const f32, to: *mut f32) {
    let (high, wide) = plan.source;
    for r in 0..high {
        // SAFETY: the caller's buffers have these sizes.
        unsafe {
            let (from, to) = (from.add(r * wide * S::LANES), to.add((r * plan.width + plan.left) * S::LANES));
            for i in 0..wide {
                S::store(to.add(i * S::LANES), S::load(from.add(i * S::LANES)));
            }
        }
    }
}
dispatch!(unsafe fn frame = frame_body(plan: &Plan, from: *const f32, to: *mut f32));

/// Outputs of one channel through the epilogue, where they lie.
#[inline(always)]
unsafe fn finish_body<S: Simd>(e: &Epilogue<'_>, channel: usize, at: usize, n: usize, y: *mut f32) {
    for i in (0..n).step_by(S::LANES) {
        let left = (n - i).min(S::LANES);
        // SAFETY: the caller gives that many outputs.
        unsafe {
            let v = e.channel::<S>(S::load_first(y.add(at + i), left), channel, at + i, left);
            S::store_first(y.add(at + i), v, left);
        }
    }
}
dispatch!(unsafe fn finish = finish_body(e: &Epilogue<'_>, channel: usize, at: usize, n: usize, y: *mut f32));

/// Carries out a plan on all planes of `x`.
pub(super) fn run(isa: Isa, plan: &Plan, channels: usize, x: &[f32], w: &[f32], y: &mut [f32], e: &Epilogue<'_>) {
    let (lanes, inputs, outputs) = (isa.lanes(), plan.source.0 * plan.source.1, plan.outputs);
    let images = y.len() / (channels * outputs).max(1);
    assert_eq!((x.len(), w.len()), (images * channels * inputs, channels * plan.kernel), "the operands' sizes");
    let blocks = channels.div_ceil(lanes);
    // Images that share the transposed kernels; at least 16 tasks where there are as many.
    let some = (images * blocks / 16).clamp(1, 4).min(images.max(1));
    let out = Shared::new(y);
    let parallel = images * channels * (outputs + inputs) >= 1 << 13;
    for_tasks(blocks * images.div_ceil(some), parallel, |t| {
        let (block, first) = (t % blocks, t / blocks * some);
        let from = block * lanes;
        let n = lanes.min(channels - from);
        let mut kernels = scratch::take(plan.kernel * lanes);
        let mut turned = scratch::take(inputs.max(outputs) * lanes);
        let mut framed = scratch::take(plan.source.0 * plan.width * lanes);
        framed.fill(0.0);
        // SAFETY: the buffers have room for these planes, and tasks write different ones.
        unsafe {
            turn(isa, n, plan.kernel, w[from * plan.kernel..].as_ptr(), plan.kernel, kernels.as_mut_ptr(), lanes);
            for image in first..images.min(first + some) {
                let plane = image * channels + from;
                turn(isa, n, inputs, x[plane * inputs..].as_ptr(), inputs, turned.as_mut_ptr(), lanes);
                frame(isa, plan, turned.as_ptr(), framed.as_mut_ptr());
                planes(isa, plan, framed.as_ptr(), kernels.as_ptr(), turned.as_mut_ptr());
                turn(isa, outputs, n, turned.as_ptr(), lanes, out.ptr().add(plane * outputs), outputs);
                if e.is_none() {
                    continue;
                }
                for c in 0..n {
                    let at = (plane + c) * outputs;
                    if !e.is_only_then() {
                        finish(isa, e, from + c, at, outputs, out.ptr());
                    }
                    e.call(plane + c, 0..outputs, out.ptr().add(at));
                }
            }
        }
    });
}
