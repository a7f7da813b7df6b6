//! Products of `bf16` matrices by the instruction that multiplies pairs of them (AVX512-BF16): twice as many multiplications
//! a cycle as in `f32`. Products of pairs are added to sums in `f32`; a sum is rounded once, at its end. The instruction
//! takes numbers below 2^-126 as zero.
//!
//! `B` is packed into panels of up to 48 columns, as pairs of neighbours along `k`. `A` is read as it lies where its rows are
//! contiguous, and is packed in the same way otherwise. Sums run along `k` in order, whatever the blocks are.

mod kernel;
mod pack;

use super::{Dims, Half, Layout, Operand};
use crate::scratch::{self, Scratch};
use crate::simd::Isa;
use crate::tasks::{Shared, for_tasks};
use kernel::{ROWS, Rows, Tile, multiply};
use pack::pack;
use std::ops::Range;

/// Vectors of a panel of `B`, at most.
const VECTORS: usize = 3;
/// Pairs along `k` that are packed together.
const DEPTH: usize = 1024;
/// Pairs of columns that are packed together: what stays in the L2 cache.
const PACKED: usize = DEPTH * 10 * VECTORS * 16;
/// Rows of a task where all share the packed `B`.
const TASK: usize = 64;
/// Up to so many numbers of `A` (all of them are read for each panel) tasks pack panels of their own, which then never leave
/// the L2 cache of the core that packed them, and nobody waits for the others.
const NEAR: usize = 1 << 21;
/// But where sums are so short and rows so many, packing is nothing and writing is all: tasks then take whole rows, as panels of two
/// of them would meet within the lines of the caches. (2399 x 10 x 450: 0.21 -> 0.14 ms.)
const SHALLOW: usize = 32;
const MEETINGS: usize = 256;
/// Sums that are not worth adding up lanes for: such products come here even where they have few columns. Where rows of `A` are
/// contiguous, and would each be lanes for every column, so do those of a few times as many for each column (64 x 9 x 3, 128 times:
/// 32 -> 16 us; 64 x 40 x 3: 40 -> 28; but 300 x 30 x 1: 0.93 -> 1.18).
const SHORTEST: usize = 8;
const SHORTER: usize = 20;
/// Tasks that such a product is cut into, at least, if they keep as many rows each as are worth packing a panel for.
const TASKS: usize = 12;
const LEAST: usize = 64;
/// Rows of `A` that are packed together: lines of the caches.
const BAND: usize = 32;

/// A matrix of 16-bit numbers as the packing reads it.
#[derive(Clone, Copy)]
struct Numbers {
    at: *const u16,
    rs: isize,
    cs: isize,
}

// SAFETY: read only, while the operand is borrowed.
unsafe impl Sync for Numbers {}

impl Numbers {
    fn of<T>(x: Operand<T>) -> Numbers {
        Numbers { at: x.data.as_ptr().cast::<u16>().wrapping_add(x.layout.offset), rs: x.layout.rs, cs: x.layout.cs }
    }

    fn turned(self) -> Numbers {
        Numbers { rs: self.cs, cs: self.rs, ..self }
    }

    fn from(self, i: usize, j: usize) -> Numbers {
        Numbers { at: self.at.wrapping_offset(i as isize * self.rs + j as isize * self.cs), ..self }
    }
}

/// Whether sums are so short, and columns so few beside the rows, that other ways spend their time adding up lanes.
pub(super) fn is_short<T>(d: Dims, a: &Operand<T>) -> bool {
    let most = if a.layout.cs == 1 { SHORTEST.max(SHORTER * d.n) } else { SHORTEST };
    d.n < d.m && d.k <= most
}

