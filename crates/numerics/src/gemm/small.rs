//! Many small products in `f32` of the same sizes: what they share is looked at once, and each goes
//! straight to the kernel. Setting up a product costs more than its arithmetic there.

use super::tile::{self, Columns, Panel, Strip, pack_panel, strip};
use super::{BatchOffset, Dims, Layout};
use crate::gemv::{Strided, TOGETHER};
use crate::micro::{Product, product};
use crate::simd::Isa;

/// Multiplications of a product that counts as small.
const WORK: usize = 1 << 17;

/// The longest sum: the kernels take it in one part, as other products of its length do.
const DEEP: usize = 512;

/// Numbers of a packed `B`, at most.
const PACKED: usize = 1 << 13;

/// With fewer rows, columns beyond whole vectors are left out as they are read; with more it is
/// worth while to pack `B`.
const PACK_ROWS: usize = 16;

/// A vector by rows of at least as many numbers is a sum of those, where it is long.
const WIDE: usize = 64;

/// A product of fewer multiplications takes less time than to choose a way for it.
const TINY: usize = 1 << 11;

/// With fewer rows a `B` of contiguous columns goes by dot products, if those are so long: lanes are added up for each.
const FEW: usize = 4;
const DOTS: usize = 64;
const DOTS_ONE: usize = 4;

/// So do a few columns that lie one behind the other, of at least as many numbers for each of them.
const DOTS_EACH: usize = 8;
const LEAST: usize = 32;

/// What the products of a batch have in common.
pub(super) struct Small {
    d: Dims,
    a: *const f32,
    a_steps: (usize, usize),
    b: *const f32,
    b_steps: (usize, usize),
    c: *mut f32,
    c_row: usize,
    isa: Isa,
    way: Way,
}

/// How the products are taken.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Whole vectors of `B` as they lie.
    Here,
    /// `B` as it lies, of which the last vector is not whole.
    Masked,
    /// `B` packed.
    Packed,
    /// Dot products of rows of `A` and columns of `B`, which all are contiguous.
    Dots,
}

// SAFETY: pointers to operands that are only read, and to outputs of which tasks write disjoint ones.
unsafe impl Sync for Small {}

/// The numbers of a matrix between its first and its last one, for steps that go forward.
fn reach(m: usize, n: usize, (rs, cs): (usize, usize)) -> Option<usize> {
    rs.checked_mul(m - 1)?.checked_add(cs.checked_mul(n - 1)?)
}

/// The way for products of these sizes and steps; `None` where other products know better.
fn way(isa: Isa, d: Dims, a_steps: (usize, usize), b_steps: (usize, usize)) -> Option<Way> {
    let behind = b_steps.0 == 1 && (d.n == 1 || b_steps.1 == d.k);
    if a_steps.1 == 1 && behind && d.n <= TOGETHER && d.k >= LEAST.max(DOTS_EACH * d.n) {
        return Some(Way::Dots);
    }
    // A vector that is mostly empty, over and over: products with a short side know better.
    if d.n < isa.lanes() / 4 && d.m > d.n && d.work() > TINY {
        return None;
    }
    let whole = d.n.is_multiple_of(isa.lanes());
    if b_steps.1 != 1 || (!whole && d.m >= PACK_ROWS) {
        // A matrix that is read once is not worth packing.
        let dots = d.m < FEW && d.k >= if d.m == 1 { DOTS_ONE } else { DOTS };
        let once = dots && d.work() > TINY;
        let fits = d.k <= DEEP && d.n.next_multiple_of(isa.lanes()) * d.k <= PACKED;
        return (fits && !once).then_some(Way::Packed);
    }
    if d.k > DEEP {
        // `product` takes long sums in parts by itself. Vectors by wide matrices are better read by whole rows.
        return (d.m > 1 || d.n < WIDE).then_some(Way::Masked);
    }
    Some(if whole { Way::Here } else { Way::Masked })
}

