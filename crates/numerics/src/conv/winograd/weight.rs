//! The gradient for the weights, at the points: a product of the transformed gradient and the
//! transformed input over all tiles, then back to nine weights.

use super::tiles::{self, POINTS, Run, SLACK};
use super::{Plan, padded};
use crate::micro::{Product, product};
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_chunks, for_tasks};
use std::ops::Range;

/// Numbers of transformed input and gradient that are kept at once: about what the last cache
/// holds beside the sums.
const KEPT: usize = 3 << 20;

/// Channels that are transposed together.
const GROUP: usize = 16;

/// Points of the sums of all channels, at most, where two threads have sums of their own ([`halves`]).
const OWN: usize = 1 << 18;

/// `dw[o, c] = sum over tiles of Gt [(A g At) * (Bt x B)] G`, for the plan of the forward pass.
pub(in super::super) fn weight_grad(isa: Isa, p: &Plan, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let all = p.images * p.tiles().0;
    assert_eq!(x.len(), p.images * p.group.1 * p.inner * p.input.0 * p.input.1);
    assert_eq!(grad.len(), p.images * p.group.1 * p.outer * p.output.0 * p.output.1);
    assert_eq!(dw.len(), p.outer * p.inner * 9);
    let work = p.inner * p.outer * p.total() >= 1 << 15;
    if all > 1 && work && POINTS * p.outer * p.inner <= OWN {
        return halves(isa, p, x, grad, dw);
    }
    add_up(isa, p, x, grad, 0..all, &Shared::new(dw), work);
}

/// Two halves of the tiles, whose weights are added: two threads have one each, and what they transform stays in their caches. Of what
/// is cut by channels, each needs all that the other transforms: 0.8 ms instead of 0.4 for `3x48x31x31` by `48x48x3x3` on cores
/// that have no cache in common.
fn halves(isa: Isa, p: &Plan, x: &[f32], grad: &[f32], dw: &mut [f32]) {
    let (all, len) = (p.images * p.tiles().0, dw.len());
    let mut second = scratch::take(len);
    let parts = [(0..all.div_ceil(2), Shared::new(dw)), (all.div_ceil(2)..all, Shared::new(&mut second))];
    let half = |t: usize, parallel: bool| {
        let (rows, to) = &parts[t];
        add_up(isa, p, x, grad, rows.clone(), to, parallel);
    };
    // (The same numbers by more of them.)
    if rayon::current_num_threads() <= 2 {
        for_tasks(2, true, |t| half(t, false));
    } else {
        (0..2).for_each(|t| half(t, true));
    }
    for_chunks(dw, len.div_ceil(2), 1, true, |(t, dw)| {
        let second = &second[t * len.div_ceil(2)..];
        dw.iter_mut().zip(second).for_each(|(a, b)| *a += b);
    });
}

/// The gradient over some rows of tiles.
fn add_up(isa: Isa, p: &Plan, x: &[f32], grad: &[f32], of: Range<usize>, dw: &Shared<f32>, work: bool) {
    let (across, all) = (p.tiles().1, of.len());
    let wanted = KEPT / (POINTS * (p.inner + p.outer)) / across;
    // Parts of equal length.
    let parts = all.div_ceil(wanted.clamp(1, all));
    let rows = all.div_ceil(parts);
    let s = Sizes::new(p, rows * across);
    let mut v = scratch::take(POINTS * s.v_point + GROUP * GROUP);
    let mut g = scratch::take(POINTS * s.g_point + SLACK);
    let (v, g) = (Shared::new(&mut v), Shared::new(&mut g));
    if rows == all {
        s.transform(isa, x, grad, of.start, all, &v, &g, work);
        let block = 16.min(p.outer);
        for_tasks(p.outer.div_ceil(block), work, |t| {
            let channels = t * block..p.outer.min((t + 1) * block);
            let point = block * s.s_row + 16;
            let mut sums = scratch::take(POINTS * point + SLACK);
            for i in 0..POINTS {
                // SAFETY: the sizes are those of `Sizes`.
                unsafe {
                    s.multiply(isa, i, channels.clone(), all * across, &v, &g, sums.as_mut_ptr().add(i * point), false)
                }
            }
            for o in channels.clone() {
                // SAFETY: tasks write the weights of different channels.
                unsafe {
                    let from = sums.as_ptr().add((o - channels.start) * s.s_row);
                    tiles::weight_grad(isa, p.inner, from, point, dw.ptr().add(o * p.inner * 9));
                }
            }
        });
        return;
    }
    let point = p.outer * s.s_row + 16;
    let mut sums = scratch::take(POINTS * point + SLACK);
    let sums = Shared::new(&mut sums);
    let block = 64.min(p.outer);
    let blocks = p.outer.div_ceil(block);
    for first in of.clone().step_by(rows) {
        let count = rows.min(of.end - first);
        s.transform(isa, x, grad, first, count, &v, &g, work);
        for_tasks(POINTS * blocks, work, |t| {
            let (i, from) = (t / blocks, t % blocks * block);
            let channels = from..p.outer.min(from + block);
            // SAFETY: tasks add to the sums of different points or channels.
            unsafe {
                let to = sums.ptr().add(i * point + from * s.s_row);
                s.multiply(isa, i, channels, count * across, &v, &g, to, first > of.start);
            }
        });
    }
    for_tasks(p.outer, work, |o| {
        // SAFETY: tasks write the weights of different channels.
        unsafe {
            let from = sums.ptr().add(o * s.s_row);
            tiles::weight_grad(isa, p.inner, from, point, dw.ptr().add(o * p.inner * 9));
        }
    });
}