/// Runs the product, if the CPU has the instruction and the sizes are worth packing.
///
/// # Safety
///
/// `c` is the caller's alone at `lc`, inside its allocation; operands lie inside their slices; numbers are `bf16`.
pub(super) unsafe fn run<T: Half>(
    d: Dims,
    a: Operand<T>,
    b: Operand<T>,
    c: *mut T,
    lc: Layout,
    parallel: bool,
) -> bool {
    let has = is_x86_feature_detected!("avx512bf16") && Isa::detect() == Isa::Avx512;
    if !has || (d.m.min(d.n) < 4 && !is_short(d, &a)) {
        return false;
    }
    let (mut a, mut b, mut lc, mut m, mut n) = (Numbers::of(a), Numbers::of(b), lc, d.m, d.n);
    if lc.rs == 1 && lc.cs != 1 {
        (a, b, lc, m, n) = (b.turned(), a.turned(), lc.transposed(), n, m);
    }
    if d.k == 1 {
        // One number is a contiguous row, whatever the step to the next one would be.
        a.cs = 1;
    }
    let out = Out { at: c.cast::<u16>().wrapping_add(lc.offset), rs: lc.rs, cs: lc.cs };
    let left = Left::new(m, d.k, a, parallel);
    let p = Product { m, n, k: d.k, a: left, b, out };
    // SAFETY: the instructions are there, and the caller's promise.
    unsafe {
        let meet = parallel && m >= MEETINGS && d.k <= SHALLOW;
        if m * d.k <= NEAR && !meet { p.near(parallel) } else { p.far(parallel) }
    }
    true
}

/// The output.
#[derive(Clone, Copy)]
struct Out {
    at: *mut u16,
    rs: isize,
    cs: isize,
}

// SAFETY: tasks write different tiles of it.
unsafe impl Sync for Out {}

impl Out {
    fn at(&self, i: usize, j: usize) -> Out {
        Out { at: self.at.wrapping_offset(i as isize * self.rs + j as isize * self.cs), ..*self }
    }
}

/// The rows of `A`.
enum Left {
    /// As they lie: contiguous.
    Here(Numbers),
    /// Bands of rows, as pairs: pair `p` of row `r` of a band is at `p * BAND + r`.
    Packed(Scratch),
}

// SAFETY: what was packed is only read.
unsafe impl Sync for Left {}

impl Left {
    fn new(m: usize, k: usize, a: Numbers, parallel: bool) -> Left {
        if a.cs == 1 {
            return Left::Here(a);
        }
        let pairs = k.div_ceil(2);
        let mut room = scratch::take(m.next_multiple_of(BAND) * pairs);
        let to = Shared::new(&mut room);
        for_tasks(m.div_ceil(BAND), parallel, |t| {
            let rows = (m - t * BAND).min(BAND);
            // SAFETY: bands have places of their own, and `A` has these rows.
            unsafe { pack(a.from(t * BAND, 0), rows, k, BAND, to.ptr().cast::<u32>().add(t * BAND * pairs)) };
        });
        Left::Packed(room)
    }

    /// Rows from `row` on, of the same band, and `numbers` of theirs from pair `from` on; `k` is what rows have.
    fn rows(&self, row: usize, from: usize, numbers: usize, k: usize) -> Rows {
        let (pairs, odd) = (numbers / 2, numbers % 2 == 1);
        match self {
            Left::Here(a) => Rows { at: a.from(row, 2 * from).at, row: a.rs, pair: 2, pairs, odd },
            Left::Packed(room) => {
                let at = (row / BAND * k.div_ceil(2) + from) * BAND + row % BAND;
                let at = room.as_ptr().cast::<u16>().wrapping_add(2 * at);
                // What has no neighbour was packed beside a zero.
                Rows { at, row: 2, pair: 2 * BAND as isize, pairs: numbers.div_ceil(2), odd: false }
            }
        }
    }
}

struct Product {
    m: usize,
    n: usize,
    k: usize,
    a: Left,
    b: Numbers,
    out: Out,
}

/// A part of the sums: the first pair, how many numbers it has, whether it is the last.
struct Part {
    from: usize,
    numbers: usize,
    last: bool,
}

impl Product {
    fn parts(&self) -> impl Iterator<Item = Part> {
        let k = self.k;
        (0..k).step_by(2 * DEPTH).map(move |from| {
            let numbers = (k - from).min(2 * DEPTH);
            Part { from: from / 2, numbers, last: from + numbers == k }
        })
    }

    /// The columns of panel `p` of the `panels` that `columns` are cut into: as equal as can be.
    fn columns(columns: &Range<usize>, p: usize, panels: usize) -> Range<usize> {
        let vectors = columns.len().div_ceil(16);
        let at = |p: usize| columns.start + (p * vectors / panels * 16).min(columns.len());
        at(p)..at(p + 1)
    }

    /// Packs a part of some columns.
    ///
    /// # Safety
    ///
    /// There is room for whole vectors at `to`.
    unsafe fn pack(&self, columns: &Range<usize>, part: &Part, to: *mut u32) {
        let source = self.b.from(2 * part.from, columns.start).turned();
        // SAFETY: the columns exist; the rest is the caller's promise.
        unsafe { pack(source, columns.len(), part.numbers, columns.len().next_multiple_of(16), to) }
    }

