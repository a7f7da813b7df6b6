//! Kernels as source text: CUDA C and WGSL.
//!
//! Emitters are plain functions from a [`Kernel`] to a [`Source`], so what they write is tested where there is no GPU:
//! `naga` validates the WGSL, NVRTC compiles the CUDA C, and a host compiler runs it.
//!
//! # How the loops lie on threads
//!
//! - *One thread a map point* ([`Launch::Threads`]): elementwise kernels, short rows, and reductions across memory.
//!   Neighbouring threads take neighbouring points; each walks its own reduce space.
//! - *One block a map point* ([`Launch::Blocks`]): long rows. The block's threads are the lanes of the kernel's
//!   [`super::Order`], several chunks at a time.
//!
//! Both loop until all points are done, so any number of blocks gives the same result ([`Source::blocks`] proposes one).
//! A kernel with several reductions makes one pass over the row for each stage and computes elements again: a stage's
//! results are in every thread before the next begins.
//!
//! # Which bits come out
//!
//! Reductions follow [`super::Order`] exactly in both layouts: the same lanes, the same chunks, the same pairs, so a
//! sum has the bits of the oracle for the same elements, whatever the timing of threads. What may differ is a
//! function's last digit (`exp` of CUDA or of WGSL is not our `exp`), and contraction of `a * b + c`: compile CUDA C
//! with [`NVRTC_OPTIONS`] to switch that off (the planner writes `fma` where it wants it).
//!
//! WGSL promises less: it lets an implementation assume that there are no NaN and no infinities, so comparisons with
//! NaN, and maxima over NaN, may come out differently from the oracle there; division and square root may be off by
//! 2.5 units in the last place; subnormal numbers may be flushed. It has no f64, i64, 8-bit and 16-bit integers, and no
//! bf16: kernels over those are an error that names the type. An i64 is held in an i32 where the kernel's
//! structure proves that it fits (`iota`, constants, sums of such), or where it is loaded: a loaded one that does not
//! fit raises [`FLAG_NARROW`].
//!
//! # Errors while running
//!
//! An index outside its axis is clamped, and a division by zero divides by one; each raises a bit in a `u32` that the
//! launch provides where [`Source::flags`] says so. Read it after the run and give it to [`raised`].

mod body;
mod cuda;
mod fast;
mod passes;
mod prelude;
mod prelude_cuda;
mod prelude_special;
mod prelude_wgsl;
mod range;
mod schedule;
mod wgsl;

pub use fast::many::{Many, Table};
pub use wgsl::Features;

use super::{Kernel, oracle};
use crate::{DType, Error, ErrorKind, Result, Scalar};

/// The bit that says: an index was outside its axis.
pub const FLAG_INDEX: u32 = 1;
/// The bit that says: an integer was divided by zero.
pub const FLAG_DIVISION: u32 = 2;
/// The bit that says: an i64 did not fit the i32 that held it (WGSL only).
pub const FLAG_NARROW: u32 = 4;

/// What NVRTC needs to be told: no contraction of products and sums that the kernel did not ask for.
pub const NVRTC_OPTIONS: [&str; 2] = ["--fmad=false", "--std=c++17"];

/// A kernel in a target language, and how to call it.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The program.
    pub text: String,
    /// The name of its entry point.
    pub entry: &'static str,
    /// Threads a block (workgroup): fixed, also inside the text.
    pub block: usize,
    /// How map points lie on the grid.
    pub launch: Launch,
    /// What goes where.
    pub bindings: Vec<Binding>,
    /// The binding and the size in bytes of the uniform buffer, where there is one (WGSL).
    pub uniform: Option<(usize, usize)>,
}

/// How map points lie on the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// One thread a point.
    Threads {
        /// Number of points.
        points: usize,
    },
    /// One block a point.
    Blocks {
        /// Number of points.
        points: usize,
    },
}

/// One thing that a launch provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// What it is.
    pub what: What,
    /// Where it goes.
    pub at: At,
}

/// What a launch provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Buffer `arg` of the kernel. For CUDA: its address with the launch's offset applied.
    Buffer(usize),
    /// Parameter of the kernel, in the register type of its element type ([`oracle::Cell::of`]; a bool is one byte).
    Param(usize),
    /// The launch's offset of buffer `arg`, in elements (WGSL).
    Offset(usize),
    /// A `u32` that is zero before the run: see [`raised`].
    Flags,
    /// Memory of [`Program::scratch`] bytes, aligned to 16 (CUDA).
    Scratch,
    /// The words of a [`Table`], by value (CUDA).
    Table,
}

/// Where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// CUDA: the n-th argument of the entry point.
    Argument(usize),
    /// WGSL: `@group(0) @binding(n)`.
    Slot(usize),
    /// WGSL: these bytes of the uniform buffer.
    Uniform {
        /// The first byte.
        offset: usize,
        /// 4, or 8 for the seeds of random numbers.
        bytes: usize,
    },
}

/// Writes CUDA C for NVRTC. It includes no header.
pub fn cuda(k: &Kernel) -> Result<Source> {
    cuda::emit(k)
}

/// What a CUDA program is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaTarget {
    /// Multiprocessors of the GPU.
    pub multiprocessors: usize,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared: usize,
    /// Whether launches keep to [`Program::alignment`]; a program that must not rely on it asks for none.
    pub aligned: bool,
}

