//! Reductions of a pass: accumulators, lanes and chunks, in the order the kernel lays down.

use super::{
    analysis::width,
    convert,
    exec::Task,
    fold::{WIDE, fold},
    program::{Pass, Program, Style},
    transfer,
};
use crate::{
    DType, Result,
    kernel::{InstKind, Val, oracle::Cell},
    op::{ReduceOp, block::Isa},
};
use std::{
    ops::Range,
    sync::{Mutex, MutexGuard},
};

/// Registers of finished reductions: for each chunk and each reduction of a pass, those of all map points.
#[derive(Default)]
pub struct Parts {
    words: Vec<u64>,
    chunks: usize,
}

/// Lists of parts that ended, for new ones: the same kernels come again, and a list filled by one thread ends on another.
static SPARE: Mutex<Vec<Vec<u64>>> = Mutex::new(vec![]);
/// Lists that are kept.
const SPARES: usize = 128;

fn spare() -> MutexGuard<'static, Vec<Vec<u64>>> {
    SPARE.lock().unwrap_or_else(|e| e.into_inner())
}

impl Drop for Parts {
    fn drop(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        if words.capacity() == 0 {
            return;
        }
        words.clear();
        let mut spare = spare();
        if spare.len() < SPARES {
            spare.push(words);
        }
    }
}

impl Parts {
    /// None yet, with room that others have left.
    pub fn with_room() -> Parts {
        Parts { words: spare().pop().unwrap_or_default(), chunks: 0 }
    }

    /// Starts anew.
    pub fn clear(&mut self) {
        self.words.clear();
        self.chunks = 0;
    }

    /// Room for the parts of `chunks` more chunks, of so many numbers each.
    pub fn more(&mut self, chunks: usize, each: usize) -> &mut [u64] {
        let at = self.words.len();
        self.words.resize(at + chunks * each, 0);
        self.chunks += chunks;
        &mut self.words[at..]
    }

    /// Adds the `w` registers of a reduction of the chunk that is being written.
    ///
    /// # Safety
    /// They are there.
    pub unsafe fn add(&mut self, p: &Program, pass: &Pass, v: Val, w: usize, from: *const u8) {
        let at = self.words.len();
        self.words.resize(at + words(p, pass, w), 0);
        let bytes = w * width(p.kernel.insts[v].dtype);
        // SAFETY: the caller's promise, and these words are room for them.
        unsafe { std::ptr::copy_nonoverlapping(from, self.words[at..].as_mut_ptr().cast(), bytes) };
    }

    /// Ends a chunk.
    pub fn next(&mut self) {
        self.chunks += 1;
    }

    /// Forgets all but the first chunk, which holds what [`combine`] made of all.
    pub fn keep_first(&mut self, p: &Program, pass: &Pass, n: usize) {
        self.words.truncate(pass.reduces.len() * words(p, pass, points(p, n)));
        self.chunks = self.chunks.min(1);
    }

    /// The chunks of `other` after those of this.
    pub fn append(&mut self, other: &Parts) {
        self.words.extend(&other.words);
        self.chunks += other.chunks;
    }
}

/// Points that a pass reduces to at a time.
fn points(p: &Program, n: usize) -> usize {
    if p.style == Style::Columns { n } else { 1 }
}

/// Words that the registers of one reduction of a pass take, for so many points.
fn words(p: &Program, pass: &Pass, w: usize) -> usize {
    let size = pass.reduces.iter().map(|&v| width(p.kernel.insts[v].dtype)).max().unwrap_or(8);
    (w * size).div_ceil(8)
}

/// The reductions of a pass from the parts of all its chunks: neighbours first. The first chunk's place holds the result.
pub fn combine(p: &Program, pass: &Pass, n: usize, parts: &mut Parts) {
    let w = points(p, n);
    let each = words(p, pass, w);
    let per_chunk = pass.reduces.len() * each;
    for (k, &v) in pass.reduces.iter().enumerate() {
        let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { continue };
        let dtype = p.kernel.insts[v].dtype;
        if w == 1 && dtype == DType::F32 && op == ReduceOp::Sum {
            sum_one_by_one(&mut parts.words[k..], per_chunk, parts.chunks);
            continue;
        }
        let across = fold(op, dtype, Isa::detect()).across;
        let mut apart = 1;
        while apart < parts.chunks {
            for c in (0..parts.chunks - apart).step_by(2 * apart) {
                let at = |c: usize| c * per_chunk + k * each;
                let (low, high) = parts.words.split_at_mut(at(c + apart));
                let acc = low[at(c)..].as_mut_ptr().cast::<u8>();
                // SAFETY: each part has room for w registers; parts do not overlap.
                unsafe {
                    across(acc, high.as_ptr().cast(), w);
                    if dtype.is_int() {
                        convert::wrap(dtype, acc, w);
                    }
                }
            }
            apart *= 2;
        }
    }
}

/// The same for sums of f32 at one point: most rows of several chunks are that, and calls would cost more than they do.
fn sum_one_by_one(words: &mut [u64], per_chunk: usize, chunks: usize) {
    // A register of four bytes stands at the beginning of its word.
    let read = |word: u64| {
        let [a, b, c, d, ..] = word.to_ne_bytes();
        f32::from_ne_bytes([a, b, c, d])
    };
    let mut apart = 1;
    while apart < chunks {
        for c in (0..chunks - apart).step_by(2 * apart) {
            let sum = read(words[c * per_chunk]) + read(words[(c + apart) * per_chunk]);
            let [a, b, c4, d] = sum.to_ne_bytes();
            words[c * per_chunk] = u64::from_ne_bytes([a, b, c4, d, 0, 0, 0, 0]);
        }
        apart *= 2;
    }
}

