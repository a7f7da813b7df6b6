//! Kernels: written, compiled, loaded, launched.

use crate::{
    backend::Cuda,
    context::Context,
    disk::{self, Disk},
    sys::{
        driver::{self, Handle},
        nvrtc::Nvrtc,
    },
};
use gradus_core::{
    DType, Result, Scalar,
    backend::Executable,
    kernel::{
        Kernel,
        emit::{self, Program, What},
        oracle::Cell,
    },
};
use std::{
    any::Any,
    collections::HashMap,
    ffi::{CString, c_void},
    sync::{Arc, Mutex, OnceLock},
};

/// Launches have at most this many blocks: threads take several points beyond.
const MOST_BLOCKS: usize = 1 << 30;

/// A loaded entry point.
#[derive(Clone, Copy)]
pub struct Function(pub Handle);

// SAFETY: functions may be launched from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// A program on the device.
pub struct Loaded {
    pub program: Program,
    pub functions: Vec<Function>,
}

/// A kernel ready to launch: for aligned buffers, and (made when first needed) for others.
pub struct Prepared {
    kernel: Kernel,
    aligned: Loaded,
    other: OnceLock<Result<Loaded>>,
}

impl Executable for Prepared {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The compiler with what it has compiled.
pub struct Compiler {
    target: String,
    disk: Disk,
    nvrtc: &'static Nvrtc,
    /// Functions by hash of their program.
    loaded: Mutex<HashMap<u128, Vec<Function>>>,
}

impl Compiler {
    /// For one GPU.
    pub fn new(context: &Context) -> Result<Compiler> {
        let nvrtc = Nvrtc::get()?;
        let target = nvrtc.target(context.info.capability);
        Ok(Compiler { target, disk: Disk::user(), nvrtc, loaded: Mutex::default() })
    }

    /// What it compiles for.
    pub fn target_name(&self) -> &str {
        &self.target
    }

    /// Makes a kernel ready.
    pub fn prepare(&self, context: &Context, kernel: &Kernel) -> Result<Arc<Prepared>> {
        let aligned = self.load(context, emit::cuda_program(kernel, &Compiler::target(context, true))?)?;
        Ok(Arc::new(Prepared { kernel: kernel.clone(), aligned, other: OnceLock::new() }))
    }

    /// How programs are written for a GPU.
    pub fn target(context: &Context, aligned: bool) -> emit::CudaTarget {
        emit::CudaTarget { multiprocessors: context.info.multiprocessors, shared: context.shared, aligned }
    }

    /// The program for these addresses.
    pub fn program<'a>(&self, context: &Context, p: &'a Prepared, addresses: &[u64]) -> Result<&'a Loaded> {
        let fits = |(a, &n): (&u64, &usize)| a.is_multiple_of(n as u64);
        if addresses.iter().zip(&p.aligned.program.alignment).all(fits) {
            return Ok(&p.aligned);
        }
        let make = || self.load(context, emit::cuda_program(&p.kernel, &Compiler::target(context, false))?);
        p.other.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// A program on the device, compiled if need be.
    pub fn load(&self, context: &Context, program: Program) -> Result<Loaded> {
        self.load_for(context, program, &self.target)
    }

    /// The same for a target of the caller's.
    pub fn load_for(&self, context: &Context, program: Program, target: &str) -> Result<Loaded> {
        let version = format!("{:?}", self.nvrtc.version);
        let options = program.options().join(" ");
        let parts = [&program.text, target, &version, &options];
        let key = disk::hash(&parts.map(|p| p.as_bytes()));
        let known = || self.loaded.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(functions) = known().get(&key) {
            return Ok(Loaded { functions: functions.clone(), program });
        }
        let code = match self.disk.get(key) {
            Some(code) => code,
            None => {
                let code = self.nvrtc.build(&program.text, target, &program.options())?;
                self.disk.put(key, &code);
                code
            }
        };
        context.enter()?;
        let d = context.driver;
        let mut module = std::ptr::null_mut();
        // SAFETY: the code is what NVRTC wrote; PTX ends with a zero byte.
        d.check(unsafe { (d.module_load_data)(&mut module, code.as_ptr().cast()) }, "cuModuleLoadData")?;
        let mut functions = vec![];
        for stage in &program.stages {
            let mut f = std::ptr::null_mut();
            let name = CString::new(&stage.entry[..]).unwrap_or_default();
            // SAFETY: the module is loaded, and the name is a C string.
            d.check(unsafe { (d.module_get_function)(&mut f, module, name.as_ptr()) }, "cuModuleGetFunction")?;
            if stage.shared > 0 {
                // SAFETY: the function was just found.
                let code = unsafe { (d.func_set_attribute)(f, driver::MAX_DYNAMIC_SHARED, stage.shared as i32) };
                d.check(code, "cuFuncSetAttribute")?;
            }
            functions.push(Function(f));
        }
        known().insert(key, functions.clone());
        Ok(Loaded { functions, program })
    }
}

