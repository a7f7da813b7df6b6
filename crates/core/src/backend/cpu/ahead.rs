//! Memory that machine code asks for ahead of time.

use super::{
    micro::{Cursor, Cursors},
    program::{Pass, Style},
};
use crate::kernel::{InstKind, Kernel};
use gradus_numerics::chip::chip;

/// Memory that a loop should ask for ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// A cursor.
    pub cursor: usize,
    /// How many bytes on from where it stands.
    pub bytes: i32,
    /// Where to.
    pub how: Fetch,
}

/// Where memory is fetched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// The nearest cache.
    Near,
    /// The second cache.
    Second,
    /// The nearest cache, to be written.
    Written,
    /// The nearest cache, the vectors of a turn so many bytes apart: each follows a stretch of its own.
    Apart(i32),
}

/// Cursors worth fetching ahead: what they run over is larger than what the caches hold anyway.
const STREAM_BYTES: usize = 1 << 20;
/// The same for what is in no cache at all.
const BEYOND: usize = 24 << 20;
/// How far ahead a single pass looks, in bytes.
const AHEAD: i32 = 2048;

/// Bytes that a cursor runs over, one element after the other; zero if it jumps.
fn streamed(k: &Kernel, c: &Cursor) -> usize {
    let moves = k.map.iter().chain(&k.reduce).zip(&c.strides).map(|(&n, &s)| if s == 0 { 1 } else { n });
    if c.step == 1 && c.lines.is_none() { moves.product::<usize>() * c.size as usize } else { 0 }
}

/// What each pass should fetch. A single pass looks a little ahead; a row that several passes visit is fetched, and its
/// place in the results, while the row before it is being finished.
pub fn prefetches(k: &Kernel, style: Style, cursors: &Cursors, passes: &[Pass]) -> Vec<Vec<Ahead>> {
    let mut out = vec![vec![]; passes.len()];
    for (v, c) in cursors.of.iter().enumerate() {
        let Some(c) = *c else { continue };
        let cursor = &cursors.all[c];
        if streamed(k, cursor) < STREAM_BYTES {
            continue;
        }
        let write = matches!(k.insts[v].kind, InstKind::Store { .. });
        let mine = |p: &Pass| p.elems.contains(&v);
        let (Some(first), Some(last)) = (passes.iter().position(mine), passes.iter().rposition(mine)) else { continue };
        let row = (style == Style::Rows && !k.map.is_empty()).then(|| cursor.strides[k.map.len() - 1] * cursor.size);
        let (pass, bytes) = match row {
            Some(_) if write && first > 0 => (first - 1, 0),
            Some(row) if !write && last > first => (last, i32::try_from(row).unwrap_or(AHEAD)),
            _ => (first, AHEAD),
        };
        out[pass].push(Ahead { cursor: c, bytes, how: if write { Fetch::Written } else { Fetch::Near } });
    }
    out
}

/// Bytes that a kernel goes through in all, from which on what it writes goes past the caches; none where that has not been
/// seen to pay. A line that is written in part would have to be read first, and then throws out another: on an Ice Lake server
/// 16 MiB are copied in 0.62 instead of 1.1 to 1.5 ms, and two arrays of 8 MiB added in 0.50 instead of 0.96. Smaller results
/// had better be where their reader finds them: what AMD's last cache holds is twice as fast there (`exp` of 16 MiB on a Zen 5 0.29
/// ms, past it 0.41), and what it cannot hold half as fast (of 46 MiB 2.8 ms, past it 1.04; sums of two arrays of 76 MiB 6.9 and 3.2).
fn beyond() -> Option<usize> {
    let chip = chip();
    if chip.intel {
        return Some(20 << 20);
    }
    // A little more than the last cache holds.
    chip.third.map(|bytes| bytes + bytes / 16)
}

/// Cursors of stores that should go past the caches: results of kernels that caches cannot hold.
pub fn past(k: &Kernel, cursors: &Cursors) -> Vec<usize> {
    let Some(beyond) = beyond() else { return vec![] };
    let all: usize = cursors.all.iter().map(|c| streamed(k, c)).sum();
    let large = |c: &usize| all >= beyond && streamed(k, &cursors.all[*c]) >= STREAM_BYTES;
    let stored = |v: usize| matches!(k.insts[v].kind, InstKind::Store { .. }).then(|| cursors.of[v])?;
    let alone = |c: &usize| cursors.all.iter().filter(|o| o.arg == cursors.all[*c].arg).count() == 1;
    (0..k.insts.len()).filter_map(stored).filter(large).filter(alone).collect()
}

