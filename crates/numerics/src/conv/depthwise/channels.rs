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
    x: u32,
    w: u32,
}

/// What is done to every plane, or every block of planes of deeper arrays.
pub(super) struct Plan {
    tiles: Vec<Tile>,
    terms: Vec<Term>,
    /// Rows (of all planes) and columns of the source.
    source: (usize, usize),
    /// Columns of zeros left of it, and the width with all zeros.
    left: usize,
    width: usize,
    outputs: usize,
    kernel: usize,
}

/// What the positions along an axis see: the elements of the kernel, and the places in the source.
type Seen = Vec<Vec<(usize, usize)>>;

/// Rows of a plan, and what their outputs see.
struct Rows {
    depth: Seen,
    height: Seen,
    /// Every set of columns: they see the same elements of a kernel's row. The first of set `v` is column `v`.
    columns: Seen,
    /// From column to column of a set: in the source, and of the outputs.
    steps: (usize, usize),
    /// Rows of a plane of the source, and columns of the outputs.
    high: usize,
    wide: usize,
    kernel: [usize; 3],
}

/// The first position along an axis that sees the same elements as each.
fn alike(seen: &Seen) -> Vec<usize> {
    let same = |a: &[(usize, usize)], b: &[(usize, usize)]| a.iter().map(|s| s.0).eq(b.iter().map(|s| s.0));
    seen.iter().map(|s| seen.iter().position(|t| same(s, t)).unwrap_or(0)).collect()
}

impl Plan {
    fn new(g: &Geometry, source: [usize; 3], outputs: usize) -> Plan {
        let (kernel, source) = (g.kernel.iter().product(), (source[0] * source[1], source[2]));
        Plan { tiles: vec![], terms: vec![], source, left: 0, width: source.1, outputs, kernel }
    }

    /// Adds `count` outputs from `y` on, in tiles, that have the terms `first .. end`.
    fn add(
        &mut self,
        count: usize,
        x: usize,
        y: usize,
        (x_step, y_step): (usize, usize),
        (first, end): (usize, usize),
    ) {
        let tiles = count.div_ceil(SIDE);
        let mut at = 0;
        for t in 0..tiles {
            let n = (count - at).div_ceil(tiles - t);
            self.tiles.push(Tile { count: n, x: x + at * x_step, x_step, y: y + at * y_step, y_step, first, end });
            at += n;
        }
    }

    /// Adds all rows. Those that see the same elements share their terms: of a cube of 10 with kernels of 5, 25 lists serve
    /// 100 rows.
    fn add_rows(&mut self, rows: &Rows) {
        let (deep, high) = (alike(&rows.depth), alike(&rows.height));
        let [_, kh, kw] = rows.kernel;
        let (down, sets) = (rows.height.len(), rows.columns.len());
        let mut known = vec![None; rows.depth.len() * down * sets];
        for (a, depths) in rows.depth.iter().enumerate() {
            for (b, heights) in rows.height.iter().enumerate() {
                // Places are counted from the first that is seen.
                let (d0, h0) = (depths.first().map_or(0, |s| s.1), heights.first().map_or(0, |s| s.1));
                for (v, columns) in rows.columns.iter().enumerate() {
                    let terms = *known[(deep[a] * down + high[b]) * sets + v].get_or_insert_with(|| {
                        let first = self.terms.len();
                        for (&(i, d), &(j, h)) in depths.iter().flat_map(|d| heights.iter().map(move |h| (d, h))) {
                            let (x, w) = (((d - d0) * rows.high + h - h0) * self.width, (i * kh + j) * kw);
                            self.terms
                                .extend(columns.iter().map(|&(k, c)| Term { x: (x + c) as u32, w: (w + k) as u32 }));
                        }
                        (first, self.terms.len())
                    });
                    let (x, y) = ((d0 * rows.high + h0) * self.width, (a * down + b) * rows.wide + v);
                    self.add((rows.wide - v).div_ceil(rows.steps.1), x, y, rows.steps, terms);
                }
            }
        }
    }

    /// The convolution, if this takes less time than going by rows.
    pub fn forward(g: &Geometry, lanes: usize) -> Option<Plan> {
        let (stride, dilation, pad) = (g.params.stride[2], g.params.dilation[2], g.params.padding[2].0);
        let [_, _, wide] = g.output;
        let seen = |d: usize| -> Seen {
            let at = |o: usize| (0..g.kernel[d]).filter_map(move |k| Some((k, g.source(d, o, k)?)));
            (0..g.output[d]).map(|o| at(o).collect()).collect()
        };
        let (depth, height) = (seen(0), seen(1));
        // Strided vectors are put together from two.
        let reads = g.kernel.iter().product::<usize>() * stride.min(2);
        if !pays(g, (g.input, g.output), [&depth, &height].map(terms), g.kernel[2], lanes, reads) {
            return None;
        }
        let mut plan = Plan::new(g, g.input, g.outputs());
        plan.left = pad;
        plan.width = ((wide - 1) * stride + (g.kernel[2] - 1) * dilation + 1).max(pad + g.input[2]);
        let columns = vec![(0..g.kernel[2]).map(|k| (k, k * dilation)).collect()];
        let (high, kernel) = (g.input[1], g.kernel);
        plan.add_rows(&Rows { depth, height, columns, steps: (stride, 1), high, wide, kernel });
        Some(plan)
    }

