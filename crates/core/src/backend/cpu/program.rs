//! A kernel made ready for the CPU: spaces collapsed, passes laid out, registers assigned.
//!
//! Two ways to run share everything here. *Columns* takes a block of map points at a time and walks the reduce space
//! one point after another: elementwise kernels (a reduce space of one point), reductions across memory, short rows.
//! *Rows* takes one map point at a time and blocks of its reduce space: long reductions along memory. Both follow the
//! kernel's [`crate::kernel::Order`], so the choice never changes a bit.
//!
//! A kernel with reductions is cut into *passes*: pass 0 computes the reductions that need no other, pass 1 those that
//! need these, and so on; stores go with the first pass that can do them.

use super::{
    ahead,
    analysis::{block_size, closure, cost, direct, registers, style, touched, worth_keeping},
    jit,
    micro::{self, Blocks, Compiler, Cursor, Micro},
    nest,
    shares::Shares,
    tiles,
    whole::{Functions, Made, Over},
};
use crate::kernel::{Inst, InstKind, Kernel, Level, Val, along_memory, collapse, many_lines, turned, unrolled};

/// Along a last axis of at least this extent a block is a part of one line; below, it is several lines.
const LONG_LINE: usize = 512;
/// The same for kernels that are all loops of machine code.
const NEST_LINE: usize = 64;
/// And for those that are one function.
const FUNCTION_LINE: usize = 8;
/// Points of a reduction from which on shorter lines have functions too.
const NARROW_POINTS: usize = 24;
/// Functions take lines of at most this many elements as one,
const WHOLE_LINE: usize = 4096;
/// where there are at least so many.
const WHOLE_LINES: usize = 16;
/// Parts of a line of outputs that is cut for threads.
const CUTS: usize = 4;
/// Outputs that they are multiples of: two cache lines of f32.
const LEAST_CUT: usize = 32;
/// Sums of fewer bytes are not worth handing over in parts.
const CUT_BYTES: u64 = 544 << 10;
/// Bytes that a kernel moves, beyond which no cache holds anything of the last time.
const NEAR: u64 = 48 << 20;
/// How the loops run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Blocks of map points.
    Columns,
    /// Blocks of reduce points of one map point.
    Rows,
}

/// What one pass does.
#[derive(Debug, Default)]
pub struct Pass {
    /// Row values (and stores) that become known before it.
    pub rows: Vec<Val>,
    /// Element values, reductions and stores, in order.
    pub elems: Vec<Val>,
    /// Its reductions, a subset of `elems`.
    pub reduces: Vec<Val>,
    /// `rows`, compiled.
    pub row_calls: Vec<Micro>,
    /// The same without stores.
    pub row_calls_only: Vec<Micro>,
    /// `elems`, compiled, one call an instruction.
    pub plain: Vec<Micro>,
    /// The same with loops for runs of calls.
    pub calls: Vec<Micro>,
}

/// A prepared kernel.
#[derive(Debug)]
pub struct Program {
    /// The kernel with unit axes dropped and adjacent axes merged.
    pub kernel: Kernel,
    /// Map points.
    pub rows: usize,
    /// Reduce points.
    pub cols: usize,
    /// How it runs.
    pub style: Style,
    /// Elements a block.
    pub block: usize,
    /// Extent of the axis that blocks run along and never cross the end of; the whole space where they may.
    pub inner: usize,
    /// Map points a unit of work takes.
    pub unit: usize,
    /// Whether every block must find its place anew: it may cross the end of an axis, or needs its indices.
    pub reseek: bool,
    /// The addresses its calls use.
    pub cursors: Vec<Cursor>,
    /// Loops of machine code.
    pub loops: Vec<jit::Loop>,
    /// Uniform values, computed once a task.
    pub uniforms: Vec<Val>,
    /// The passes, in order.
    pub passes: Vec<Pass>,
    /// Byte position of each value's register in the scratch memory.
    pub slot: Vec<usize>,
    /// Values whose register holds a whole row.
    pub cached: Vec<bool>,
    /// Row values that element instructions read (in rows style they are spread over a block).
    pub spread: Vec<bool>,
    /// Elements over which a value that is the same along a block is spread.
    pub width_of: Vec<usize>,
    /// Bytes of scratch memory a task needs.
    pub scratch: usize,
    /// A measure of the whole work, to decide whether threads pay.
    pub work: usize,
    /// Whether caches may still hold some of its operands from the last time.
    pub near: bool,
    /// The store that can take a value straight from the instruction that computes it: no conversion in between.
    pub direct: Vec<Option<Val>>,
    /// The passes, where all of them are loops of machine code.
    pub nests: Option<Vec<nest::Nest>>,
    /// Functions of machine code for parts of it.
    pub functions: Functions,
    /// Whether a row's numbers are wanted one by one only: all that reads them is machine code.
    pub bare: bool,
    /// Whether operands come as tiles, and units in their order.
    pub tiles: bool,
    /// How its units are shared out.
    pub shares: Shares,
    /// Set where the whole kernel is a transposing copy.
    pub transposition: Option<super::copy::Transposition>,
}