impl Small {
    /// `None` where products are not small, or lie in another way than these kernels read. All of
    /// the batch is inside the slices otherwise, the output's of `c_len` numbers.
    pub(super) fn new(
        d: Dims,
        a: Strided<'_>,
        b: Strided<'_>,
        (c, c_len): (*mut f32, usize),
        lc: Layout,
        batch: &[BatchOffset],
    ) -> Option<Small> {
        let isa = Isa::detect();
        let fits = isa != Isa::Base && lc.cs == 1 && (lc.rs >= d.n as isize || d.m == 1);
        if !fits || batch.len() < 2 || d.work() == 0 || d.work() > WORK {
            return None;
        }
        let steps = |s: Strided<'_>| Some((usize::try_from(s.rs).ok()?, usize::try_from(s.cs).ok()?));
        let (a_steps, b_steps, c_row) = (steps(a)?, steps(b)?, usize::try_from(lc.rs).ok()?);
        let way = way(isa, d, a_steps, b_steps)?;
        let last = |f: fn(&BatchOffset) -> usize| batch.iter().map(f).max();
        let inside = |len: usize, offset: usize, most: usize, reach: usize| {
            Some(offset.checked_add(most)?.checked_add(reach)? < len)
        };
        let ok = inside(a.data.len(), a.offset, last(|o| o.a)?, reach(d.m, d.k, a_steps)?)?
            && inside(b.data.len(), b.offset, last(|o| o.b)?, reach(d.k, d.n, b_steps)?)?
            && inside(c_len, lc.offset, last(|o| o.c)?, reach(d.m, d.n, (c_row, 1))?)?;
        ok.then(|| Small {
            d,
            a: a.data.as_ptr().wrapping_add(a.offset),
            a_steps,
            b: b.data.as_ptr().wrapping_add(b.offset),
            b_steps,
            c: c.wrapping_add(lc.offset),
            c_row,
            isa,
            way,
        })
    }

    /// Numbers that [`Small::run`] wants to pack into.
    pub(super) fn room(&self) -> usize {
        if self.way == Way::Packed { self.d.n.next_multiple_of(self.isa.lanes()) * self.d.k } else { 0 }
    }

    /// Some products of the batch, one after the other.
    ///
    /// # Safety
    ///
    /// They are among those the batch was made with, their outputs are the caller's own, and `room`
    /// is as large as asked for.
    pub(super) unsafe fn run(&self, batch: &[BatchOffset], room: &mut [f32]) {
        let Dims { m, n, k } = self.d;
        let lanes = self.isa.lanes();
        debug_assert!(room.len() >= self.room());
        let mut packed = None;
        for o in batch {
            let (a, b, c) = (self.a.wrapping_add(o.a), self.b.wrapping_add(o.b), self.c.wrapping_add(o.c));
            if self.way == Way::Dots {
                let s = Columns { rows: m, k, count: n, a, a_row: self.a_steps.0, b, c, c_row: self.c_row };
                // SAFETY: `new` saw that all three are inside, and `way` that there are few columns, one behind the other;
                // the output is ours.
                unsafe { tile::columns(self.isa, &s) };
                continue;
            }
            if self.way == Way::Masked {
                let (a_steps, b_row, c_row) = (self.a_steps, self.b_steps.0, self.c_row);
                // SAFETY: `new` saw that all three are inside; the output is ours.
                unsafe { product(self.isa, &Product { m, n, k, a, a_steps, b, b_row, c, c_row, add: false }) };
                continue;
            }
            for from in (0..n).step_by(3 * lanes) {
                let columns = (n - from).min(3 * lanes);
                let (mut from_b, mut b_row) = (b.wrapping_add(from), self.b_steps.0);
                if self.way == Way::Packed {
                    b_row = columns.next_multiple_of(lanes);
                    let to = room.as_mut_ptr().wrapping_add(from * k);
                    // The same `B` as before is packed already.
                    if packed != Some(o.b) {
                        let b = b.wrapping_add(from * self.b_steps.1);
                        // SAFETY: the panel is inside; those before it took `from * k` numbers of the room.
                        unsafe {
                            pack_panel(self.isa, &Panel { depth: k, columns, b, steps: self.b_steps }, to, b_row);
                        }
                    }
                    from_b = to;
                }
                let s = Strip {
                    rows: m,
                    columns,
                    depth: k,
                    a,
                    a_steps: self.a_steps,
                    b: from_b,
                    b_row,
                    c: c.wrapping_add(from),
                    c_row: self.c_row,
                    add: false,
                };
                // SAFETY: as above; rows of `B` have whole vectors here.
                unsafe { strip(self.isa, &s) };
            }
            packed = Some(o.b);
        }
    }
}

#[cfg(test)]
mod tests;
