//! Kernels of one body as one launch: all their blocks are shared out over the threads at once.

use super::{address, exec, program::Program, tier::Tiered};
use crate::{
    Result, Scalar, Tensor,
    backend::{Executable, Slot},
    kernel::{InstKind, Kernel, Source},
};
use std::{any::Any, cell::Cell};

/// About as many elements as a task takes.
const TASK: usize = 16 * 1024;

thread_local! {
    /// A list for addresses, kept from launch to launch.
    static BASES: Cell<Vec<*mut u8>> = const { Cell::new(vec![]) };
}

/// The kernels, made ready, and their blocks in pieces.
pub struct Many {
    programs: Vec<Program>,
    /// The first buffer and the first parameter of each.
    starts: Vec<(usize, usize)>,
    /// Program, first unit, end.
    tasks: Vec<(usize, usize, usize)>,
    /// Those that are one task each and copy a few lines: what is joined of small parts is little else.
    lines: Vec<Option<Lines>>,
    work: usize,
}

/// Lines that are copied from one buffer to another.
struct Lines {
    /// The buffers, source first, their first bytes, and the bytes from a line to the next.
    args: [usize; 2],
    starts: [isize; 2],
    steps: [isize; 2],
    /// How many, of how many bytes.
    count: usize,
    bytes: usize,
}

impl Lines {
    /// Whether a program does nothing else.
    fn of(p: &Program) -> Option<Lines> {
        let k = &p.kernel;
        let [load, store] = &k.insts[..] else { return None };
        let InstKind::Load { source: Source::Arg(from), access: src } = &load.kind else { return None };
        let InstKind::Store { arg: to, access: dst, .. } = &store.kind else { return None };
        let (count, line) = match k.map[..] {
            [line] => (1, line),
            [count, line] => (count, line),
            _ => return None,
        };
        let plain = [src, dst].iter().all(|a| a.bounds.is_empty() && a.lookup.is_empty());
        let along = [src, dst].iter().all(|a| a.strides.last() == Some(&1));
        if !plain || !along || !k.reduce.is_empty() || k.args[*from].dtype != k.args[*to].dtype {
            return None;
        }
        let size = k.args[*from].dtype.size() as isize;
        Some(Lines {
            args: [*from, *to],
            starts: [src.offset * size, dst.offset * size],
            steps: [src.strides[0] * size, dst.strides[0] * size],
            count,
            bytes: line * size as usize,
        })
    }

    /// # Safety
    /// As [`exec::run`].
    unsafe fn copy(&self, bases: exec::Bases<'_>) {
        let at = |i: usize| bases.0[self.args[i]].wrapping_offset(self.starts[i]);
        let (from, to) = (at(0).cast_const(), at(1));
        for l in 0..self.count as isize {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (from.offset(l * self.steps[0]), to.offset(l * self.steps[1]));
                std::ptr::copy_nonoverlapping(from, to, self.bytes);
            }
        }
    }
}

impl Executable for Tiered<Many> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn prepare(&self) {
        self.best();
    }
}

impl Many {
    /// Makes verified kernels ready.
    pub fn new(kernels: &[Kernel]) -> Many {
        let programs: Vec<Program> = kernels.iter().map(Program::new).collect();
        let mut tasks = vec![];
        for (n, p) in programs.iter().enumerate().filter(|(_, p)| p.rows > 0) {
            let units = p.units();
            let pieces = p.rows.div_ceil(TASK).min(units).max(1);
            tasks.extend((0..pieces).map(|i| (n, i * units / pieces, (i + 1) * units / pieces)));
        }
        let starts = programs.iter().scan((0, 0), |at, p| {
            let start = *at;
            *at = (at.0 + p.kernel.args.len(), at.1 + p.kernel.params.len());
            Some(start)
        });
        let starts = starts.collect();
        let work = programs.iter().map(|p| p.work).sum();
        let mut lines: Vec<Option<Lines>> = programs.iter().map(|_| None).collect();
        for &(n, from, to) in &tasks {
            if from == 0 && to == programs[n].units() {
                lines[n] = Lines::of(&programs[n]);
            }
        }
        Many { programs, starts, tasks, lines, work }
    }

    /// Runs them all.
    ///
    /// # Safety
    /// As [`exec::run`], for every kernel.
    pub unsafe fn run(&self, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let mut bases = BASES.take();
        bases.clear();
        let mut param = 0;
        for p in &self.programs {
            let own = args.get(bases.len()..bases.len() + p.kernel.args.len());
            let own = own.ok_or_else(|| Tensor::bug("a launch with too few buffers"))?;
            bases.extend(own.iter().zip(&p.kernel.args).map(|(s, a)| address(s, a.dtype)));
            param += p.kernel.params.len();
        }
        if params.len() != param {
            return Err(Tensor::bug("a launch with other parameters than its kernels have"));
        }
        let all = exec::Bases(&bases);
        let one = |&(n, from, to): &(usize, usize, usize)| {
            let (p, (first, param)) = (&self.programs[n], self.starts[n]);
            let params = &params[param..param + p.kernel.params.len()];
            let own = all.part(first, p.kernel.args.len());
            if let Some(lines) = &self.lines[n] {
                // SAFETY: the caller's promise.
                unsafe { lines.copy(own) };
                return Ok(());
            }
            // SAFETY: the caller's promise; tasks take different units.
            unsafe { exec::run_units(p, own, params, from, to) }
        };
        let done = if self.work < exec::PARALLEL_WORK || self.tasks.len() < 2 || rayon::current_num_threads() < 2 {
            self.tasks.iter().try_for_each(one)
        } else {
            exec::try_for_tasks(self.tasks.len(), |i| one(&self.tasks[i]))
        };
        BASES.set(bases);
        done
    }
}