/// Cursors of operands that a kernel reads at least so many bytes of.
fn read(k: &Kernel, cursors: &Cursors, bytes: usize) -> Vec<usize> {
    let read = |v: &usize| matches!(k.insts[*v].kind, InstKind::Load { .. });
    let mut all: Vec<usize> = (0..k.insts.len()).filter(read).filter_map(|v| cursors.of[v]).collect();
    all.sort_unstable();
    all.dedup();
    all.retain(|&c| streamed(k, &cursors.all[c]) >= bytes);
    all
}

/// What a reduction of several rows at once should fetch of operands that no cache holds. On Zen 4 to the second cache, where it
/// does not stand in the way of what is read now; on an Ice Lake server that takes 3.4 ms for 64 MiB, to the first one and half
/// as far 2.8, and nothing 2.9; on a Zen 5 1.05, and nothing 0.92.
pub fn streams(k: &Kernel, cursors: &Cursors) -> Vec<Ahead> {
    let chip = chip();
    if chip.looks_ahead {
        return vec![];
    }
    let (bytes, how) = if chip.intel { (AHEAD / 2, Fetch::Near) } else { (AHEAD, Fetch::Second) };
    read(k, cursors, BEYOND).into_iter().map(|cursor| Ahead { cursor, bytes, how }).collect()
}

/// Elements of the shortest row whose next one is fetched by [`pages`].
const PAGES: usize = 2048;
/// Bytes from which on that pays.
const SEVERAL: usize = 2 << 20;

/// What a single pass over rows of `n` elements, so far apart, should fetch: the next row, at several places at once. Intel's
/// hardware looks ahead within a page, at most twenty lines: that is half of what a core may ask memory for. One page after the
/// other an Ice Lake server sums 64 MiB in 3.6 ms, with lines asked for a little ahead in 3.4, and with those of the next four
/// pages, one of each in turn, in 2.8.
pub fn pages(k: &Kernel, cursors: &Cursors, n: usize, step: impl Fn(&Cursor) -> isize) -> Vec<Ahead> {
    if !chip().intel || n < PAGES {
        return vec![];
    }
    let next = |cursor: usize| {
        let bytes = i32::try_from(step(&cursors.all[cursor])).ok()?;
        Some(Ahead { cursor, bytes, how: Fetch::Apart(n as i32) })
    };
    read(k, cursors, SEVERAL).into_iter().filter_map(next).collect()
}

/// What a single pass over the chunks of one long row should fetch: on Intel as [`pages`]; on Zen 4 what is a page ahead, to the
/// second cache, where no cache holds it: 64 MiB are summed in 1.46 instead of 1.51 ms, and in 0.83 instead of 0.89 in minutes of
/// faster memory (2 and 3 KiB ahead the same, 6 and 8 KiB slower than nothing). For rows one by one it gives nothing. On a Zen 5
/// nothing is best: in C 0.44 ms instead of 0.59 while each core has a last cache of its own, and the same where memory is the limit.
pub fn chunks(k: &Kernel, cursors: &Cursors) -> Vec<Ahead> {
    let chip = chip();
    if chip.looks_ahead {
        return vec![];
    }
    if chip.intel {
        return pages(k, cursors, k.order.chunk, |c| k.chunk_step(&c.strides) * c.size);
    }
    let page = |cursor| Ahead { cursor, bytes: 2 * AHEAD, how: Fetch::Second };
    read(k, cursors, BEYOND).into_iter().map(page).collect()
}

/// What a single pass should fetch whose results go past the caches: what it reads, a little ahead. 16 MiB are copied so in 0.69
/// instead of 0.82 ms; no other way does more.
pub fn beside_past(k: &Kernel, cursors: &Cursors) -> Vec<Ahead> {
    let near = |cursor| Ahead { cursor, bytes: AHEAD, how: Fetch::Near };
    read(k, cursors, STREAM_BYTES).into_iter().map(near).collect()
}