    /// The gradient for the input, if this takes less time than going by rows.
    pub fn backward(g: &Geometry, lanes: usize) -> Option<Plan> {
        let [_, _, wide] = g.input;
        if g.inputs() == 0 {
            return None;
        }
        // The source of input position `u` under element `k`, if there is one.
        let source = |d: usize, u: usize, k: usize| {
            let (at, stride) =
                ((u + g.params.padding[d].0) as isize - (k * g.params.dilation[d]) as isize, g.params.stride[d]);
            (at.rem_euclid(stride as isize) == 0).then_some(at.div_euclid(stride as isize))
        };
        let seen = |d: usize| -> Seen {
            let inside = |s: isize| usize::try_from(s).ok().filter(|&s| s < g.output[d]);
            // The last element comes first in the source.
            let at = |u: usize| (0..g.kernel[d]).rev().filter_map(move |k| Some((k, inside(source(d, u, k)?)?)));
            (0..g.input[d]).map(|u| at(u).collect()).collect()
        };
        let (depth, height) = (seen(0), seen(1));
        let (step, reads) = (g.params.stride[2], g.kernel.iter().product());
        let across = g.kernel[2].div_ceil(step);
        if !pays(g, (g.output, g.input), [&depth, &height].map(terms), across, lanes, reads) {
            return None;
        }
        let mut plan = Plan::new(g, g.output, g.inputs());
        let all = || (0..step.min(wide)).flat_map(|v| (0..g.kernel[2]).filter_map(move |k| source(2, v, k)));
        plan.left = (-all().min().unwrap_or(0)).max(0) as usize;
        let last = all().max().unwrap_or(0) + wide.div_ceil(step) as isize;
        plan.width = plan.left + last.max(g.output[2] as isize) as usize;
        let place = |v: usize, k: usize| source(2, v, k).map(|c| (k, (c + plan.left as isize) as usize));
        let columns = (0..step.min(wide)).map(|v| (0..g.kernel[2]).filter_map(|k| place(v, k)).collect()).collect();
        let (high, kernel) = (g.output[1], g.kernel);
        plan.add_rows(&Rows { depth, height, columns, steps: (1, step), high, wide, kernel });
        Some(plan)
    }
}

/// One plane deep.
pub(super) fn is_flat(g: &Geometry) -> bool {
    g.kernel[0] == 1 && g.input[0] == 1 && g.output[0] == 1 && g.params.padding[0] == (0, 0)
}

/// Elements that all positions along an axis see.
fn terms(seen: &Seen) -> usize {
    seen.iter().map(Vec::len).sum()
}

/// The most numbers of a channel, before and after, that are transposed at once: 512 KiB of them stay in the second cache.
const MOST: usize = 1 << 13;

/// Whether cycles for as many planes as lanes are fewer than those by rows, whose vectors are read
/// `reads` times: estimates. `seen` are the elements that positions of the first two axes see, `across` those of a row.
fn pays(
    g: &Geometry,
    (source, output): ([usize; 3], [usize; 3]),
    seen: [usize; 2],
    across: usize,
    lanes: usize,
    reads: usize,
) -> bool {
    let volume = |s: [usize; 3]| s.iter().product::<usize>();
    let [deep, high, wide] = output;
    let turning = (volume(source) + volume(output)) * 12;
    let sums = seen[0] * seen[1] * wide * across;
    // There, the planes that an output's plane sees are copied for each.
    let copied = deep * g.kernel[0] * source[1] * 4;
    // And every plane is begun: 40x144x24 with kernels of 7 took 0.14 ms by rows, 0.05 this way.
    let begun = deep * 60;
    let by_rows = lanes * (deep * high * (wide.div_ceil(lanes) * (reads * 5 / 4 + 6) + 6) + copied + begun);
    volume(source) + volume(output) <= MOST && turning + sums * 6 / 5 < by_rows
}

#[inline(always)]
unsafe fn tile<S: Simd, const N: usize>(plan: &Plan, t: &Tile, x: *const f32, w: *const f32, y: *mut f32) {
    // SAFETY: the plan's places are inside the buffers.
    unsafe {
        let x = x.add(t.x * S::LANES);
        let step = t.x_step * S::LANES;
        let mut sums = [S::zero(); N];
        for term in plan.terms.get_unchecked(t.first..t.end) {
            let (x, w) = (x.add(term.x as usize * S::LANES), S::load(w.add(term.w as usize * S::LANES)));
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
                let source = x[plane * inputs..].as_ptr();
                if plan.width == plan.source.1 {
                    turn(isa, n, inputs, source, inputs, framed.as_mut_ptr(), lanes);
                } else {
                    turn(isa, n, inputs, source, inputs, turned.as_mut_ptr(), lanes);
                    frame(isa, plan, turned.as_ptr(), framed.as_mut_ptr());
                }
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