/// The arguments of a launch, as the driver wants them.
#[derive(Clone, Default)]
pub struct Arguments {
    words: Vec<u64>,
    cells: Vec<Cell>,
    /// What [`What::Table`] stands for.
    pub table: Vec<u64>,
}

impl Arguments {
    /// Fills them in: buffers, then the flags' and the scratch memory's address, and the parameters with their types.
    pub fn fill(&mut self, addresses: &[u64], [flags, scratch]: [u64; 2], params: &[Scalar], types: &[DType]) {
        self.words.clear();
        self.cells.clear();
        self.table.clear();
        self.words.extend_from_slice(addresses);
        self.words.extend([flags, scratch]);
        self.cells.extend(params.iter().zip(types).map(|(&x, &d)| Cell::of(x, d)));
    }

    /// Other parameters of the same types.
    pub fn set_params(&mut self, params: &[Scalar], types: &[DType]) {
        self.cells.clear();
        self.cells.extend(params.iter().zip(types).map(|(&x, &d)| Cell::of(x, d)));
    }

    /// Pointers to them in the order of a program; they hold for as long as this is not changed.
    pub fn pointers(&mut self, bindings: &[What], pointers: &mut Vec<*mut c_void>) {
        let n = self.words.len() - 2;
        pointers.clear();
        pointers.extend(bindings.iter().map(|b| -> *mut c_void {
            match *b {
                What::Buffer(a) => (&raw mut self.words[a]).cast(),
                What::Flags => (&raw mut self.words[n]).cast(),
                What::Scratch => (&raw mut self.words[n + 1]).cast(),
                What::Param(p) => (&raw mut self.cells[p]).cast(),
                What::Table => self.table.as_mut_ptr().cast(),
                // CUDA's buffers come with their offsets applied.
                What::Offset(_) => std::ptr::null_mut(),
            }
        }));
    }
}

impl Function {
    /// Launches it, unless there is no block.
    ///
    /// # Safety
    /// `pointers` are its arguments, and buffers are as large as its addresses.
    pub unsafe fn launch(
        self,
        cuda: &Cuda,
        blocks: usize,
        threads: usize,
        shared: usize,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        let grid = blocks.min(MOST_BLOCKS) as u32;
        if grid == 0 {
            return Ok(());
        }
        let (c, d) = (&cuda.context, cuda.context.driver);
        let (block, arguments, none) = (threads as u32, pointers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: the caller's promise.
        let code =
            unsafe { (d.launch_kernel)(self.0, grid, 1, 1, block, 1, 1, shared as u32, c.stream, arguments, none) };
        d.check(code, "cuLaunchKernel")
    }
}

impl Loaded {
    /// Launches every stage, and tells after each which one it was.
    ///
    /// # Safety
    /// `pointers` are the program's arguments, and buffers are as large as the kernel's addresses.
    pub unsafe fn launch(
        &self,
        cuda: &Cuda,
        pointers: &mut [*mut c_void],
        mut then: impl FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        for (n, (stage, f)) in self.program.stages.iter().zip(&self.functions).enumerate() {
            // SAFETY: the caller's promise.
            unsafe { f.launch(cuda, stage.blocks, stage.threads, stage.shared, pointers)? };
            then(n)?;
        }
        Ok(())
    }
}

impl Prepared {
    /// Types of the parameters.
    pub fn params(&self) -> &[DType] {
        &self.kernel.params
    }

    /// Types of the buffers.
    pub fn types(&self) -> impl Iterator<Item = DType> + '_ {
        self.kernel.args.iter().map(|a| a.dtype)
    }
}