impl Task<'_> {
    /// Chunks of a pass, their reductions finished and added to the parts.
    ///
    /// # Safety
    /// As [`super::exec::run`].
    pub(super) unsafe fn chunks(&mut self, s: usize, n: usize, which: Range<usize>, out: &mut Parts) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            let done = self.whole_chunks(s, which.start, which.end, out);
            let done = done + self.chunks_abreast(s, n, which.start + done, which.end, out);
            (which.start + done..which.end).try_for_each(|c| self.whole_chunk(s, n, c, out))
        }
    }

    /// One chunk of a pass, its reductions finished and added to the parts.
    ///
    /// # Safety
    /// As [`super::exec::run`].
    unsafe fn whole_chunk(&mut self, s: usize, n: usize, c: usize, out: &mut Parts) -> Result<()> {
        let pass = &self.p.passes[s];
        // SAFETY: the caller's promise.
        unsafe { self.chunk(s, n, c)? };
        for (k, &v) in pass.reduces.iter().enumerate() {
            self.finish(k, v, n);
            // SAFETY: `finish` left the registers there.
            unsafe { out.add(self.p, pass, v, points(self.p, n), self.m.ptr[v] as *const u8) };
        }
        out.next();
        Ok(())
    }

    /// Puts the finished reductions of a pass back into their registers.
    pub(super) fn restore(&mut self, pass: &Pass, n: usize, parts: &Parts) {
        let w = points(self.p, n);
        let each = words(self.p, pass, w);
        for (k, &v) in pass.reduces.iter().enumerate() {
            let dtype = self.p.kernel.insts[v].dtype;
            let reg = self.m.ptr[v] as *mut u8;
            // SAFETY: registers hold a block of values, and w is at most that.
            unsafe {
                std::ptr::copy_nonoverlapping(parts.words[k * each..].as_ptr().cast(), reg, w * width(dtype));
                if self.p.spreads(v) {
                    transfer::spread(dtype, reg, self.p.width_of[v]);
                }
            }
        }
    }

    /// Sets the accumulators of a pass to the identities of its reductions.
    pub(super) fn clear_accumulators(&mut self, pass: &Pass, n: usize, per: usize) {
        let p = self.p;
        if pass.reduces.is_empty() {
            return;
        }
        self.m.accumulators(per * pass.reduces.len());
        for (k, &v) in pass.reduces.iter().enumerate() {
            let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { continue };
            let dtype = p.kernel.insts[v].dtype;
            let acc = self.m.accumulator(k, per);
            if p.style == Style::Rows && dtype == DType::F32 && p.kernel.order.lanes == WIDE {
                let start = match op {
                    ReduceOp::Sum => 0.0,
                    ReduceOp::Prod => 1.0,
                    ReduceOp::Max => f32::NEG_INFINITY,
                    ReduceOp::Min => f32::INFINITY,
                };
                // SAFETY: `acc_len` made room for a word for each lane.
                unsafe { acc.cast::<[f32; WIDE]>().write([start; WIDE]) };
                continue;
            }
            let start = Cell::of(op.identity(dtype), dtype);
            let count = match p.style {
                Style::Columns => p.kernel.order.lanes.min(p.cols.max(1)) * n,
                Style::Rows => p.kernel.order.lanes,
            };
            // SAFETY: `acc_len` made room for `count` registers of up to 8 bytes.
            unsafe {
                std::ptr::copy_nonoverlapping((&raw const start).cast::<u8>(), acc, width(dtype));
                transfer::spread(dtype, acc, count);
            }
        }
    }

    /// u64 words one reduction's accumulators take.
    pub(super) fn acc_len(&self, n: usize) -> usize {
        let lanes = self.p.kernel.order.lanes;
        match self.p.style {
            Style::Columns => lanes.min(self.p.cols.max(1)) * n,
            Style::Rows => lanes,
        }
    }

    /// Combines the lanes of reduction `k` of a pass pairwise into the register of value `v`.
    pub(super) fn finish(&mut self, k: usize, v: Val, n: usize) {
        let p = self.p;
        let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { return };
        let dtype = p.kernel.insts[v].dtype;
        let size = width(dtype);
        let per = self.acc_len(n);
        let fold = fold(op, dtype, self.isa);
        let across = fold.across;
        let acc = self.m.accumulator(k, per);
        let reg = self.m.ptr[v] as *mut u8;
        let w = if p.style == Style::Columns { n } else { 1 };
        // Lanes beyond the row's length would hold the identity; in columns style they do not exist, and leaving them
        // out changes nothing: every accumulator began with the identity already.
        let lanes = p.kernel.order.lanes;
        let have = if p.style == Style::Columns { lanes.min(p.cols.max(1)) } else { lanes };
        let mut live = lanes;
        // SAFETY: lane l occupies w registers at l * w; halves never overlap.
        unsafe {
            if w == 1 && have == WIDE {
                (fold.lanes)(acc);
                live = 1;
            }
            while live > 1 {
                let half = live / 2;
                // Lanes lie side by side, so the upper half goes onto the lower one at once.
                let upper = live.min(have).saturating_sub(half);
                across(acc, acc.add(half * w * size), upper * w);
                live = half;
            }
            std::ptr::copy_nonoverlapping(acc, reg, w * size);
            if dtype.is_int() {
                convert::wrap(dtype, reg, w);
            }
            if p.spreads(v) {
                transfer::spread(dtype, reg, self.p.width_of[v]);
            }
        }
    }
}
