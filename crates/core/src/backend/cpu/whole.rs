//! Kernels that run as one function of machine code over many rows (see `jit/whole.rs`): what is left here is to say
//! where things lie at the first of them.

use super::{
    ahead::{self, Ahead},
    analysis::width,
    convert::f16_bits,
    exec::Task,
    jit::{self, Outline, Whole},
    micro::{Blocks, Cursor, Cursors},
    program::{Pass, Program, Style},
    reduce::Parts,
};
use crate::{
    DType,
    kernel::{InstKind, Kernel, Level, Val},
};
use smallvec::SmallVec;

/// What a function takes for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A map point and all its reduce points.
    Rows,
    /// The last axis of the map space.
    Lines,
    /// A block of the last axis.
    Blocks,
    /// A chunk of the reduce points of one map point.
    Chunks,
    /// So many reduce points of a block of map points, of so many chunks.
    Points(usize, usize),
}

/// Where a pointer of a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where a cursor stands.
    Cursor(usize),
    /// Where a value's block is.
    Value(Val),
    /// A value's register.
    Register(Val),
    /// The accumulators of a reduction, for one of the chunks that go abreast.
    Accumulator(usize, usize),
    /// The results of a reduction of a pass, chunk after chunk.
    Part(usize, usize),
    /// Where a load of positions stands in a table of them, 32 bits each.
    Positions(Val),
    /// The beginning of that table, for positions counted from where a call begins: it must not go beyond the end.
    Far,
    /// The beginning of that table: positions in a line.
    Count,
    /// The beginning of a table of positions in a chunk, of 64 bits or 32.
    Steps(bool),
}

/// Chunks whose sums go abreast where a block is a few vectors, as many as registers allow: one alone would wait for itself.
const ABREAST: [usize; 2] = [4, 2];
/// Reduce points of each that are done at once: chunks have whole groups.
const GROUP: usize = 8;
/// The longest such block.
const NARROW: usize = 64;

/// Sizes of groups of reduce points, the best first: those that leave the fewest points over, which go one by one.
fn groups(cols: usize, chunk: usize) -> SmallVec<[usize; 8]> {
    let mut all: SmallVec<[usize; 8]> = (4..=GROUP).rev().filter(|&g| g <= cols).collect();
    all.sort_by_key(|g| if cols > chunk { 0 } else { cols % g });
    all
}

/// Bytes from the accumulators of one chunk to those of the next, for so many map points.
fn line(n: usize) -> usize {
    (8 * n).next_multiple_of(64)
}

/// How many positions there are in memory: those of the longest row that is done at once.
pub const POSITIONS: usize = crate::kernel::Order::ROWS.chunk;

static COUNT: [u32; POSITIONS] = {
    let mut all = [0; POSITIONS];
    let mut n = 0;
    while n < POSITIONS {
        all[n] = n as u32;
        n += 1;
    }
    all
};

/// The positions in a chunk, as wide lanes have them.
static STEPS: [u64; POSITIONS] = {
    let mut all = [0; POSITIONS];
    let mut n = 0;
    while n < POSITIONS {
        all[n] = n as u64;
        n += 1;
    }
    all
};

/// The functions of a program.
#[derive(Debug, Default)]
pub struct Functions {
    /// For units of work, all passes.
    pub units: Option<Whole>,
    /// The same with results that go past the caches.
    pub past: Option<Whole>,
    /// For the chunks of each pass.
    pub chunks: Vec<Option<Whole>>,
    /// For groups of reduce points of each pass.
    pub points: Vec<Option<Whole>>,
    /// The same for the last block of a line, where it is shorter.
    pub rest: Vec<Option<Whole>>,
    /// The same for several chunks at once.
    pub abreast: Vec<Option<Whole>>,
}

/// What is known of a program when its functions are made.
pub struct Made<'a> {
    /// The kernel.
    pub k: &'a Kernel,
    /// Its cursors.
    pub cursors: &'a Cursors,
    /// How it runs.
    pub style: Style,
    /// How its blocks lie.
    pub blocks: Blocks,
    /// Its passes, and what they fetch ahead.
    pub passes: (&'a [Pass], &'a [Vec<Ahead>]),
    /// Values whose register holds a whole row.
    pub cached: &'a [bool],
    /// Elements of a block, and of the axis it runs along.
    pub unit: usize,
    /// Elements of the axis it runs along.
    pub inner: usize,
}

