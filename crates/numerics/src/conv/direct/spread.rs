//! The gradient for the input of strided convolutions: positions of all residues modulo the stride
//! together, with input channels in the lanes.

use super::frame::{Block, Blocks, Frame, Places, fill};
use super::grid::{Axis, grid};
use super::indexed::{Indexed, Place, count_panels, for_panels, for_some_panels, indexed};
use super::panels::{self, FRAMED, Panelled, Sizes};
use super::turned::{Turned, pack_kernels};
use crate::conv::Problem;
use crate::conv::patches::Geometry;
use crate::conv::turn::turn;
use crate::scratch;
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use std::ops::Range;

/// Input positions of a block.
const POSITIONS: usize = 192;

/// The longest part of a sum that is taken at once.
const DEEP: usize = 512;

/// More weights of a group than that are taken panel by panel.
const MANY: usize = 1 << 16;

/// Windows of a block that see the same elements, about: several images where each has fewer.
const ALIKE: usize = 8;

/// The most kinds of rows or columns that are told apart.
const KINDS: usize = 16;

/// Whether two positions see the same elements of the kernel.
fn alike(axis: &Axis, a: usize, b: usize) -> bool {
    (a + axis.pad) % axis.stride == (b + axis.pad) % axis.stride && axis.seen(a).eq(axis.seen(b))
}

/// Positions along an axis by kind: those that see the same elements of the kernel.
struct Kinds {
    /// Places on the grid, and positions.
    places: Places,
    /// A position of each kind, and where the kind's places end.
    kinds: [(usize, usize); KINDS],
    count: usize,
}

// SAFETY: read only, once made.
unsafe impl Sync for Kinds {}

impl Kinds {
    /// `None` if there are too many kinds.
    fn new(axis: &Axis, positions: Range<usize>) -> Option<Kinds> {
        let (mut kinds, mut count) = ([(0, 0); KINDS], 0);
        for u in positions.clone() {
            if !kinds[..count].iter().any(|&(kind, _)| alike(axis, kind, u)) {
                kinds.get_mut(count)?.0 = u;
                count += 1;
            }
        }
        let mut places = Places::new(positions.len());
        for (kind, end) in &mut kinds[..count] {
            positions.clone().filter(|&u| alike(axis, *kind, u)).for_each(|u| places.push(axis.place(u), u));
            *end = places.len();
        }
        Some(Kinds { places, kinds, count })
    }

    /// How many there are.
    fn count(axis: &Axis) -> usize {
        (0..axis.input).filter(|&u| (0..u).all(|before| !alike(axis, before, u))).count()
    }

    /// A position of each kind, and the places of that kind.
    fn iter(&self) -> impl Iterator<Item = (usize, &[Place])> {
        let mut from = 0;
        self.kinds[..self.count].iter().map(move |&(kind, end)| {
            let places = &self.places[from..end];
            from = end;
            (kind, places)
        })
    }
}

/// The problem, on the grid.
struct Job<'a> {
    p: &'a Problem,
    rows: Axis,
    columns: Axis,
    grid: Geometry,
}

/// The gradient for the input; `false` where it cannot or should not be had this way.
pub(super) fn input_grad(isa: Isa, p: &Problem, grad: &[f32], w: &[f32], dx: &mut [f32]) -> bool {
    let g = &p.geometry;
    let wasted = p.c.next_multiple_of(isa.lanes()) - p.c;
    // A stride beyond the kernel leaves positions without any sum.
    let dense = (0..3).all(|d| g.params.stride[d] <= g.kernel[d]);
    if !dense || p.o == 0 || wasted > 4 + p.c / 4 {
        return false;
    }
    let Some((rows, columns, grid)) = grid(g) else { return false };
    let job = Job { p, rows, columns, grid };
    assert_eq!(grad.len(), p.n * p.groups * p.o * p.outputs(), "the gradient's size");
    assert_eq!(dx.len(), p.n * p.groups * p.c * g.inputs(), "the input's size");
    job.run(isa, grad, w, &Shared::new(dx))
}

