//! Reductions of a pass: accumulators, lanes and chunks, in the order the kernel lays down.

use super::{
    exec::Task,
    fold::fold,
    program::{BLOCK, Pass, Program, Style, width},
    transfer,
};
use crate::{
    Result,
    kernel::{InstKind, Val, oracle::Cell},
};

/// Chunks combined, neighbours first.
pub fn pairwise(p: &Program, v: Val, mut parts: Vec<Vec<Cell>>) -> Vec<Cell> {
    let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { return vec![] };
    let dtype = p.kernel.insts[v].dtype;
    while parts.len() > 1 {
        let mut next = Vec::with_capacity(parts.len().div_ceil(2));
        let mut it = parts.into_iter();
        while let Some(mut a) = it.next() {
            if let Some(b) = it.next() {
                for (a, b) in a.iter_mut().zip(b) {
                    *a = crate::kernel::oracle::combine(op, *a, b, dtype);
                }
            }
            next.push(a);
        }
        parts = next;
    }
    parts.pop().unwrap_or_default()
}

impl Task<'_> {
    /// One chunk of a pass, its reductions finished into cells (one a reduction and map point).
    ///
    /// # Safety
    /// As [`super::exec::run`].
    pub(super) unsafe fn whole_chunk(&mut self, s: usize, n: usize, c: usize) -> Result<Vec<Cell>> {
        let pass = &self.p.passes[s];
        // SAFETY: the caller's promise.
        unsafe { self.chunk(pass, n, c)? };
        let w = if self.p.style == Style::Columns { n } else { 1 };
        let mut out = Vec::with_capacity(pass.reduces.len() * w);
        for (k, &v) in pass.reduces.iter().enumerate() {
            self.finish(k, v, n);
            let size = width(self.p.kernel.insts[v].dtype);
            for i in 0..w {
                let mut cell = Cell::default();
                let from = (self.m.ptr[v] as *const u8).wrapping_add(i * size);
                // SAFETY: `finish` left w registers there.
                unsafe { std::ptr::copy_nonoverlapping(from, (&raw mut cell).cast(), size) };
                out.push(cell);
            }
        }
        Ok(out)
    }

    /// Puts finished reductions back into their registers.
    pub(super) fn restore(&mut self, reduced: &[(Val, Vec<Cell>)], n: usize) {
        for (v, cells) in reduced {
            let dtype = self.p.kernel.insts[*v].dtype;
            let (size, reg) = (width(dtype), self.m.ptr[*v] as *mut u8);
            for (i, cell) in cells.iter().take(n).enumerate() {
                // SAFETY: registers hold BLOCK values, and n is at most that.
                unsafe { std::ptr::copy_nonoverlapping((&raw const *cell).cast(), reg.add(i * size), size) };
            }
            if self.p.style == Style::Rows && self.p.spread[*v] {
                // SAFETY: as above.
                unsafe { transfer::spread(dtype, reg, BLOCK) };
            }
        }
    }

    /// Sets the accumulators of a pass to the identities of its reductions.
    pub(super) fn clear_accumulators(&mut self, pass: &Pass, n: usize, per: usize) {
        let p = self.p;
        if pass.reduces.is_empty() {
            return;
        }
        self.m.acc.clear();
        self.m.acc.resize(per * pass.reduces.len(), 0);
        for (k, &v) in pass.reduces.iter().enumerate() {
            let InstKind::Reduce(op, _) = p.kernel.insts[v].kind else { continue };
            let dtype = p.kernel.insts[v].dtype;
            let start = Cell::of(op.identity(dtype), dtype);
            let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
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
        let across = fold(op, dtype, self.isa).across;
        let acc = self.m.acc[k * per..].as_mut_ptr().cast::<u8>();
        let reg = self.m.ptr[v] as *mut u8;
        let w = if p.style == Style::Columns { n } else { 1 };
        // Lanes beyond the row's length would hold the identity; in columns style they do not exist, and leaving them
        // out changes nothing: every accumulator began with the identity already.
        let lanes = p.kernel.order.lanes;
        let have = if p.style == Style::Columns { lanes.min(p.cols.max(1)) } else { lanes };
        let mut live = lanes;
        // SAFETY: lane l occupies w registers at l * w; halves never overlap.
        unsafe {
            while live > 1 {
                let half = live / 2;
                for l in half..live.min(have) {
                    across(acc.add((l - half) * w * size), acc.add(l * w * size), w);
                }
                live = half;
            }
            std::ptr::copy_nonoverlapping(acc, reg, w * size);
            if dtype.is_int() {
                transfer::wrap(dtype, reg, w);
            }
            if p.style == Style::Rows && p.spread[v] {
                transfer::spread(dtype, reg, BLOCK);
            }
        }
    }
}