impl Functions {
    /// What can be made.
    pub fn new(m: &Made<'_>) -> Functions {
        let mut out = Functions::default();
        if !jit::available() || m.blocks != Blocks::Along || (m.k.reduce.len() > 1 && !m.k.chunks_are_lines()) {
            return out;
        }
        let (cols, order) = (m.k.cols(), m.k.order);
        // The hardware follows a stream that nothing interrupts better than we do: 64 MiB are summed in 0.70 ms, with lines
        // asked for 2 KiB ahead in 0.97. Rows that several passes visit do interrupt it.
        let visits = m.passes.0.iter().filter(|p| !p.elems.is_empty()).count();
        // Several rows at once are as many streams, too many for it: 6 % of the time of a sum over rows of 64 MiB.
        let streams = match m.style {
            Style::Rows if cols > order.chunk => ahead::chunks(m.k, m.cursors),
            Style::Rows if !m.k.map.is_empty() => {
                ahead::pages(m.k, m.cursors, cols, |c| c.strides[m.k.map.len() - 1] * c.size)
            }
            Style::Columns if cols > 1 => ahead::streams(m.k, m.cursors),
            Style::Rows | Style::Columns => vec![],
        };
        let streams = if visits == 1 { streams } else { vec![] };
        let ahead = |s: usize| if visits > 1 && cols <= order.chunk { &m.passes.1[s][..] } else { &streams[..] };
        let all = |from: usize, to: usize| (from..to).map(|s| (&m.passes.0[s], ahead(s)));
        let make = |from: usize, to: usize, over: Over, n: usize| {
            let passes = all(from, to).collect();
            Outline { k: m.k, cursors: m.cursors, cached: m.cached, passes, past: &[], over, n }.compile()
        };
        let count = m.passes.0.len();
        let reduces = m.passes.0.iter().any(|p| !p.reduces.is_empty());
        match m.style {
            Style::Rows if cols <= order.chunk => out.units = make(0, count, Over::Rows, cols),
            Style::Rows => out.chunks = (0..count).map(|s| make(s, s + 1, Over::Chunks, order.chunk)).collect(),
            Style::Columns if cols == 1 && !reduces && count == 1 => {
                let over = if m.unit == m.inner { Over::Lines } else { Over::Blocks };
                out.units = make(0, 1, over, m.unit);
            }
            Style::Columns if cols > 1 && order.lanes == 1 && m.k.reduce.len() == 1 => {
                let one = |s: usize, n: usize| {
                    let groups = groups(cols, order.chunk);
                    groups.into_iter().find_map(|g| make(s, s + 1, Over::Points(g, 1), n).filter(|w| w.light()))
                };
                out.points = (0..count).map(|s| one(s, m.unit)).collect();
                if let rest @ 1.. = m.inner % m.unit {
                    out.rest = (0..count).map(|s| one(s, rest)).collect();
                }
                if m.unit <= NARROW && order.chunk.is_multiple_of(GROUP) {
                    let many = |s: usize| {
                        let abreast = ABREAST.into_iter().filter(|&a| cols >= a * order.chunk);
                        abreast.into_iter().find_map(|a| make(s, s + 1, Over::Points(GROUP, a), m.unit))
                    };
                    out.abreast = (0..count).map(many).collect();
                }
            }
            Style::Columns => {}
        }
        if let Some(Whole { over, n, .. }) = out.units {
            let past = &ahead::past(m.k, m.cursors)[..];
            let beside = if visits == 1 { ahead::beside_past(m.k, m.cursors) } else { vec![] };
            let fetched = |s: usize| if visits == 1 { &beside[..] } else { ahead(s) };
            let passes = m.passes.0.iter().enumerate().map(|(s, pass)| (pass, fetched(s))).collect();
            let outline = Outline { k: m.k, cursors: m.cursors, cached: m.cached, passes, past, over, n };
            out.past = if past.is_empty() { None } else { outline.compile().filter(|w| !w.past.is_empty()) };
        }
        out
    }
}

impl Functions {
    /// Whether the chunks of a pass need nothing but a function, where all of them are whole.
    pub fn takes(&self, s: usize, pass: &Pass) -> bool {
        pass.elems.is_empty() || self.chunks.get(s).is_some_and(Option::is_some)
    }
}