impl Job<'_> {
    fn run(&self, isa: Isa, grad: &[f32], w: &[f32], dx: &Shared<f32>) -> bool {
        let (p, lanes) = (self.p, isa.lanes());
        let kernel = self.rows.kernel * self.columns.kernel;
        let (depth, row) = (p.o * kernel, p.c.next_multiple_of(lanes));
        let vectors = row / lanes;
        let panels = count_panels(vectors);
        let cell = self.rows.stride * self.columns.stride;
        // More of them where there are few channels: their sums are as many.
        let most = POSITIONS * (3 / vectors).max(1);
        let wanted = (p.n * p.groups * p.geometry.inputs()).div_ceil(16).clamp(64, most).div_ceil(cell);
        let [_, high, wide] = self.grid.output;
        // Windows of a block that see the same are multiplied together.
        let kinds = Kinds::count(&self.rows) * Kinds::count(&self.columns);
        let images = (ALIKE * kinds).div_ceil(p.geometry.inputs()).min(ALIKE);
        let wanted = if images > 1 { wanted.max(high * wide * images.min(p.n)) } else { wanted };
        let blocks = if high * wide * 2 <= wanted {
            Blocks::new(p.n, self.grid.output, wanted)
        } else {
            Blocks::of_rows(p.n, self.grid.output, wanted.div_ceil(wide))
        };
        let part = p.o.div_ceil(depth.div_ceil(DEEP));
        let step = p.groups * p.o * p.outputs();
        let work = p.n * p.groups * p.o * p.outputs() * p.c * kernel;
        if w.len() / p.groups > MANY
            && let Some(done) = self.by_panels(isa, &blocks, part, (grad, w, dx), work >= 1 << 16)
        {
            return done;
        }
        let frame = Frame::new(&self.grid, &blocks, part);
        let Some(classes) = Classes::new(self, &frame, part) else { return false };
        // Weights with the input channels in the lanes: a row for each output channel and element.
        let mut packed = scratch::take(p.groups * row * depth);
        let packed = Shared::new(&mut packed);
        for_tasks(p.groups * p.o, w.len() >= 1 << 14, |t| {
            let (group, o) = (t / p.o, t % p.o);
            for_panels(vectors, |vector, n| {
                let from = vector * lanes;
                let count = (p.c - from).min(n * lanes);
                // SAFETY: the matrix is inside the weights, and tasks write different rows.
                unsafe {
                    let to = packed.ptr().add((group * row + from) * depth + o * kernel * n * lanes);
                    let from = w[(t * p.c + from) * kernel..][..count * kernel].as_ptr();
                    turn(isa, count, kernel, from, kernel, to, n * lanes);
                }
            });
        });
        let count = p.groups * blocks.count();
        let some = panels.div_ceil(8usize.div_ceil(count).min(panels));
        let parts = panels.div_ceil(some);
        for_tasks(count * parts, work >= 1 << 16, |t| {
            let (t, mine) = (t / parts, t % parts * some..(t % parts + 1) * some);
            let (group, block) = (t % p.groups, blocks.get(t / p.groups));
            let rows = self.rows.positions(block.rows.clone());
            let positions = rows.len() * self.columns.input;
            let windows = classes.windows(&frame, &block, rows.clone(), self.columns.input);
            let mut framed = scratch::take(frame.len());
            let mut sums = scratch::take(block.images.len() * positions * row);
            let mut done = 0..0;
            for first in (0..p.o).step_by(part) {
                let channels = first..p.o.min(first + part);
                let from = group * p.o;
                // SAFETY: the frame has this length, and places in it are those of its windows; the
                // buffers have a row for each element and position.
                unsafe {
                    let (from, end) = (from + channels.start, from + channels.end);
                    fill(isa, &frame, &block, grad, step, from..end, framed.as_mut_ptr());
                    done = for_some_panels(vectors, mine.clone(), |vector, n| {
                        let b = packed.ptr().add((group * row + vector * lanes) * depth + first * kernel * n * lanes);
                        let c = (sums.as_mut_ptr().add(vector * lanes), row);
                        classes.multiply(isa, &windows, framed.as_ptr(), (b, n), c, channels.len(), first > 0);
                    });
                }
            }
            let done = done.start * lanes..p.c.min(done.end * lanes);
            // SAFETY: tasks write different rows or channels of the images.
            unsafe { self.write(isa, group, &block, done.clone(), sums.as_ptr().add(done.start), row, dx) };
        });
        true
    }

    /// Many weights, panel by panel; `None` where frames would be too large, and whether it could be done otherwise.
    fn by_panels(
        &self,
        isa: Isa,
        blocks: &Blocks,
        part: usize,
        (grad, w, dx): (&[f32], &[f32], &Shared<f32>),
        parallel: bool,
    ) -> Option<bool> {
        let p = self.p;
        let kernel = self.rows.kernel * self.columns.kernel;
        let frame = Frame::new(&self.grid, blocks, p.o);
        if p.groups * blocks.count() * frame.len() > FRAMED {
            return None;
        }
        let Some(classes) = Classes::new(self, &frame, part) else { return Some(false) };
        let high = (0..blocks.count()).map(|b| self.rows.positions(blocks.get(b).rows).len()).max().unwrap_or(0);
        let sizes = Sizes {
            groups: p.groups,
            blocks: blocks.count(),
            windows: blocks.size[0] * high * self.columns.input,
            rows: p.c,
            channels: p.o,
            part,
            kernel,
            frame: frame.len(),
            channel: frame.channel,
        };
        let taps: Vec<usize> = (0..kernel).collect();
        let turned = Turned { size: kernel, taps: &taps };
        panels::run(isa, parallel, &sizes, &Spread { job: self, blocks, frame, classes, turned, grad, w, dx });
        Some(true)
    }

    /// Transposes the sums of some channels of a block's positions and writes them to their places.
    ///
    /// # Safety
    ///
    /// `sums` has a number for each of the channels in each of its rows, one for each position; nobody else writes there.
    #[allow(clippy::too_many_arguments)]
    unsafe fn write(
        &self,
        isa: Isa,
        group: usize,
        block: &Block,
        channels: Range<usize>,
        sums: *const f32,
        row: usize,
        dx: &Shared<f32>,
    ) {
        let (p, rows) = (self.p, self.rows.positions(block.rows.clone()));
        let (inputs, positions) = (p.geometry.inputs(), rows.len() * self.columns.input);
        for (i, image) in block.images.clone().enumerate() {
            let plane = (image * p.groups + group) * p.c + channels.start;
            // SAFETY: the caller's promise.
            unsafe {
                let to = dx.ptr().add(plane * inputs + rows.start * self.columns.input);
                turn(isa, positions, channels.len(), sums.add(i * positions * row), row, to, inputs);
            }
        }
    }
}

