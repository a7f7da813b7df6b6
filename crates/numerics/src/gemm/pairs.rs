//! Products of `bf16` matrices by the instruction that multiplies pairs of them (AVX512-BF16): twice as many multiplications
//! a cycle as in `f32`. Products of pairs are added to sums in `f32`; a sum is rounded once, at its end. The instruction
//! takes numbers below 2^-126 as zero.
//!
//! `B` is packed into panels of up to 48 columns, `A` into panels of 8 rows, both as pairs of neighbours along `k`. Blocks and
//! the order of sums follow from the sizes alone.

use super::{Dims, Half, Layout, Operand};
use crate::scratch;
use crate::simd::{Avx512, Isa, Simd};
use crate::tasks::{Shared, for_tasks};
use std::arch::x86_64::*;

/// Rows of a panel of `A`.
const ROWS: usize = 8;
/// Vectors of a panel of `B`.
const VECTORS: usize = 3;
/// Pairs along `k` that are packed together.
const DEPTH: usize = 1024;
/// Pairs of columns that are packed together: what stays in the L2 cache.
const PACKED: usize = DEPTH * 10 * VECTORS * 16;
/// Rows of a task.
const TASK: usize = 64;

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
    if !has || d.k < 2 || d.m.min(d.n) < 4 {
        return false;
    }
    let (mut a, mut b, mut lc, mut m, mut n) = (Numbers::of(a), Numbers::of(b), lc, d.m, d.n);
    if lc.rs == 1 && lc.cs != 1 {
        (a, b, lc, m, n) = (b.turned(), a.turned(), lc.transposed(), n, m);
    }
    let out = Out { at: c.cast::<u16>().wrapping_add(lc.offset), rs: lc.rs, cs: lc.cs };
    // SAFETY: the instructions are there, and the caller's promise.
    unsafe { product(m, n, d.k, a, b, &out, parallel) };
    true
}

/// The output.
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

/// A piece of the output that is computed in registers.
struct Tile {
    height: usize,
    width: usize,
    /// Its sums so far, where `k` is cut into several stretches, in rows of `step`.
    sums: *mut f32,
    step: usize,
    /// Whether there are some.
    begun: bool,
    /// Where it goes when this stretch is the last.
    out: Option<Out>,
}

unsafe fn product(m: usize, n: usize, k: usize, a: Numbers, b: Numbers, out: &Out, parallel: bool) {
    let all = k.div_ceil(2);
    let deep = all > DEPTH;
    let panel = VECTORS * 16;
    // As many columns at once as have room, and in equal parts: all rows are gone over for each.
    let parts = (n * all.min(DEPTH)).div_ceil(PACKED);
    let most = n.div_ceil(parts).next_multiple_of(panel);
    let mut sums = deep.then(|| scratch::take(m * n.min(most)));
    let sums = Shared::wrap(sums.as_mut().map_or(std::ptr::null_mut(), |s| s.as_mut_ptr()));
    let mut room = scratch::take(all.min(DEPTH) * n.min(most).next_multiple_of(16));
    let packed = Shared::new(&mut room);
    for first in (0..n).step_by(most) {
        let columns = (n - first).min(most);
        let panels = columns.div_ceil(panel);
        for from in (0..all).step_by(DEPTH) {
            let pairs = (all - from).min(DEPTH);
            let left = k - 2 * from;
            for_tasks(panels, parallel, |p| {
                let width = (columns - p * panel).min(panel);
                let source = b.from(2 * from, first + p * panel).turned();
                // SAFETY: panels are different parts of the buffer, which has room for whole vectors.
                unsafe {
                    let to = packed.ptr().cast::<u32>().add(p * panel * pairs);
                    pack(source, width, left.min(2 * pairs), width.next_multiple_of(16), to);
                }
            });
            // Where rows are few, tasks share them. What is shared does not show in the sums.
            let blocks = m.div_ceil(TASK);
            let shares = if parallel { 8usize.div_ceil(blocks).min(panels) } else { 1 };
            for_tasks(blocks * shares, parallel, |t| {
                let (block, share) = (t / shares, t % shares);
                let rows = block * TASK..m.min((block + 1) * TASK);
                let mut room = scratch::take(rows.len().next_multiple_of(ROWS) * pairs);
                let own = room.as_mut_ptr().cast::<u32>();
                for i in (0..rows.len()).step_by(ROWS) {
                    // SAFETY: the buffer has room for whole panels.
                    unsafe {
                        let height = (rows.len() - i).min(ROWS);
                        pack(a.from(rows.start + i, 2 * from), height, left.min(2 * pairs), ROWS, own.add(i * pairs));
                    }
                }
                for p in share * panels / shares..(share + 1) * panels / shares {
                    let width = (columns - p * panel).min(panel);
                    for i in (0..rows.len()).step_by(ROWS) {
                        let height = (rows.len() - i).min(ROWS);
                        let (row, column) = (rows.start + i, p * panel);
                        let step = n.min(most);
                        let tile = Tile {
                            height,
                            width,
                            sums: sums.ptr().wrapping_add(row * step + column),
                            step,
                            begun: from > 0,
                            out: (from + pairs == all).then(|| out.at(row, first + column)),
                        };
                        // SAFETY: panels were packed above; tiles are different parts of the output and of the sums.
                        unsafe {
                            let b = packed.ptr().cast::<u32>().add(p * panel * pairs).cast_const();
                            multiply(pairs, own.add(i * pairs), b, &tile);
                        }
                    }
                }
            });
        }
    }
}

