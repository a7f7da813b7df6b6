//! The backend: what [`gradus_core::backend::Backend`] asks for, on one GPU.

use crate::{
    context::Context,
    conv::Convolutions,
    flash,
    graphs::{self, GraphStats, Graphs, KernelLaunch, Numbers},
    many::Many,
    matmul::Products,
    module::{Arguments, Compiler, Loaded, Prepared},
    pool::{MemoryStats, Pool},
    stage::Stage,
    sys::{device_error, driver},
};
use gradus_core::{
    DType, Device, Error, ErrorKind, Result, Scalar, Shape,
    backend::{Backend, Executable, Limits, Matmul, Run, Slot, Tail},
    graph::Buffer,
    kernel::{
        Kernel,
        emit::{self, Program},
        verify,
    },
    op::{Conv, HostOp},
};
use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// One GPU.
pub struct Cuda {
    name: String,
    limits: Limits,
    pub(crate) context: Context,
    pool: Mutex<Pool>,
    stage: Mutex<Stage>,
    pub(crate) compiler: Compiler,
    products: OnceLock<Result<Products>>,
    convolutions: OnceLock<Option<Convolutions>>,
    pub(crate) flash: flash::Kernels,
    pub(crate) flags: Flags,
    graphs: Mutex<Graphs>,
    /// Held by one thread while it records, by all others for each use of the stream.
    stream: RwLock<()>,
}

/// A word in host memory in which kernels raise bits.
pub(crate) struct Flags(pub *mut u32);

// SAFETY: the word is read and written with atomic operations.
unsafe impl Send for Flags {}
// SAFETY: as above.
unsafe impl Sync for Flags {}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

pub(crate) fn bug(what: &str) -> Error {
    Error::new("cuda", ErrorKind::Internal(what.into()))
}

/// Tells the host's allocator not to give memory back between steps: a training step's graph takes some megabytes of it,
/// and the system clears every page that it hands out anew (3 of 11 ms a step of GPT-2 on a virtual machine).
fn keep_host_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn mallopt(what: c_int, value: c_int) -> c_int;
        }
        const TRIM_THRESHOLD: c_int = -1;
        const MMAP_THRESHOLD: c_int = -3;
        // SAFETY: glibc's own function, which any thread may call.
        unsafe {
            mallopt(TRIM_THRESHOLD, 1 << 30);
            mallopt(MMAP_THRESHOLD, 64 << 20);
        }
    }
}

impl Cuda {
    /// Makes GPU `ordinal` ready.
    pub fn new(ordinal: usize) -> Result<Cuda> {
        keep_host_memory();
        let context = Context::new(ordinal)?;
        let compiler = Compiler::new(&context)?;
        let mut word: *mut c_void = std::ptr::null_mut();
        // SAFETY: pointers are to locals; the word is four bytes of fresh page-locked memory.
        unsafe {
            let d = context.driver;
            d.check((d.mem_host_alloc)(&mut word, 64, driver::HOST_MAPPED), "cuMemHostAlloc")?;
            word.cast::<u32>().write(0);
        }
        Ok(Cuda {
            name: format!("cuda:{ordinal}"),
            // Kernels take their arguments in 4 KiB.
            limits: Limits {
                max_args: 256,
                max_insts: 256,
                dtypes: DType::ALL.to_vec(),
                max_buffer: context.info.memory,
                attention: flash::types(context.info.capability),
                bias: vec![DType::F32, DType::F16, DType::BF16],
                conv_bias: vec![],
                relu: false,
                planes: vec![],
                layouts: false,
                row_tables: vec![DType::F32, DType::F64],
            },
            context,
            pool: Mutex::default(),
            stage: Mutex::default(),
            compiler,
            products: OnceLock::new(),
            convolutions: OnceLock::new(),
            flash: flash::Kernels::default(),
            flags: Flags(word.cast()),
            graphs: Mutex::default(),
            stream: RwLock::default(),
        })
    }

    /// The address of a slot's first element.
    pub(crate) fn address(slot: &Slot<'_>, dtype: DType) -> u64 {
        slot.buffer.raw().wrapping_add_signed((slot.offset * dtype.size() as isize) as i64)
    }