/// A kernel as CUDA C: one or several launches, one after the other, all with the same arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The text.
    pub text: String,
    /// The arguments of every entry point, in order.
    pub bindings: Vec<What>,
    /// The launches.
    pub stages: Vec<Stage>,
    /// Bytes that the launches share beside the buffers.
    pub scratch: usize,
    /// What the address of each buffer must be a multiple of.
    pub alignment: Vec<usize>,
    /// Whether products and sums may be contracted: all floats written have 16 bits.
    pub contract: bool,
}

impl Program {
    /// What NVRTC needs to be told.
    pub fn options(&self) -> [&'static str; 2] {
        if self.contract { ["--fmad=true", NVRTC_OPTIONS[1]] } else { NVRTC_OPTIONS }
    }
}

/// One launch of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The entry point.
    pub entry: String,
    /// Blocks: any number gives the same result where the kernel loops, and this is a good one.
    pub blocks: usize,
    /// Threads a block.
    pub threads: usize,
    /// Dynamic shared memory a block, in bytes.
    pub shared: usize,
}

/// Writes a CUDA program for a GPU.
pub fn cuda_program(k: &Kernel, target: &CudaTarget) -> Result<Program> {
    if let Some(program) = fast::program(k, target)? {
        return Ok(program);
    }
    let s = cuda::emit(k)?;
    let stage = Stage { entry: s.entry.into(), blocks: s.blocks(1 << 30), threads: s.block, shared: 0 };
    Ok(Program {
        bindings: s.bindings.iter().map(|b| b.what).collect(),
        stages: vec![stage],
        scratch: 0,
        contract: false,
        alignment: k.args.iter().map(|a| a.dtype.size()).collect(),
        text: s.text,
    })
}

/// Writes one CUDA program for elementwise kernels that differ in nothing but the extent of their one map axis; nothing
/// where they cannot go as one.
pub fn cuda_many(kernels: &[Kernel], target: &CudaTarget) -> Result<Option<Many>> {
    fast::many::program(kernels, target)
}

/// Writes WGSL without extensions.
pub fn wgsl(k: &Kernel) -> Result<Source> {
    wgsl::emit(k, Features::default())
}

/// Writes WGSL that may use these extensions.
pub fn wgsl_with(k: &Kernel, features: Features) -> Result<Source> {
    wgsl::emit(k, features)
}

impl Source {
    /// The number of blocks to launch, where the device takes at most `limit`. No points, no blocks.
    pub fn blocks(&self, limit: usize) -> usize {
        let wanted = match self.launch {
            Launch::Threads { points } => points.div_ceil(self.block),
            Launch::Blocks { points } => points,
        };
        wanted.min(limit)
    }

    /// Whether (and where) a launch provides the word of error bits.
    pub fn flags(&self) -> Option<At> {
        self.bindings.iter().find(|b| b.what == What::Flags).map(|b| b.at)
    }

    /// The bytes of the uniform buffer of a WGSL launch with these offsets (an element count a buffer) and parameters.
    pub fn uniform_bytes(&self, k: &Kernel, offsets: &[isize], params: &[Scalar]) -> Result<Vec<u8>> {
        let mut out = vec![0u8; self.uniform.map_or(0, |(_, n)| n)];
        let missing = || crate::Tensor::bug("a launch with too few offsets or parameters");
        let narrow = |x: i64| {
            i32::try_from(x).map_err(|_| {
                Error::dtype("wgsl", &[DType::I64], format!("{x} does not fit the i32 that stands for an i64"))
            })
        };
        for b in &self.bindings {
            let At::Uniform { offset, bytes } = b.at else { continue };
            let word: [u8; 8] = match b.what {
                What::Offset(a) => (narrow(*offsets.get(a).ok_or_else(missing)? as i64)? as i64).to_le_bytes(),
                What::Param(p) => {
                    let (x, dtype) = (*params.get(p).ok_or_else(missing)?, *k.params.get(p).ok_or_else(missing)?);
                    match dtype.compute() {
                        DType::F32 => (f32::to_bits(x.f64() as f32) as u64).to_le_bytes(),
                        DType::Bool => (x.bool() as u64).to_le_bytes(),
                        _ if bytes == 8 => x.i64().to_le_bytes(),
                        _ => (narrow(oracle::wrap(x.i64(), dtype))? as i64).to_le_bytes(),
                    }
                }
                What::Buffer(_) | What::Flags | What::Scratch | What::Table => continue,
            };
            let Some(place) = out.get_mut(offset..offset + bytes) else { return Err(missing()) };
            place.copy_from_slice(&word[..bytes]);
        }
        Ok(out)
    }
}

/// The error that the bits of a finished run stand for.
pub fn raised(bits: u32) -> Result<()> {
    if bits & FLAG_INDEX != 0 {
        let why = "an index is out of range for the axis it looks up".to_string();
        return Err(Error::new("gather", ErrorKind::Value(why)).hint("the CPU backend names the index"));
    }
    if bits & FLAG_DIVISION != 0 {
        return Err(oracle::division_by_zero("div"));
    }
    if bits & FLAG_NARROW != 0 {
        return Err(Error::dtype(
            "wgsl",
            &[DType::I64],
            "an i64 does not fit the i32 that stands for it on this device",
        ));
    }
    Ok(())
}

/// A row of the elementwise table that a language has no text for.
fn no_text(language: &str, row: &crate::op::ewise::Ewise, over: DType) -> Error {
    Error::dtype(language, &[over], format!("{} has no {language} text for {over}", row.name))
        .hint("run this operation on the CPU")
}