/// A [`Job`] over panels of weights.
struct Spread<'a> {
    job: &'a Job<'a>,
    blocks: &'a Blocks,
    frame: Frame<'a>,
    classes: Classes,
    turned: Turned<'a>,
    grad: &'a [f32],
    w: &'a [f32],
    dx: &'a Shared<f32>,
}

impl Panelled for Spread<'_> {
    type Windows = Windows;

    fn windows(&self, block: usize) -> Windows {
        let block = self.blocks.get(block);
        let rows = self.job.rows.positions(block.rows.clone());
        self.classes.windows(&self.frame, &block, rows, self.job.columns.input)
    }

    unsafe fn fill(&self, isa: Isa, group: usize, block: usize, to: *mut f32) {
        let p = self.job.p;
        let (step, from) = (p.groups * p.o * p.outputs(), group * p.o);
        // SAFETY: the caller's promise.
        unsafe { fill(isa, &self.frame, &self.blocks.get(block), self.grad, step, from..from + p.o, to) }
    }

    unsafe fn pack(&self, isa: Isa, group: usize, (vector, n): (usize, usize), channels: Range<usize>, to: *mut f32) {
        let (p, size, from) = (self.job.p, self.turned.size, vector * isa.lanes());
        let (rows, row) = ((p.c - from).min(n * isa.lanes()), n * isa.lanes());
        let data = &self.w[((group * p.o + channels.start) * p.c + from) * size..];
        // SAFETY: the caller's promise.
        unsafe { pack_kernels(isa, data, (rows, channels.len(), p.c * size), self.turned, (to, row)) }
    }

    unsafe fn multiply(
        &self,
        isa: Isa,
        windows: &Windows,
        a: *const f32,
        b: (*const f32, usize),
        c: (*mut f32, usize),
        channels: usize,
        add: bool,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.classes.multiply(isa, windows, a, b, c, channels, add) }
    }

    unsafe fn finish(&self, isa: Isa, group: usize, block: usize, rows: Range<usize>, sums: *const f32, row: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.job.write(isa, group, &self.blocks.get(block), rows, sums, row, self.dx) }
    }
}