    /// Some rows of a panel's columns, a part of the sums; `sums` are those of its first row, in rows of [`VECTORS`].
    ///
    /// # Safety
    ///
    /// The panel was packed; these rows and columns are the caller's alone, and so are their sums.
    unsafe fn multiply(&self, rows: Range<usize>, columns: &Range<usize>, part: &Part, b: *const u32, sums: *mut f32) {
        let mut row = rows.start;
        while row < rows.end {
            // Tiles of as equal heights as can be, which do not cross bands.
            let end = rows.end.min((row / BAND + 1) * BAND);
            let height = (end - row).div_ceil((end - row).div_ceil(ROWS));
            let tile = Tile {
                height,
                width: columns.len(),
                sums: sums.wrapping_add((row - rows.start) * VECTORS * 16),
                begun: part.from > 0,
                out: part.last.then(|| self.out.at(row, columns.start)),
            };
            // SAFETY: the caller's promise.
            unsafe { multiply(self.a.rows(row, part.from, part.numbers, self.k), b, &tile) };
            row += height;
        }
    }

    /// Tasks pack panels of their own.
    unsafe fn near(&self, parallel: bool) {
        let panels = self.n.div_ceil(16 * VECTORS);
        let blocks = if parallel { TASKS.div_ceil(panels).min(self.m.div_ceil(LEAST)) } else { 1 };
        let height = self.m.div_ceil(blocks).next_multiple_of(ROWS);
        let pairs = self.k.div_ceil(2).min(DEPTH);
        let deep = self.k > 2 * DEPTH;
        for_tasks(self.m.div_ceil(height) * panels, parallel, |t| {
            let rows = t / panels * height..self.m.min((t / panels + 1) * height);
            let columns = Product::columns(&(0..self.n), t % panels, panels);
            let mut room = scratch::take(VECTORS * 16 * (pairs + if deep { rows.len() } else { 0 }));
            let (panel, sums) = room.split_at_mut(VECTORS * 16 * pairs);
            for part in self.parts() {
                // SAFETY: tasks have different rows or columns; the buffer has room for a panel and the sums.
                unsafe {
                    let panel = panel.as_mut_ptr().cast::<u32>();
                    self.pack(&columns, &part, panel);
                    self.multiply(rows.clone(), &columns, &part, panel, sums.as_mut_ptr());
                }
            }
        });
    }

    /// All pack panels, then share the rows.
    unsafe fn far(&self, parallel: bool) {
        let Product { m, n, k, .. } = *self;
        let pairs = k.div_ceil(2).min(DEPTH);
        // As many columns at once as have room, and in equal parts: all rows are gone over for each.
        let parts = (n * pairs).div_ceil(PACKED);
        let most = n.div_ceil(parts).next_multiple_of(16);
        let panels = most.div_ceil(16 * VECTORS);
        let mut sums = (k > 2 * DEPTH).then(|| scratch::take(m * panels * VECTORS * 16));
        let sums = Shared::wrap(sums.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr()));
        let mut room = scratch::take(pairs * most);
        let packed = Shared::new(&mut room);
        for first in (0..n).step_by(most) {
            let all = first..n.min(first + most);
            let panels = all.len().div_ceil(16 * VECTORS);
            for part in self.parts() {
                let place = |columns: &Range<usize>| {
                    packed.ptr().cast::<u32>().wrapping_add((columns.start - first) * part.numbers.div_ceil(2))
                };
                for_tasks(panels, parallel, |p| {
                    let columns = Product::columns(&all, p, panels);
                    // SAFETY: panels are different parts of the buffer, which has room for whole vectors.
                    unsafe { self.pack(&columns, &part, place(&columns)) };
                });
                for_tasks(m.div_ceil(TASK), parallel, |t| {
                    let rows = t * TASK..m.min((t + 1) * TASK);
                    for p in 0..panels {
                        let columns = Product::columns(&all, p, panels);
                        let sums = sums.ptr().wrapping_add((p * m + rows.start) * VECTORS * 16);
                        // SAFETY: panels were packed above; tasks have rows of their own, of the output and of the sums.
                        unsafe { self.multiply(rows.clone(), &columns, &part, place(&columns), sums) };
                    }
                });
            }
        }
    }
}
