//! Backends: where buffers live and kernels run.
//!
//! A backend allocates, copies, compiles a [`Kernel`], launches it, and multiplies matrices; it knows no operation by
//! name. The CPU is always there. Others are registered at run time ([`Device::register`]), so a third party can write
//! one.

pub mod cpu;

use crate::{
    DType, Error, ErrorKind, Result, Scalar, Shape,
    graph::Buffer,
    kernel::Kernel,
    op::{Conv, HostOp},
};
use std::{
    any::Any,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// What a device can and cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Buffers a kernel may take.
    pub max_args: usize,
    /// Instructions a kernel may have.
    pub max_insts: usize,
    /// Element types it computes in.
    pub dtypes: Vec<DType>,
    /// Bytes a buffer may have.
    pub max_buffer: usize,
    /// Types in which attention is one kernel instead of a composite.
    pub attention: Vec<DType>,
    /// Types in which a product can add a vector to its rows.
    pub bias: Vec<DType>,
    /// Types in which a convolution can add a number to each channel.
    pub conv_bias: Vec<DType>,
    /// Whether either can be rectified after that.
    pub relu: bool,
    /// Types in which pooling and resampling of planes are routines of its own.
    pub planes: Vec<DType>,
    /// Whether borders around tensors, rows with a one, and rows added to a table are routines of its own.
    pub layouts: bool,
    /// Types in which rows of tables are taken and added up by routines of its own.
    pub row_tables: Vec<DType>,
}

/// A buffer of a launch and the element its addresses count from.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// Elements to skip.
    pub offset: isize,
}

/// What is done to a product or a convolution while it is still at hand.
#[derive(Clone, Copy)]
pub struct Tail<'a> {
    /// Numbers that are added: one a column, or one a channel.
    pub bias: Slot<'a>,
    /// Whether what is below zero then becomes zero ([`Limits::relu`]).
    pub relu: bool,
}

/// One run of a plan, as a backend that can do a whole plan at once wants to know it.
pub struct Run<'a> {
    /// Which plan: never used for another.
    pub plan: u64,
    /// The handle and the offset of every buffer, in order.
    pub addresses: &'a [u64],
    /// The scalar arguments.
    pub scalars: &'a [Scalar],
    /// The parameters of the n-th launch of a kernel.
    pub params: &'a dyn Fn(usize) -> Vec<Scalar>,
}

/// A kernel made ready by a backend.
pub trait Executable: Send + Sync + Any {
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;

    /// Says that it will run many times: what pays only then can be done now.
    fn prepare(&self) {}
}

/// A batched matrix product `c[b] = a[b] @ b[b]`, `c` contiguous; strides in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matmul {
    /// Element type of all three.
    pub dtype: DType,
    /// Extents of the batch.
    pub batch: Vec<usize>,
    /// Rows of `a`, inner extent, columns of `b`.
    pub mkn: [usize; 3],
    /// Strides of `a`: batch axes, then row, then column.
    pub a: Vec<isize>,
    /// Strides of `b`: batch axes, then row, then column.
    pub b: Vec<isize>,
}

impl Matmul {
    /// Multiply-adds times two.
    pub fn flops(&self) -> u64 {
        self.batch.iter().chain(&self.mkn).fold(2u64, |all, &n| all.saturating_mul(n as u64))
    }
}

