//! Kernels of one body as one launch, or few: an optimizer's update of all parameters.
//!
//! What a part reads and writes stands in a table that the launch takes by value ([`emit::Table`]), so a recording owns
//! it like any other argument, and numbers that change are written into it. Parts whose buffers are not aligned go as a
//! launch of their own.

use crate::{
    backend::{Cuda, bug, with_arguments},
    graphs::{self, KernelLaunch, Numbers},
    module::{Compiler, Loaded},
};
use gradus_core::{
    DType, Result, Scalar,
    backend::{Executable, Slot},
    kernel::{
        Kernel,
        emit::{self, Table},
        verify,
    },
};
use std::{
    any::Any,
    sync::{Arc, OnceLock},
};

/// A program on the device, and the layout of its table.
struct Ready {
    loaded: Loaded,
    table: Arc<Table>,
}

/// The kernels made ready: for aligned buffers, and (made when first needed) for others.
pub struct Many {
    kernels: Vec<Kernel>,
    /// Types of the buffers of each, and numbers that each takes.
    types: Vec<DType>,
    params: usize,
    aligned: Ready,
    other: OnceLock<Result<Ready>>,
}

impl Executable for Many {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Cuda {
    /// Makes kernels of one body ready, where they can go as one.
    pub(crate) fn prepare_many(&self, kernels: &[Kernel]) -> Result<Option<Arc<Many>>> {
        for k in kernels {
            verify(k).map_err(|why| bug(&why))?;
        }
        let (Some(aligned), Some(first)) = (self.ready(kernels, true)?, kernels.first()) else { return Ok(None) };
        Ok(Some(Arc::new(Many {
            types: first.args.iter().map(|a| a.dtype).collect(),
            params: first.params.len(),
            kernels: kernels.to_vec(),
            aligned,
            other: OnceLock::new(),
        })))
    }

    fn ready(&self, kernels: &[Kernel], aligned: bool) -> Result<Option<Ready>> {
        let Some(many) = emit::cuda_many(kernels, &Compiler::target(&self.context, aligned))? else { return Ok(None) };
        let loaded = self.compiler.load(&self.context, many.program)?;
        Ok(Some(Ready { loaded, table: Arc::new(many.table) }))
    }

    /// Runs all of them: the buffers and the parameters of all in turn.
    pub(crate) fn run_many(&self, exe: &Many, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let (n, each) = (exe.kernels.len(), exe.types.len());
        if args.len() != n * each || params.len() != n * exe.params {
            return Err(bug("a launch with other buffers or parameters than its kernels have"));
        }
        self.context.enter()?;
        let types = exe.types.iter().cycle();
        let addresses: Vec<u64> = args.iter().zip(types).map(|(s, &d)| Cuda::address(s, d)).collect();
        let alignment = &exe.aligned.loaded.program.alignment;
        let fits = |&part: &usize| {
            let own = &addresses[part * each..(part + 1) * each];
            own.iter().zip(alignment).all(|(a, &n)| a.is_multiple_of(n as u64))
        };
        let (aligned, others): (Vec<usize>, Vec<usize>) = (0..n).partition(fits);
        self.run_parts(exe, &exe.aligned, &aligned, &addresses, params)?;
        if !others.is_empty() {
            let make = || self.ready(&exe.kernels, false)?.ok_or_else(|| bug("kernels that go as one only if aligned"));
            let other = exe.other.get_or_init(make).as_ref().map_err(Clone::clone)?;
            self.run_parts(exe, other, &others, &addresses, params)?;
        }
        graphs::kernel_done();
        Ok(())
    }

    /// Runs some of them with one program, as many a launch as a table has room for.
    fn run_parts(
        &self,
        exe: &Many,
        ready: &Ready,
        parts: &[usize],
        addresses: &[u64],
        params: &[Scalar],
    ) -> Result<()> {
        let (table, each) = (&ready.table, exe.types.len());
        let extent = |part: usize| exe.kernels[part].rows();
        for parts in parts.chunks(table.parts) {
            let blocks: usize = parts.iter().map(|&p| table.blocks(extent(p))).sum();
            let numbers = Numbers::Table(table.clone(), parts.to_vec());
            with_arguments(|arguments, pointers| {
                arguments.fill(&[], [self.flags.0 as u64, 0], &[], &[]);
                table.clear(&mut arguments.table, blocks);
                let mut first = 0;
                for (i, &p) in parts.iter().enumerate() {
                    table.set_part(&mut arguments.table, i, &addresses[p * each..(p + 1) * each], extent(p), first);
                    first += table.blocks(extent(p));
                }
                numbers.write(arguments, params);
                let program = &ready.loaded.program;
                let (threads, function) = (program.stages[0].threads, ready.loaded.functions[0]);
                arguments.pointers(&program.bindings, pointers);
                let _shared = self.stream_shared();
                // SAFETY: the planner derives addresses from shapes that fit the buffers.
                unsafe { function.launch(self, blocks, threads, 0, pointers)? };
                let bindings = &program.bindings;
                let launch = KernelLaunch { function, blocks, threads, shared: 0, arguments, bindings, params };
                graphs::kernel_launched(self, &launch, || numbers.clone())
            })?;
        }
        Ok(())
    }
}
