//! Running the list of calls of a program over one block.

use super::{
    convert,
    exec::{Memory, Task},
    jit::{self, Entry},
    micro::{Cursor, Dst, Micro, Src},
    program::Style,
    runs::Block,
    transfer::{self, Run},
};
use crate::{DType, Result, kernel::Val};

impl Task<'_> {
    /// A list of calls over one block.
    ///
    /// # Safety
    /// As [`super::exec::run`]; the block lies inside its space, and `per` words of accumulators stand ready for each reduction.
    #[inline]
    pub(super) unsafe fn calls(&mut self, list: &[Micro], s: Span, per: usize) -> Result<()> {
        let p = self.p;
        let at = |m: &Memory, c: usize| {
            let cursor = &p.cursors[c];
            m.pos[c].wrapping_add_signed(s.from as isize * cursor.step * cursor.size)
        };
        let src = |m: &Memory, x: &Src| m.ptr[x.v].wrapping_add(s.col * x.per_col) as *const u8;
        let strided = |step: isize, n: usize| Run { start: 0, step, len: n, lo: 0, hi: n };
        for op in list {
            // SAFETY: registers hold a block of values; operands were computed by this task; addresses are inside their
            // buffers by the caller's promise.
            unsafe {
                match op {
                    Micro::Point(v, c) => self.m.ptr[*v] = at(&self.m, *c),
                    Micro::Call { v, f, src: x, dst } => {
                        let d = self.target(*v, *dst, &s);
                        f(d, [src(&self.m, &x[0]), src(&self.m, &x[1]), src(&self.m, &x[2])], s.n);
                    }
                    Micro::Loop(l) => {
                        let l = &p.loops[*l];
                        let mut table = [0usize; jit::POINTERS];
                        for (t, e) in table.iter_mut().zip(&l.entries) {
                            *t = match e {
                                Entry::Value(x) => src(&self.m, x) as usize,
                                Entry::Register(v, per_col) => self.register(*v) as usize + s.col * per_col,
                                Entry::Memory(c) => at(&self.m, *c),
                                Entry::Accumulator(k) => {
                                    let lane = if p.style == Style::Columns { s.lane * s.n * 4 } else { 0 };
                                    self.m.accumulator(*k, per) as usize + lane
                                }
                            };
                        }
                        l.run(&mut table, |x| *src(&self.m, x).cast::<u32>(), s.n);
                        for &(v, c) in &l.placed {
                            self.m.ptr[v] = at(&self.m, c);
                        }
                    }
                    Micro::Fold { k, size, f, src: x, .. } => {
                        let acc = self.m.accumulator(*k, per);
                        let x = src(&self.m, x);
                        match p.style {
                            Style::Columns => (f.across)(acc.add(s.lane * s.n * size), x, s.n),
                            Style::Rows => (f.along)(acc, p.kernel.order.lanes, s.lane, x, s.n),
                        }
                    }
                    Micro::Fill(v, c, dtype) => {
                        if s.fresh {
                            let n = if s.block == Block::Point { p.width_of[*v] } else { p.width_of[*v].min(p.inner) };
                            transfer::load(*dtype, at(&self.m, *c) as *const u8, strided(0, n), self.register(*v));
                        }
                    }
                    Micro::Load(v, c, dtype) => {
                        let run = strided(p.cursors[*c].step, s.n);
                        transfer::load(*dtype, at(&self.m, *c) as *const u8, run, self.register(*v));
                    }
                    Micro::Turned(v, c) => self.turned(*v, *c, s.n),
                    Micro::Lines(v, c, dtype) => self.lines(*v, *c, *dtype, &s),
                    Micro::Cast { v, types, src: x, dst } => {
                        let d = self.target(*v, *dst, &s);
                        convert::cast(types.0, types.1, src(&self.m, x), d, s.n);
                    }
                    Micro::Store(c, dtype, x, _) if p.cursors[*c].lines.is_some() => {
                        let width = super::analysis::width(*dtype);
                        let to = self.m.pos[*c] as *mut u8;
                        for (i, run) in line_runs(&p.cursors[*c], s.from, s.n) {
                            transfer::store(*dtype, to, run, src(&self.m, x).add(i * width));
                        }
                    }
                    Micro::Store(c, dtype, x, step) => {
                        let (to, from) = (at(&self.m, *c) as *mut u8, src(&self.m, x));
                        // A value that found its own way there needs no copy.
                        if !std::ptr::eq(to, from) {
                            transfer::store(*dtype, to, strided(*step, s.n), from);
                        }
                    }
                    Micro::Spread(v, dtype) => transfer::spread(*dtype, self.register(*v), p.width_of[*v]),
                    Micro::Other(v) => self.inst(*v, s.block, s.n, s.col)?,
                }
            }
        }
        Ok(())
    }

    /// A load line by line.
    ///
    /// # Safety
    /// As [`super::exec::run`]; all lines lie in the buffer.
    unsafe fn lines(&mut self, v: Val, c: usize, dtype: DType, s: &Span) {
        let (p, from) = (self.p, self.m.pos[c]);
        let cursor = &p.cursors[c];
        // The same line for all of them, and it is there already.
        let whole = cursor.lines.is_some_and(|(line, apart)| apart == 0 && s.from.is_multiple_of(line));
        if whole && self.m.filled[v] == (from, s.n) {
            return;
        }
        let (reg, width) = (self.register(v), super::analysis::width(dtype));
        for (i, run) in line_runs(cursor, s.from, s.n) {
            // SAFETY: the caller's promise; the register holds a block.
            unsafe { transfer::load(dtype, from as *const u8, run, reg.add(i * width)) };
        }
        self.m.filled[v] = if whole { (from, s.n) } else { (0, 0) };
    }

    /// Where a call writes its block.
    #[inline]
    fn target(&mut self, v: Val, dst: Dst, s: &Span) -> *mut u8 {
        match dst {
            Dst::Register { per_col } => self.register(v).wrapping_add(s.col * per_col),
            Dst::Memory(c) => {
                let cursor = &self.p.cursors[c];
                let at = self.m.pos[c].wrapping_add_signed(s.from as isize * cursor.size);
                self.m.ptr[v] = at;
                at as *mut u8
            }
        }
    }
}

/// `n` elements of a cursor's lines, `from` elements after where it stands: for each stretch of a line, its first place in
/// the block and its addresses.
fn line_runs(cursor: &Cursor, from: usize, n: usize) -> impl Iterator<Item = (usize, Run)> {
    let (line, apart) = cursor.lines.unwrap_or((usize::MAX, 0));
    let step = cursor.step;
    let mut done = 0;
    std::iter::from_fn(move || {
        let (l, r) = ((from + done) / line, (from + done) % line);
        let len = (line - r).min(n - done);
        let run = Run { start: l as isize * apart + r as isize * step, step, len, lo: 0, hi: len };
        let at = done;
        done += len;
        (len > 0).then_some((at, run))
    })
}

/// One block.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Along which space.
    pub block: Block,
    /// Elements.
    pub n: usize,
    /// Elements after the place the cursors stand at.
    pub from: usize,
    /// Place in the row.
    pub col: usize,
    /// Lane of its first element.
    pub lane: usize,
    /// Whether the cursors have moved since the last block.
    pub fresh: bool,
}