/// The sizes of the buffers for a part of the tiles.
struct Sizes<'a> {
    plan: &'a Plan,
    /// Tiles, padded.
    tiles: usize,
    /// A row of the transformed input: the channels of one tile.
    v_row: usize,
    v_point: usize,
    g_point: usize,
    /// A row of the sums: input channels.
    s_row: usize,
}

impl Sizes<'_> {
    fn new(plan: &Plan, tiles: usize) -> Sizes<'_> {
        let v_row = plan.inner.next_multiple_of(GROUP) / 32 * 32 + 48;
        let rows = tiles.next_multiple_of(GROUP);
        let tiles = padded(tiles);
        Sizes {
            plan,
            tiles,
            v_row,
            v_point: rows * v_row + 16,
            g_point: plan.outer * tiles + 16,
            s_row: padded(plan.inner),
        }
    }

    /// Transforms the rows of tiles `first .. first + count` of input and gradient.
    #[allow(clippy::too_many_arguments)]
    fn transform(
        &self,
        isa: Isa,
        x: &[f32],
        grad: &[f32],
        first: usize,
        count: usize,
        v: &Shared<f32>,
        g: &Shared<f32>,
        parallel: bool,
    ) {
        let p = self.plan;
        let across = p.tiles().1;
        let run = Run { size: p.input, pad: p.pad, across, first: 0, rows: p.tiles().0.min(count) };
        let (groups, size) = (p.inner.div_ceil(GROUP), p.input.0 * p.input.1);
        for_tasks(groups, parallel, |t| {
            let channels = t * GROUP..p.inner.min((t + 1) * GROUP);
            let mut work = scratch::take(run.scratch());
            let point = GROUP * self.tiles + 16;
            let mut mine = scratch::take(POINTS * point + SLACK);
            for c in channels.clone() {
                p.runs(p.input, first, count, |image, run, at| {
                    let plane = &x[p.plane(p.inner, image, c) * size..][..size];
                    // SAFETY: the plane has the run's size, the buffer room for GROUP rows of tiles.
                    unsafe {
                        let to = mine.as_mut_ptr().add((c - channels.start) * self.tiles + at);
                        tiles::input(isa, &run, plane.as_ptr(), work.as_mut_ptr(), to, point);
                    }
                });
            }
            for i in 0..POINTS {
                // SAFETY: whole squares are inside the buffers, and tasks write different columns.
                unsafe {
                    let (from, to) = (mine.as_ptr().add(i * point), v.ptr().add(i * self.v_point + channels.start));
                    tiles::transpose(isa, GROUP, count * across, from, self.tiles, to, self.v_row);
                }
            }
        });
        let size = p.output.0 * p.output.1;
        for_tasks(p.outer.div_ceil(4), parallel, |t| {
            let mut work = scratch::take(run.scratch());
            for o in t * 4..p.outer.min(t * 4 + 4) {
                p.runs(p.output, first, count, |image, run, at| {
                    let plane = &grad[p.plane(p.outer, image, o) * size..][..size];
                    let run = Run { pad: (0, 0), ..run };
                    // SAFETY: as above; tasks write different channels.
                    unsafe {
                        let to = g.ptr().add(o * self.tiles + at);
                        tiles::output_grad(isa, &run, plane.as_ptr(), work.as_mut_ptr(), to, self.g_point);
                    }
                });
            }
        });
    }

    /// The sums of one point over `tiles` tiles, for some output channels.
    ///
    /// # Safety
    ///
    /// `to` has room for a row a channel, and nobody else uses it.
    #[allow(clippy::too_many_arguments)]
    unsafe fn multiply(
        &self,
        isa: Isa,
        point: usize,
        channels: std::ops::Range<usize>,
        tiles: usize,
        v: &Shared<f32>,
        g: &Shared<f32>,
        to: *mut f32,
        add: bool,
    ) {
        // SAFETY: by the caller's promise and the sizes above.
        unsafe {
            let one = Product {
                m: channels.len(),
                n: self.plan.inner.next_multiple_of(GROUP),
                k: tiles,
                a: g.ptr().add(point * self.g_point + channels.start * self.tiles),
                a_steps: (self.tiles, 1),
                b: v.ptr().add(point * self.v_point),
                b_row: self.v_row,
                c: to,
                c_row: self.s_row,
                add,
            };
            product(isa, &one);
        }
    }
}