/// Whether a reduction across memory has too few chunks to share out evenly (of 600 reduce points 512 are one), so that threads
/// had better take parts of the outputs. Where elements are written as well, whole lines are faster.
fn wants_cut(k: &Kernel) -> bool {
    let writes = |i: &Inst| i.level == Level::Elem && matches!(i.kind, InstKind::Store { .. });
    let few = k.cols() > 1 && 2 * k.cols() < 3 * k.order.chunk;
    few && !k.insts.iter().any(writes) && k.bytes() >= CUT_BYTES
}

impl Program {
    /// Units of work: blocks of map points that stay within the last axis, or rows.
    pub fn units(&self) -> usize {
        match self.style {
            Style::Columns => self.rows / self.inner * self.inner.div_ceil(self.unit),
            Style::Rows => self.rows,
        }
    }

    /// Whether a number of a row is spread over a block.
    pub fn spreads(&self, v: Val) -> bool {
        self.style == Style::Rows && self.spread[v] && !self.bare
    }

    /// Whether all its reductions go by functions for groups of reduce points.
    pub fn by_points(&self) -> bool {
        let f = &self.functions.points;
        !f.is_empty() && f.iter().zip(&self.passes).all(|(f, p)| f.is_some() || p.elems.is_empty())
    }

    /// First map point of a unit, and how many it has.
    pub fn points_of(&self, unit: usize) -> (usize, usize) {
        match self.style {
            Style::Columns if self.tiles && self.kernel.reduce.is_empty() => {
                tiles::points_of(&self.kernel.map, self.unit, unit)
            }
            Style::Columns => {
                let per = self.inner.div_ceil(self.unit);
                let from = unit % per * self.unit;
                (unit / per * self.inner + from, self.unit.min(self.inner - from))
            }
            Style::Rows => (unit, 1),
        }
    }

    /// Prepares a verified kernel.
    pub fn new(kernel: &Kernel) -> Program {
        let kernel = collapse(kernel);
        let kernel = unrolled(&kernel).map_or(kernel, |flat| collapse(&flat));
        let kernel = match super::copy::Transposition::of(&kernel) {
            Some(_) => kernel,
            None => turned(&kernel).unwrap_or(kernel),
        };
        let (kernel, exchanged) = many_lines(kernel);
        let mut program = Program::of(along_memory(kernel));
        program.shares = Shares::new(&program, exchanged);
        program
    }

    /// The same for a kernel whose axes are in order.
    fn of(kernel: Kernel) -> Program {
        if let Some(arranged) = tiles::arranged(&kernel) {
            return Program::with(arranged, tiles::LINES, false);
        }
        let lines = [kernel.map.last(), kernel.reduce.last()];
        let some = |least: usize| lines.iter().flatten().any(|line| (least..LONG_LINE).contains(line));
        let short = kernel.map.last().is_some_and(|&n| n < FUNCTION_LINE);
        if short && kernel.cols().saturating_mul(kernel.map.last().copied().unwrap_or(1)) >= NARROW_POINTS {
            // A few outputs beside each other, and many of those: long reductions make up for short lines.
            let program = Program::with(kernel.clone(), 1, false);
            if program.by_points() {
                return program;
            }
        }
        if some(FUNCTION_LINE) {
            // One line a block costs little where nothing but loops runs for it, and nothing is copied.
            let program = Program::with(kernel.clone(), FUNCTION_LINE, false);
            let loops = some(NEST_LINE) && program.nests.is_some();
            if program.functions.units.is_some() || program.by_points() || loops {
                return program;
            }
        }
        let program = Program::with(kernel, LONG_LINE, false);
        let blocks = program.functions.units.as_ref().is_some_and(|w| w.over == Over::Blocks);
        if blocks && program.inner <= WHOLE_LINE && program.rows / program.inner >= WHOLE_LINES {
            // A function has no registers in memory, and would leave the end of every line to calls.
            return Program::with(program.kernel, LONG_LINE, true);
        }
        let chunks = program.cols > program.kernel.order.chunk && !wants_cut(&program.kernel);
        if program.by_points() && chunks && program.unit < program.inner {
            // Threads then take chunks of whole rows, which lie one after the other.
            return Program::with(program.kernel, LONG_LINE, true);
        }
        program
    }