/// The windows of a block's positions, class by class, and where each class ends.
struct Windows {
    places: Places,
    ends: Places,
}

/// Positions by what they see, and the elements they see.
struct Classes {
    high: Kinds,
    wide: Kinds,
    /// Those of each kind of rows, and in it of columns; and where they end.
    elements: Places,
    ends: Places,
    /// Channels whose elements there are.
    channels: usize,
}

// SAFETY: read only, once made.
unsafe impl Sync for Classes {}

impl Classes {
    /// `None` if there are too many kinds.
    fn new(job: &Job<'_>, frame: &Frame<'_>, channels: usize) -> Option<Classes> {
        let (down, across) = (&job.rows, &job.columns);
        let (high, wide) = (Kinds::new(down, 0..down.input)?, Kinds::new(across, 0..across.input)?);
        let kernel = down.kernel * across.kernel;
        let mut elements = Places::new(high.count * wide.count * channels * kernel);
        let mut ends = Places::new(high.count * wide.count);
        let [_, tall, broad] = job.grid.kernel;
        for (u, _) in high.iter() {
            for (v, _) in wide.iter() {
                for c in 0..channels {
                    for (kh, up) in down.seen(u) {
                        for (kw, left) in across.seen(v) {
                            let at = frame.element(c, tall - 1 - up, broad - 1 - left);
                            elements.push(at, c * kernel + kh * across.kernel + kw);
                        }
                    }
                }
                ends.push(0, elements.len());
            }
        }
        Some(Classes { high, wide, elements, ends, channels })
    }

    /// The sums of a block's windows over `channels` channels, for a panel `b` of weights: rows of `c`.
    ///
    /// # Safety
    ///
    /// `a` is a frame of that block, `b` has a row of that many vectors for each element of the channels, and `c` has one
    /// for each window, used by nobody else.
    #[allow(clippy::too_many_arguments)]
    unsafe fn multiply(
        &self,
        isa: Isa,
        windows: &Windows,
        a: *const f32,
        (b, vectors): (*const f32, usize),
        (c, c_row): (*mut f32, usize),
        channels: usize,
        add: bool,
    ) {
        let (mut window, mut element) = (0, 0);
        for (end, windows_end) in self.ends.iter().zip(windows.ends.iter()) {
            let rows = &windows.places[window..windows_end.at as usize];
            let elements = &self.elements[element..end.row as usize];
            (window, element) = (windows_end.at as usize, end.row as usize);
            let columns = &elements[..elements.len() / self.channels * channels];
            let p = Indexed { a, rows, columns, b, b_row: vectors * isa.lanes(), c, c_row, vectors, add };
            // SAFETY: the caller's promise.
            unsafe { indexed(isa, &p) };
        }
    }

    /// The windows of a block's rows.
    fn windows(&self, frame: &Frame<'_>, block: &Block, rows: Range<usize>, width: usize) -> Windows {
        let mut windows = Places::new(block.images.len() * rows.len() * width);
        let mut ends = Places::new(self.ends.len());
        for (_, ys) in self.high.iter() {
            for (_, xs) in self.wide.iter() {
                for i in 0..block.images.len() {
                    for y in ys.iter().filter(|y| rows.contains(&(y.row as usize))) {
                        let at = frame.place(i, y.at as usize - block.rows.start, 0);
                        let row = (i * rows.len() + y.row as usize - rows.start) * width;
                        xs.iter().for_each(|x| windows.push(at + x.at as usize, row + x.row as usize));
                    }
                }
                ends.push(windows.len(), 0);
            }
        }
        Windows { places: windows, ends }
    }
}