    /// The error of bits that kernels raised since the last time, if any.
    fn raised(&self) -> Result<()> {
        // SAFETY: the word lives as long as the process and is aligned.
        let word = unsafe { std::sync::atomic::AtomicU32::from_ptr(self.flags.0) };
        match word.load(std::sync::atomic::Ordering::Relaxed) {
            0 => Ok(()),
            _ => emit::raised(word.swap(0, std::sync::atomic::Ordering::Relaxed)),
        }
    }

    pub(crate) fn graphs(&self) -> MutexGuard<'_, Graphs> {
        lock(&self.graphs)
    }

    /// The stream for one thread alone.
    pub(crate) fn stream_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.stream.write().unwrap_or_else(|e| e.into_inner())
    }

    /// The stream beside other threads; the thread that records has it already.
    pub(crate) fn stream_shared(&self) -> Option<RwLockReadGuard<'_, ()>> {
        (!graphs::recording()).then(|| self.stream.read().unwrap_or_else(|e| e.into_inner()))
    }

    /// Memory for the time between two calls on the stream.
    pub(crate) fn scratch(&self, bytes: usize) -> Result<Scratch<'_>> {
        let raw = match graphs::recorded_scratch(bytes) {
            _ if bytes == 0 => 0,
            Some(raw) => raw,
            None => lock(&self.pool).take(&self.context, bytes)?,
        };
        Ok(Scratch { cuda: self, raw, bytes })
    }

    /// Takes these blocks, if all are free.
    pub(crate) fn take_blocks(&self, blocks: &[u64]) -> bool {
        lock(&self.pool).take_all(blocks)
    }

    /// Takes these blocks, or others of their sizes where they are not free.
    pub(crate) fn take_blocks_or_like(&self, blocks: &[u64]) -> Result<Vec<u64>> {
        lock(&self.pool).take_or_like(&self.context, blocks)
    }

    pub(crate) fn give_scratch(&self, raw: u64) {
        lock(&self.pool).give(raw);
    }

    /// Runs a kernel on these addresses; `planned` if it is one of a plan's own.
    pub(crate) fn run(&self, exe: &Prepared, addresses: &[u64], params: &[Scalar], planned: bool) -> Result<()> {
        self.context.enter()?;
        let loaded = self.compiler.program(&self.context, exe, addresses)?;
        let scratch = self.scratch(loaded.program.scratch)?;
        with_arguments(|arguments, pointers| {
            arguments.fill(addresses, [self.flags.0 as u64, scratch.raw], params, exe.params());
            arguments.pointers(&loaded.program.bindings, pointers);
            let _shared = self.stream_shared();
            // SAFETY: the planner derives addresses from shapes that fit the buffers.
            unsafe {
                loaded.launch(self, pointers, |nth| {
                    if !planned {
                        graphs::launched();
                        return Ok(());
                    }
                    let (stage, function) = (&loaded.program.stages[nth], loaded.functions[nth]);
                    let bindings = &loaded.program.bindings;
                    let (blocks, threads, shared) = (stage.blocks, stage.threads, stage.shared);
                    let launch = KernelLaunch { function, blocks, threads, shared, arguments, bindings, params };
                    graphs::kernel_launched(self, &launch, || Numbers::Arguments(exe.params().to_vec()))
                })
            }
        })?;
        if planned {
            graphs::kernel_done();
        }
        Ok(())
    }

    /// Launches a program of our own on these addresses.
    pub(crate) fn launch_program(&self, loaded: &Loaded, addresses: &[u64]) -> Result<()> {
        self.context.enter()?;
        with_arguments(|arguments, pointers| {
            arguments.fill(addresses, [self.flags.0 as u64, 0], &[], &[]);
            arguments.pointers(&loaded.program.bindings, pointers);
            let _shared = self.stream_shared();
            // SAFETY: the caller's program fits its buffers.
            unsafe {
                loaded.launch(self, pointers, |_| {
                    graphs::launched();
                    Ok(())
                })
            }
        })
    }

    /// A program of our own on the device.
    pub(crate) fn load(&self, program: Program) -> Result<Loaded> {
        self.compiler.load(&self.context, program)
    }

    /// A program of our own for a target of its own.
    pub(crate) fn load_for(&self, program: Program, target: &str) -> Result<Loaded> {
        self.compiler.load_for(&self.context, program, target)
    }

    /// What kernels are compiled for.
    pub(crate) fn target(&self) -> &str {
        self.compiler.target_name()
    }

    /// Copies bytes on the device.
    pub(crate) fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let d = self.context.driver;
        self.context.enter()?;
        let _shared = self.stream_shared();
        graphs::launched();
        // SAFETY: both are buffers of at least this size, and apart.
        d.check(unsafe { (d.memcpy_dtod_async)(to, from, bytes, self.context.stream) }, "cuMemcpyDtoDAsync")
    }

    /// Makes a kernel ready, for our own use too.
    pub(crate) fn prepare(&self, kernel: &Kernel) -> Result<Arc<Prepared>> {
        verify(kernel).map_err(|why| bug(&why))?;
        self.compiler.prepare(&self.context, kernel)
    }

    /// Runs a routine of the CPU on copies: `(bytes from, elements)` of each input, and the result last.
    fn on_cpu(
        &self,
        slots: &[(Slot<'_>, usize)],
        dtype: DType,
        f: impl FnOnce(&[Slot<'_>]) -> Result<()>,
    ) -> Result<()> {
        let cpu = Device::cpu();
        let mut copies = vec![];
        for (i, (slot, elements)) in slots.iter().enumerate() {
            let bytes = elements * dtype.size();
            let copy = Buffer::alloc(cpu, bytes)?;
            if i + 1 < slots.len() && bytes > 0 {
                let mut host = vec![0u8; bytes];
                self.download(slot.buffer, slot.offset as usize * dtype.size(), &mut host)?;
                cpu.backend().upload(&copy, 0, &host)?;
            }
            copies.push(copy);
        }
        let on_cpu: Vec<Slot<'_>> = copies.iter().map(|buffer| Slot { buffer, offset: 0 }).collect();
        f(&on_cpu)?;
        if let (Some((slot, elements)), Some(copy)) = (slots.last(), copies.last())
            && *elements > 0
        {
            let mut host = vec![0u8; elements * dtype.size()];
            cpu.backend().download(copy, 0, &mut host)?;
            self.upload(slot.buffer, slot.offset as usize * dtype.size(), &host)?;
        }
        Ok(())
    }
}

/// Memory that goes back at the end of its scope: what was asked of the stream before still has it.
pub struct Scratch<'a> {
    cuda: &'a Cuda,
    pub raw: u64,
    bytes: usize,
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if self.raw != 0 && !graphs::keep_scratch(self.raw, self.bytes) {
            self.cuda.give_scratch(self.raw);
        }
    }
}

/// Calls `f` with this thread's lists of arguments.
pub(crate) fn with_arguments<R>(f: impl FnOnce(&mut Arguments, &mut Vec<*mut c_void>) -> R) -> R {
    thread_local! {
        static ARGUMENTS: RefCell<(Arguments, Vec<*mut c_void>)> = RefCell::default();
    }
    ARGUMENTS.with_borrow_mut(|(a, p)| f(a, p))
}

fn check_range(b: &Buffer, at: usize, len: usize) -> Result<()> {
    if at.checked_add(len).is_none_or(|end| end > b.bytes()) {
        return Err(bug(&format!("bytes {at}..{at}+{len} of a buffer of {}", b.bytes())));
    }
    Ok(())
}

impl Backend for Cuda {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        lock(&self.pool).take(&self.context, bytes)
    }

    fn free(&self, raw: u64, _: usize) {
        lock(&self.pool).give(raw);
    }

    fn upload(&self, dst: &Buffer, at: usize, src: &[u8]) -> Result<()> {
        check_range(dst, at, src.len())?;
        if src.is_empty() {
            return Ok(());
        }
        self.context.enter()?;
        graphs::host_takes_part();
        let _shared = self.stream_shared();
        lock(&self.stage).upload(&self.context, dst.raw() + at as u64, src)
    }

    fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        check_range(src, at, dst.len())?;
        if !dst.is_empty() {
            self.context.enter()?;
            graphs::host_takes_part();
            let _shared = self.stream_shared();
            lock(&self.stage).download(&self.context, src.raw() + at as u64, dst)?;
        }
        self.raised()
    }

    fn host_ptr(&self, _: &Buffer) -> Option<*mut u8> {
        None
    }

    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>> {
        Ok(self.prepare(kernel)?)
    }

    fn launch(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let exe = exe.as_any().downcast_ref::<Prepared>().ok_or_else(|| bug("a kernel of another backend"))?;
        let mut addresses = [0u64; 64];
        if args.len() <= addresses.len() {
            for ((at, s), d) in addresses.iter_mut().zip(args).zip(exe.types()) {
                *at = Cuda::address(s, d);
            }
            return self.run(exe, &addresses[..args.len()], params, true);
        }
        let addresses: Vec<u64> = args.iter().zip(exe.types()).map(|(s, d)| Cuda::address(s, d)).collect();
        self.run(exe, &addresses, params, true)
    }

    fn compile_many(&self, kernels: &[Kernel]) -> Result<Option<Arc<dyn Executable>>> {
        Ok(self.prepare_many(kernels)?.map(|m| m as Arc<dyn Executable>))
    }

    fn launch_many(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let exe = exe.as_any().downcast_ref::<Many>().ok_or_else(|| bug("kernels of another backend"))?;
        self.run_many(exe, args, params)
    }

    fn matmul(&self, spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Option<Tail<'_>>, c: Slot<'_>) -> Result<()> {
        self.context.enter()?;
        graphs::launched();
        let products = self.products.get_or_init(|| Products::new(self)).as_ref().map_err(Clone::clone)?;
        let at = |s: &Slot<'_>| Cuda::address(s, spec.dtype);
        products.run(self, spec, [at(&a), at(&b), at(&c)], tail.map(|t| at(&t.bias)))
    }

    fn channels_last(&self) -> bool {
        true
    }

    fn conv(
        &self,
        spec: &Conv,
        dtype: DType,
        a: Slot<'_>,
        b: Slot<'_>,
        tail: Option<Tail<'_>>,
        c: Slot<'_>,
    ) -> Result<()> {
        if tail.is_some() {
            return Err(bug("a convolution with a bias, which this backend does not name"));
        }
        self.context.enter()?;
        let made = || match Convolutions::new(self.context.stream) {
            Ok(c) => Some(c),
            Err(e) => {
                eprintln!("convolutions run on the CPU: {e}");
                None
            }
        };
        if let Some(cudnn) = self.convolutions.get_or_init(made)
            && cudnn.run(self, spec, dtype, [&a, &b, &c].map(|s| Cuda::address(s, dtype)))?
        {
            graphs::launched();
            return Ok(());
        }
        let [first, second, result] = spec.operands().map(|s| s.numel());
        let slots = [(a, first), (b, second), (c, result)];
        self.on_cpu(&slots, dtype, |s| Device::cpu().backend().conv(spec, dtype, s[0], s[1], None, s[2]))
    }

    fn host_op(&self, op: &HostOp, inputs: &[Slot<'_>], out: Slot<'_>, types: &[(DType, Shape)]) -> Result<bool> {
        let slots = inputs.iter().chain([&out]).zip(types);
        let addresses: Vec<u64> = slots.map(|(s, (d, _))| Cuda::address(s, *d)).collect();
        self.routine(op, &addresses, types)
    }

    fn take_again(&self, plan: u64, given: &[Option<[u64; 2]>]) -> Option<Vec<u64>> {
        self.take_recorded(plan, given)
    }

    fn run_plan(&self, run: &Run<'_>, steps: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.run_as_graph(run, steps)
    }

    fn sync(&self) -> Result<()> {
        self.context.wait()?;
        self.raised()
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

/// The memory of a GPU's buffers; an error for other devices.
pub fn memory_stats(device: &Device) -> Result<MemoryStats> {
    with_backend(device, |c| lock(&c.pool).stats())
}

/// How often plans were replayed on a GPU; an error for other devices.
pub fn graph_stats(device: &Device) -> Result<GraphStats> {
    with_backend(device, |c| c.graphs().stats())
}

/// Counts the peak of [`memory_stats`] from now on.
pub fn reset_peak_memory(device: &Device) -> Result<()> {
    with_backend(device, |c| lock(&c.pool).reset_peak())
}

/// Calls `f` with the backend of a CUDA device.
pub(crate) fn with_backend<R>(device: &Device, f: impl FnOnce(&Cuda) -> R) -> Result<R> {
    let name = device.backend().name().to_string();
    let backend = device.backend().as_any().and_then(|a| a.downcast_ref::<Cuda>());
    backend.map(f).ok_or_else(|| device_error(format!("{name} is no CUDA device")))
}