impl Task<'_> {
    /// Units from `u` on, up to `to`, by one function: how many it did.
    ///
    /// # Safety
    /// As [`super::exec::run`].
    #[inline]
    pub(super) unsafe fn whole_units(&mut self, u: usize, to: usize) -> usize {
        let p = self.p;
        let Some(w) = &p.functions.units else { return 0 };
        if !self.takes(w) {
            return 0;
        }
        let (m0, n) = p.points_of(u);
        let map = &p.kernel.map;
        let axis = |back: usize| map.len().checked_sub(back).map_or(1, |a| map[a]).max(1);
        let left = match w.over {
            Over::Rows => axis(1) - m0 % axis(1),
            Over::Lines => axis(2) - m0 / axis(1) % axis(2),
            Over::Blocks if n < w.n => 0,
            Over::Blocks => (axis(1) - m0 % axis(1)) / w.n,
            Over::Chunks | Over::Points(..) => 0,
        };
        let most = if w.places.contains(&Place::Far) { POSITIONS / w.n } else { usize::MAX };
        let count = left.min(to - u).min(most);
        if count > 0 {
            self.start(m0);
            let w = p.functions.past.as_ref().filter(|w| self.goes_past(w)).unwrap_or(w);
            // SAFETY: the caller's promise; these rows lie one after the other along one axis.
            unsafe { self.whole(w, count, |_| 0, 0, &mut []) };
        }
        count
    }

    /// Chunks from `c` on, up to `to`, of pass `s` by one function, their results added to the parts: how many it did.
    ///
    /// # Safety
    /// As [`super::exec::run`].
    pub(super) unsafe fn whole_chunks(&mut self, s: usize, c: usize, to: usize, out: &mut Parts) -> usize {
        let p = self.p;
        let Some(Some(w)) = p.functions.chunks.get(s) else { return 0 };
        let count = to.min(p.cols / w.n).saturating_sub(c);
        if count > 0 {
            let words = out.more(count, p.passes[s].reduces.len());
            // SAFETY: the caller's promise; these chunks are whole, and there is a word for each of their results.
            unsafe { self.whole(w, count, |to| c as isize * p.kernel.chunk_step(&to.strides), 0, words) };
        }
        count
    }

    /// Reduce points from `from` on, up to `to`, of pass `s` by one function: how many it did.
    ///
    /// # Safety
    /// As [`super::exec::run`]; `per` words of accumulators stand ready for each reduction.
    pub(super) unsafe fn whole_points(&mut self, s: usize, n: usize, from: usize, to: usize, per: usize) -> usize {
        let p = self.p;
        let made = [&p.functions.points, &p.functions.rest];
        let Some(w) = made.into_iter().find_map(|f| f.get(s)?.as_ref().filter(|w| w.n == n)) else { return 0 };
        let Over::Points(group, _) = w.over else { return 0 };
        let count = if self.takes(w) { (to - from) / group } else { 0 };
        if count > 0 {
            let along = |to: &Cursor| from as isize * to.strides.get(p.kernel.map.len()).copied().unwrap_or(0);
            // SAFETY: the caller's promise; the accumulators were cleared for `n` points.
            unsafe {
                w.relative.iter().for_each(|r| w.begin_places(self.m.accumulator(r.0, per), n));
                self.whole(w, count, along, per, &mut []);
                let places = |&(k, v)| w.end_places(self.m.accumulator(k, per), n, self.place(v, from));
                w.relative.iter().for_each(places);
            }
        }
        count * group
    }

    /// Whole chunks from `c` on, up to `to`, of pass `s`, several at once, their results added to the parts: how many it did.
    ///
    /// # Safety
    /// As [`super::exec::run`].
    pub(super) unsafe fn chunks_abreast(&mut self, s: usize, n: usize, c: usize, to: usize, out: &mut Parts) -> usize {
        let p = self.p;
        let Some(Some(w)) = p.functions.abreast.get(s) else { return 0 };
        let Over::Points(group, abreast) = w.over else { return 0 };
        let (pass, chunk) = (&p.passes[s], p.kernel.order.chunk);
        let mut done = 0;
        while n == w.n && self.takes(w) && c + done + abreast <= to.min(p.cols / chunk) {
            // Registers of the narrowest type that fill the lines of all chunks; there is room for as many words.
            let least = pass.reduces.iter().map(|&v| width(p.kernel.insts[v].dtype)).min().unwrap_or(8);
            let per = abreast * line(n) / least;
            self.clear_accumulators(pass, per, per);
            let first = (c + done) * chunk;
            let along = |to: &Cursor| first as isize * to.strides.get(p.kernel.map.len()).copied().unwrap_or(0);
            // SAFETY: the caller's promise; these chunks are whole, and their accumulators were cleared.
            unsafe {
                for &(k, _) in &w.relative {
                    let first = self.m.accumulator(k, per);
                    (0..abreast).for_each(|c| w.begin_places(first.add(line(n) * c), n));
                }
                self.whole(w, chunk / group, along, per, &mut []);
            }
            for c in 0..abreast {
                for (k, &v) in pass.reduces.iter().enumerate() {
                    let from = self.m.accumulator(k, per).wrapping_add(line(n) * c);
                    // SAFETY: the function left `n` registers there.
                    unsafe {
                        if let Some(&(_, iota)) = w.relative.iter().find(|r| r.0 == k) {
                            w.end_places(from, n, self.place(iota, first + c * chunk));
                        }
                        out.add(p, pass, v, n, from);
                    }
                }
                out.next();
            }
            done += abreast;
        }
        done
    }

    /// Whether the results of a function can go past the caches from here on: whole lines, and none over what is read.
    fn goes_past(&self, w: &Whole) -> bool {
        w.past.iter().all(|&c| {
            let to = self.bases.0[self.p.cursors[c].arg];
            self.m.row[c].is_multiple_of(64) && self.bases.0.iter().filter(|b| **b == to).count() == 1
        })
    }

    /// Whether a function can work with the numbers of this launch.
    fn takes(&self, w: &Whole) -> bool {
        // SAFETY: a uniform value of 64 bits has a register of as many.
        w.takes(|v| unsafe { *(self.m.ptr[v] as *const i64) })
    }

    /// What a load of positions that steps through the reduce space alone has at a reduce point.
    fn place(&self, v: Val, point: usize) -> i64 {
        let InstKind::Load { access, .. } = &self.p.kernel.insts[v].kind else { return 0 };
        access.offset as i64 + point as i64
    }

    /// Runs a function for `count` rows, from so many elements after where each cursor stands at the current map point.
    ///
    /// # Safety
    /// As [`super::exec::run`]; the rows are there, and so is the room for what they reduce to.
    unsafe fn whole(
        &mut self,
        w: &Whole,
        count: usize,
        after: impl Fn(&Cursor) -> isize,
        per: usize,
        parts: &mut [u64],
    ) {
        let p: &Program = self.p;
        let base = (self.m.scratch.as_ptr() as usize).next_multiple_of(64);
        let step = |c: &Cursor| after(c) * c.size;
        let (m, map) = (&mut self.m, &self.map);
        let mut at = |place: &Place| match *place {
            Place::Cursor(c) => m.row[c].wrapping_add_signed(step(&p.cursors[c])),
            Place::Value(v) => m.ptr[v],
            Place::Register(v) => base + p.slot[v],
            Place::Accumulator(k, chunk) => m.accumulator(k, per) as usize + line(w.n) * chunk,
            Place::Part(_, k) => parts[k..].as_mut_ptr() as usize,
            Place::Far | Place::Count | Place::Steps(false) => COUNT.as_ptr() as usize,
            Place::Steps(true) => STEPS.as_ptr() as usize,
            Place::Positions(v) => {
                let InstKind::Load { access, .. } = &p.kernel.insts[v].kind else { return 0 };
                // Functions that count begin at reduce point zero.
                let at = access.offset + map.dot(&access.strides);
                COUNT.as_ptr().wrapping_offset(at) as usize
            }
        };
        let mut table = [0; jit::POINTERS];
        w.places.iter().zip(&mut table[jit::FIRST_PLACE..]).for_each(|(place, to)| *to = at(place));
        // SAFETY: a value's register holds at least one number of its type.
        let number = |v: Val| unsafe {
            let inst = &p.kernel.insts[v];
            if let (Level::Elem, InstKind::Load { access, .. }) = (inst.level, &inst.kind) {
                // Of a load that goes on within the rows it is where they begin.
                return (access.offset + map.dot(&access.strides)) as u64;
            }
            match inst.dtype.compute() {
                DType::F32 if w.wide() => (*(m.ptr[v] as *const f32) as f64).to_bits(),
                DType::Bool => *(m.ptr[v] as *const u8) as u64,
                _ if w.wide() => *(m.ptr[v] as *const u64),
                // The interpreter holds it in 32 bits.
                DType::F32 if w.words() && inst.dtype == DType::BF16 => *(m.ptr[v] as *const u32) as u64 >> 16,
                DType::F32 if w.words() => f16_bits(*(m.ptr[v] as *const f32)) as u64,
                _ => *(m.ptr[v] as *const u32) as u64,
            }
        };
        // SAFETY: the caller's promise.
        unsafe { w.call(&mut table, number, count) };
    }
}