    /// With blocks that are a part of one line where lines are at least `long`, or all of it.
    fn with(kernel: Kernel, long: usize, whole: bool) -> Program {
        let (rows, cols) = (kernel.rows(), kernel.cols());
        let style = style(&kernel, cols);
        let n = kernel.insts.len();
        let stage = kernel.stages();
        let count = stage.iter().copied().max().map_or(1, |s| s + 1);
        // Rows of one chunk keep elements that a later pass needs; longer ones compute them again: their chunks may run on
        // different threads.
        let cache = style == Style::Rows && cols <= kernel.order.chunk;

        let worth = worth_keeping(&kernel);
        let mut passes: Vec<Pass> = (0..count).map(|_| Pass::default()).collect();
        let mut uniforms = vec![];
        let mut cached = vec![false; n];
        for v in 0..n {
            let inst = &kernel.insts[v];
            match (inst.level, &inst.kind) {
                (Level::Uniform, InstKind::Store { .. }) | (Level::Row, _) => {
                    if matches!(inst.kind, InstKind::Reduce(..)) {
                        passes[stage[v]].reduces.push(v);
                    } else {
                        passes[stage[v]].rows.push(v);
                    }
                }
                (Level::Uniform, _) => uniforms.push(v),
                (Level::Elem, _) => {}
            }
        }
        for (s, pass) in passes.iter_mut().enumerate() {
            let stores = (0..n).filter(|&v| {
                stage[v] == s
                    && kernel.insts[v].level == Level::Elem
                    && matches!(kernel.insts[v].kind, InstKind::Store { .. })
            });
            pass.elems = closure(&kernel, pass.reduces.iter().copied().chain(stores), |v| {
                let keep = cache && stage[v] < s && worth[v];
                if keep {
                    cached[v] = true;
                }
                keep
            });
        }
        // A cached value is computed by the first pass that needs it, which is its own stage's or a later one; make
        // sure that some pass does.
        for v in (0..n).filter(|&v| cached[v]).collect::<Vec<_>>() {
            let s = stage[v];
            if !passes[s].elems.contains(&v) {
                let more = closure(&kernel, passes[s].elems.iter().copied().chain([v]), |u| cached[u] && stage[u] < s);
                passes[s].elems = more;
            }
        }

        let mut spread = vec![false; n];
        for v in 0..n {
            if kernel.insts[v].level == Level::Elem {
                kernel
                    .operands(v)
                    .iter()
                    .filter(|&&o| kernel.insts[o].level == Level::Row)
                    .for_each(|&o| spread[o] = true);
            }
        }
        let dims = match style {
            Style::Columns => &kernel.map,
            Style::Rows => &kernel.reduce,
        };
        let blocks = match dims[..] {
            _ if style == Style::Rows && kernel.chunks_are_lines() => Blocks::Along,
            [.., lines, line] if (1..long).contains(&line) => {
                // A reduction's chunks must end where lines do, and one line must fit a block.
                let whole = style == Style::Columns || kernel.order.chunk.is_multiple_of(line);
                if whole && lines > 1 { Blocks::Lines(line) } else { Blocks::Across }
            }
            _ => Blocks::Along,
        };
        let inner = match (blocks, &dims[..]) {
            (Blocks::Across, _) => dims.iter().product(),
            (Blocks::Lines(line), [.., lines, _]) => lines * line,
            _ => dims.last().copied().unwrap_or(1),
        }
        .max(1);
        let cursors = micro::cursors(&kernel, style, blocks);
        let direct = direct(&kernel, &cached);
        let tiled = tiles::tiled(&kernel, style, &cursors);
        let tiles = tiled.contains(&true);
        let compiler = Compiler {
            k: &kernel,
            cursors: &cursors,
            cached: &cached,
            direct: &direct,
            spread: &spread,
            tiled: &tiled,
        };
        let own = micro::persistent(&kernel, &cursors);
        let in_memory: Vec<bool> = (0..n).map(|v| compiler.in_memory(v)).collect();
        for pass in &mut passes {
            let values: Vec<Val> = pass.rows.clone();
            let compile = |values: &[Val]| match style {
                Style::Columns => compiler.elems(values),
                Style::Rows => compiler.points(values),
            };
            pass.row_calls = compile(&values);
            let no_store = |v: &&Val| !matches!(kernel.insts[**v].kind, InstKind::Store { .. });
            pass.row_calls_only = compile(&values.iter().filter(no_store).copied().collect::<Vec<_>>());
            pass.plain = compiler.elems(&pass.elems);
        }
        let ahead = ahead::prefetches(&kernel, style, &cursors, &passes);
        let cut = style == Style::Columns && rows == inner && !whole && !tiles && wants_cut(&kernel);
        // Elements of a block where so many values have registers in memory.
        let block_of = |registers: usize| {
            let (lanes, target) = (kernel.order.lanes.min(cols.max(1)), block_size(registers));
            let unit = match style {
                Style::Columns => (target / lanes).max(64).min(target),
                Style::Rows => target,
            };
            let unit = if whole { inner.min(WHOLE_LINE) } else { unit };
            let unit = if tiles { unit.min(tiles::WIDTH) } else { unit };
            let unit = if cut { unit.min(inner.div_ceil(CUTS).next_multiple_of(LEAST_CUT)) } else { unit };
            // Whatever it was cut to, a block of lines has whole ones.
            match blocks {
                Blocks::Lines(line) => (unit / line).max(1) * line,
                Blocks::Along | Blocks::Across => unit,
            }
            .min(inner)
        };
        let functions_of = |passes: &[Pass], unit: usize| {
            let unit = if style == Style::Rows { 1 } else { unit };
            let (cursors, cached, passes) = (&cursors, &cached[..], (passes, &ahead[..]));
            Functions::new(&Made { k: &kernel, cursors, style, blocks, passes, cached, unit, inner })
        };
        // A function has no registers in memory. Where one does everything, loops would never run.
        let most = block_of(0);
        let functions = functions_of(&passes, most);
        let everything = functions.units.is_some();
        let mut loops = vec![];
        let still = jit::still(&kernel, style, &micro::filled(&kernel, &cursors));
        let context = jit::Context { k: &kernel, style, cached: &cached, still: &still, cursors: &cursors.all };
        for (pass, ahead) in passes.iter_mut().zip(&ahead) {
            pass.calls =
                if everything { pass.plain.clone() } else { jit::with_loops(&context, &pass.plain, ahead, &mut loops) };
        }
        let (touched, mut called) = touched(&kernel, &passes, &loops);
        if style == Style::Columns {
            // Rows are blocks of map points here, computed call by call.
            let rows = passes.iter().flat_map(|p| &p.rows);
            rows.for_each(|&v| kernel.operands(v).iter().for_each(|&o| called[o] = true));
        }
        let registers_used = (0..n).filter(|&v| touched[v] && !cached[v] && !in_memory[v]).count();
        let unit = if everything { most } else { block_of(registers_used) };
        let functions = if unit == most { functions } else { functions_of(&passes, unit) };
        let work = rows.saturating_mul(cols).saturating_mul(cost(&kernel));
        let block = unit.next_multiple_of(16);
        let block = if style == Style::Rows && blocks != Blocks::Along { unit } else { block };
        let unit = if style == Style::Rows { 1 } else { unit };
        // Loops read one vector of what is the same all along, and the way to lane zero is shorter than 64.
        let width_of = (0..n).map(|v| if called[v] { block } else { block.min(64) }).collect();
        let (slot, scratch) = registers(&kernel, &passes, &cached, (&own, &tiled), &in_memory, cols, block);
        let transposition = super::copy::Transposition::of(&kernel);
        let reseek =
            blocks == Blocks::Across || passes.iter().flat_map(|p| &p.calls).any(|m| matches!(m, Micro::Other(_)));
        let cursors = cursors.all;
        let nests = if reseek || everything {
            None
        } else {
            nest::nests(&kernel, style, &passes, &cursors, &loops, block, cols)
        };
        let by_lines = kernel.chunks_are_lines() && passes.iter().enumerate().all(|(s, p)| functions.takes(s, p));
        let bare = style == Style::Rows && (nests.is_some() || by_lines);
        if bare {
            // Loops take a row's numbers one by one: nothing is spread, and the numbers come from loops of one element.
            let kept = vec![true; n];
            let still: Vec<bool> = kernel.insts.iter().map(|i| i.level == Level::Uniform).collect();
            let context = jit::Context { k: &kernel, style, cached: &kept, still: &still, cursors: &cursors };
            for pass in &mut passes {
                for calls in [&mut pass.row_calls, &mut pass.row_calls_only] {
                    calls.retain(|m| !matches!(m, Micro::Spread(..)));
                    *calls = jit::with_loops(&context, calls, &[], &mut loops);
                }
            }
        }
        Program {
            rows,
            cols,
            style,
            block,
            inner,
            unit,
            reseek,
            cursors,
            loops,
            uniforms,
            passes,
            slot,
            cached,
            spread,
            width_of,
            scratch,
            work,
            near: kernel.bytes() <= NEAR,
            direct,
            nests,
            functions,
            bare,
            tiles,
            shares: Shares::default(),
            transposition,
            kernel,
        }
    }
}
