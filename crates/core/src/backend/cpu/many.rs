//! Kernels of one body as one launch: all their blocks are shared out over the threads at once.

use super::{address, exec, program::Program};
use crate::{
    Result, Scalar, Tensor,
    backend::{Executable, Slot},
    kernel::Kernel,
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
    work: usize,
}

impl Executable for Many {
    fn as_any(&self) -> &dyn Any {
        self
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
        Many { programs, starts, tasks, work }
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
            // SAFETY: the caller's promise; tasks take different units.
            unsafe { exec::run_units(p, all.part(first, p.kernel.args.len()), params, from, to) }
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
