//! A left operand whose rows run along `k` (the weights of `x W^T`), turned before the product.
//!
//! The kernels read columns of the left operand; packing them from rows costs more than the arithmetic when the row
//! length is a large power of two. Turned once, tile by tile, `[256, 1024] @ [1024, 1024]^T` goes from 112 to 190 GFLOP/s
//! on two cores.

use super::Layout;
use crate::{
    scratch::{self, Scratch},
    tasks::{Shared, for_tasks},
};

/// Tiles are this many elements square: a whole cache line each way.
const TILE: usize = 16;
/// Blocks of tiles.
const BLOCK: usize = 64;
/// Columns of the right operand from which the turn pays.
const REUSE: usize = 32;

/// The `m` by `k` matrix at `la`, with its columns in a row each; none where it is as well left alone.
pub(super) fn upright(
    data: &[f32],
    la: Layout,
    (m, k, n): (usize, usize, usize),
    parallel: bool,
) -> Option<(Scratch, Layout)> {
    if la.cs != 1 || la.rs <= 1 || m < 2 * TILE || k < 2 * TILE || n < REUSE {
        return None;
    }
    // A step between columns that is no multiple of a page keeps them out of each other's cache sets.
    let step = m.next_multiple_of(TILE) + TILE;
    let mut turned = scratch::take(k * step);
    let out = Shared::new(&mut turned);
    let from = &data[la.offset..];
    let (strips, bands) = (k.div_ceil(BLOCK), m.div_ceil(BLOCK));
    // Blocks of a few cache lines each way: short stretches of many rows on both sides, and few pages at a time.
    for_tasks(strips * bands, parallel && m * k > 1 << 18, |task| {
        let (k1, m1) = (task % strips * BLOCK, task / strips * BLOCK);
        for k0 in (k1..k.min(k1 + BLOCK)).step_by(TILE) {
            for m0 in (m1..m.min(m1 + BLOCK)).step_by(TILE) {
                let (wide, high) = (TILE.min(k - k0), TILE.min(m - m0));
                let mut tile = [[0f32; TILE]; TILE];
                for (i, line) in tile.iter_mut().enumerate().take(high) {
                    let at = (m0 + i) * la.rs as usize + k0;
                    line[..wide].copy_from_slice(&from[at..at + wide]);
                }
                for j in 0..wide {
                    let mut column = [0f32; TILE];
                    for (c, line) in column.iter_mut().zip(&tile) {
                        *c = line[j];
                    }
                    // SAFETY: row k0 + j of the copy has `step` numbers, a whole tile after m0 among them, and belongs to
                    // this task alone from m1 on.
                    unsafe {
                        let to = out.ptr().add((k0 + j) * step + m0);
                        std::ptr::copy_nonoverlapping(column.as_ptr(), to, TILE);
                    }
                }
            }
        }
    });
    Some((turned, Layout { offset: 0, rs: 1, cs: step as isize }))
}

/// For types that are not turned.
pub(super) fn left_alone<T>(_: &[T], _: Layout, _: (usize, usize, usize), _: bool) -> Option<(Vec<T>, Layout)> {
    None
}