/// Packs `rows` rows of `k` numbers as pairs: pair `p` of row `r` goes to `to[p * step + r]`, zeros to the rows up to `step`.
///
/// # Safety
///
/// The rows exist, and `to` has room for `step` rows of as many pairs.
unsafe fn pack(a: Numbers, rows: usize, k: usize, step: usize, to: *mut u32) {
    let (pairs, whole) = (k.div_ceil(2), k / 2);
    // SAFETY: the caller's promise.
    unsafe {
        let get = |r: usize, j: usize| *a.at.offset(r as isize * a.rs + j as isize * a.cs) as u32;
        if rows < step || whole < pairs {
            to.write_bytes(0, pairs * step);
        }
        if a.rs == 1 {
            for p in 0..whole {
                zip(a.from(0, 2 * p).at, a.from(0, 2 * p + 1).at, rows, to.add(p * step));
            }
        } else if a.cs == 1 {
            // Squares of 16 rows and 16 pairs are turned in registers.
            let square = a.rs > 0 && a.rs % 2 == 0;
            let (turned_rows, turned_pairs) = if square { (rows / 16 * 16, whole / 16 * 16) } else { (0, 0) };
            for p in (0..turned_pairs).step_by(16) {
                for r in (0..turned_rows).step_by(16) {
                    turn(a.from(r, 2 * p).at.cast(), a.rs as usize / 2, to.add(p * step + r), step);
                }
            }
            // The rest eight pairs of a row at a time: both sides stay in the cache.
            for p in (0..whole).step_by(8) {
                let n = (whole - p).min(8);
                for r in if p < turned_pairs { turned_rows } else { 0 }..rows {
                    let from = a.from(r, 2 * p).at.cast::<u32>();
                    for i in 0..n {
                        *to.add((p + i) * step + r) = from.add(i).read_unaligned();
                    }
                }
            }
        } else {
            for p in 0..whole {
                for r in 0..rows {
                    *to.add(p * step + r) = get(r, 2 * p) | get(r, 2 * p + 1) << 16;
                }
            }
        }
        if whole < pairs {
            for r in 0..rows {
                *to.add(whole * step + r) = get(r, 2 * whole);
            }
        }
    }
}

/// Transposes 16 rows of 16 pairs, `from` apart, to rows `to` apart.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn turn(x: *const u32, from: usize, y: *mut u32, to: usize) {
    // SAFETY: the caller's promise. Moving numbers about does not look at what they are.
    unsafe { Avx512::transpose(x.cast(), from, y.cast(), to) }
}

/// Pairs of the elements of two stretches.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn zip(x: *const u16, y: *const u16, n: usize, to: *mut u32) {
    for i in (0..n).step_by(16) {
        let mask = if n - i >= 16 { 0xffff } else { (1u16 << (n - i)) - 1 };
        // SAFETY: the first `n` elements of all three are there.
        unsafe {
            let x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, x.add(i).cast()));
            let y = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, y.add(i).cast()));
            let both = _mm512_or_si512(x, _mm512_slli_epi32::<16>(y));
            _mm512_mask_storeu_epi32(to.add(i).cast(), mask, both);
        }
    }
}

/// Adds the product of two panels to a tile.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn multiply(pairs: usize, a: *const u32, b: *const u32, tile: &Tile) {
    // SAFETY: the caller packed panels of these sizes.
    unsafe {
        match tile.width.div_ceil(16) {
            1 => sums::<1>(pairs, a, b, tile),
            2 => sums::<2>(pairs, a, b, tile),
            _ => sums::<3>(pairs, a, b, tile),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn sums<const V: usize>(pairs: usize, a: *const u32, b: *const u32, tile: &Tile) {
    let mask = |v: usize| {
        let left = tile.width.saturating_sub(16 * v);
        if left >= 16 { 0xffff } else { (1u16 << left) - 1 }
    };
    // SAFETY: the panels have `pairs` pairs; sums and output have the tile's rows and columns.
    unsafe {
        let mut acc = [[_mm512_setzero_ps(); V]; ROWS];
        if tile.begun {
            for (r, acc) in acc.iter_mut().enumerate().take(tile.height) {
                for (v, acc) in acc.iter_mut().enumerate() {
                    *acc = _mm512_maskz_loadu_ps(mask(v), tile.sums.add(r * tile.step + 16 * v));
                }
            }
        }
        for p in 0..pairs {
            let mut columns = [_mm512_setzero_si512(); V];
            for (v, c) in columns.iter_mut().enumerate() {
                *c = _mm512_loadu_si512(b.add((p * V + v) * 16).cast());
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                let x: __m512bh = std::mem::transmute(_mm512_set1_epi32(*a.add(p * ROWS + r) as i32));
                for (acc, c) in acc.iter_mut().zip(columns) {
                    *acc = _mm512_dpbf16_ps(*acc, x, std::mem::transmute::<__m512i, __m512bh>(c));
                }
            }
        }
        for (r, acc) in acc.iter().enumerate().take(tile.height) {
            for (v, acc) in acc.iter().enumerate() {
                let Some(out) = &tile.out else {
                    _mm512_mask_storeu_ps(tile.sums.add(r * tile.step + 16 * v), mask(v), *acc);
                    continue;
                };
                let (to, rounded) = (out.at(r, 16 * v), round(*acc));
                if to.cs == 1 {
                    _mm256_mask_storeu_epi16(to.at.cast(), mask(v), rounded);
                    continue;
                }
                let mut all = [0u16; 16];
                _mm256_storeu_si256(all.as_mut_ptr().cast(), rounded);
                for (i, x) in all.iter().enumerate().take(tile.width - 16 * v) {
                    *to.at(0, i).at = *x;
                }
            }
        }
    }
}

/// The nearest `bf16`, even ones where two are as near; NaN stays NaN.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn round(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x0040_0000));
    let all = _mm512_mask_mov_epi32(up, nan, quiet);
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(all))
}