/// A device's implementation. Object-safe and small.
pub trait Backend: Send + Sync {
    /// What users call it: `cpu`, `cuda:0`.
    fn name(&self) -> &str;
    /// Its limits.
    fn limits(&self) -> &Limits;
    /// Takes memory; the content is unspecified, the start aligned to 64 bytes.
    fn alloc(&self, bytes: usize) -> Result<u64>;
    /// Gives memory back.
    fn free(&self, raw: u64, bytes: usize);
    /// Copies from the host to byte `at` of a buffer.
    fn upload(&self, dst: &Buffer, at: usize, src: &[u8]) -> Result<()>;
    /// Copies from byte `at` of a buffer to the host, when all work before is done.
    fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()>;
    /// The bytes of a buffer, where the host can address them.
    fn host_ptr(&self, buffer: &Buffer) -> Option<*mut u8>;
    /// Makes a kernel ready to launch.
    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>>;
    /// Runs a kernel: one slot an argument, one scalar a parameter.
    fn launch(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()>;
    /// Makes elementwise kernels that differ in nothing but the extent of their one map axis ready to run as one launch;
    /// `None` sends them one after the other.
    fn compile_many(&self, kernels: &[Kernel]) -> Result<Option<Arc<dyn Executable>>> {
        let _ = kernels;
        Ok(None)
    }
    /// Makes copies that together fill one tensor, each from its first buffer to its second, ready to run as one launch by
    /// [`Backend::launch_many`]; `None` sends them one after the other.
    fn compile_join(&self, kernels: &[Kernel]) -> Result<Option<Arc<dyn Executable>>> {
        let _ = kernels;
        Ok(None)
    }
    /// Runs what [`Backend::compile_many`] made: the slots and the parameters of all kernels in turn.
    fn launch_many(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let _ = (exe, args, params);
        Err(Error::new("launch_many", ErrorKind::Internal("this backend makes no such launches".into())))
    }
    /// A matrix product into contiguous `c`. A tail (a bias of as many elements as there are columns) comes with a batch of one
    /// only, in the types that [`Limits::bias`] names.
    fn matmul(&self, spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Option<Tail<'_>>, c: Slot<'_>) -> Result<()>;
    /// Whether 16-bit convolutions of images are faster with the channels last. Where they are, elementwise operations
    /// and sums over their results keep that order.
    fn channels_last(&self) -> bool {
        false
    }
    /// Whether this convolution of f32 images, forward, is done as they lie where their channels lie last.
    fn reads_last(&self, _conv: &Conv) -> bool {
        false
    }
    /// A convolution or one of its gradients, all three contiguous (with the channels last, where the geometry says so). A
    /// tail (a bias of as many elements as there are output channels) comes with convolutions that have their channels first
    /// only, in the types that [`Limits::conv_bias`] names.
    fn conv(
        &self,
        spec: &Conv,
        dtype: DType,
        a: Slot<'_>,
        b: Slot<'_>,
        tail: Option<Tail<'_>>,
        c: Slot<'_>,
    ) -> Result<()>;
    /// Whether [`Backend::host_op`] can write a routine's result over this input.
    fn overwrites(&self, op: &HostOp, input: usize) -> bool {
        let _ = (op, input);
        false
    }
    /// A library routine this device has natively; `Ok(false)` sends it to the host.
    /// `types` are those of the inputs and, last, of the result; all are contiguous.
    fn host_op(&self, op: &HostOp, inputs: &[Slot<'_>], out: Slot<'_>, types: &[(DType, Shape)]) -> Result<bool> {
        let _ = (op, inputs, out, types);
        Ok(false)
    }
    /// Takes the memory that an earlier run of a plan had, for the buffers that are not given (their handle and offset
    /// are); one handle for each buffer of its own and one for the arena, in the order in which they first appear.
    fn take_again(&self, plan: u64, given: &[Option<[u64; 2]>]) -> Option<Vec<u64>> {
        let _ = (plan, given);
        None
    }
    /// Runs the steps of a plan by calling `steps`, or does again what they did before on the same addresses.
    fn run_plan(&self, run: &Run<'_>, steps: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let _ = run;
        steps()
    }
    /// Waits for all work.
    fn sync(&self) -> Result<()>;
    /// The implementation itself, for the crate it comes from.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// A device: a cheap handle to a backend, which lives as long as the process.
#[derive(Clone, Copy)]
pub struct Device {
    backend: &'static dyn Backend,
    id: usize,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Device {
        Device { backend: cpu::backend(), id: 0 }
    }

    /// Takes a backend in for the rest of the process and gives its handle.
    pub fn register(backend: Box<dyn Backend>) -> Device {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Device { backend: Box::leak(backend), id: NEXT.fetch_add(1, Relaxed) }
    }

    /// The implementation.
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// Its number: 0 is the CPU, others count up as they are registered.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Errors unless both are the same device.
    #[track_caller]
    pub(crate) fn check_same(self, other: Device, op: &str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let why = format!("operands live on different devices: {self} and {other}");
        Err(Error::new(op, ErrorKind::Device(why)).hint("move one of them with .to(&device)"))
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.id == other.id
    }
}
impl Eq for Device {}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend.name())
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.backend.name())
    }
}
