//! The CPU: kernels interpreted in SIMD blocks, a caching allocator, and the numerics crate for the rest.

mod ahead;
mod analysis;
mod attention16;
mod boxes;
mod calls;
mod convert;
mod copy;
mod exec;
mod flip;
mod fold;
mod forms;
mod fused;
mod inst;
#[cfg(all(target_arch = "x86_64", unix))]
mod jit;
#[cfg(not(all(target_arch = "x86_64", unix)))]
#[path = "no_jit.rs"]
mod jit;
mod join;
pub mod library;
mod many;
mod matmul;
mod measure;
mod micro;
mod nest;
mod packed;
mod pool;
mod program;
mod reduce;
mod regions;
mod runs;
mod shape_of;
mod shares;
mod short;
mod sources;
mod split;
mod straight;
mod take;
mod tier;
mod tiles;
mod transfer;
mod triangle;
mod whole;

use super::{Backend, Executable, Limits, Matmul, Slot, Tail};
use crate::{
    DType, Error, ErrorKind, Result, Scalar, Shape, Tensor,
    graph::Buffer,
    kernel::{Kernel, verify},
    op::{Conv, HostOp, MaxPool},
};
use gradus_numerics::pool::{Pool, Pooled};
use std::sync::{Arc, OnceLock};
use tier::{InUse, Tiered};

/// The CPU backend, made once.
pub fn backend() -> &'static dyn Backend {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(|| Cpu {
        pool: pool::Pool::default(),
        ready: InUse::none(),
        many: InUse::none(),
        limits: Limits {
            max_args: 256,
            max_insts: 256,
            dtypes: DType::ALL.to_vec(),
            max_buffer: isize::MAX as usize,
            attention: vec![DType::F32],
            bias: vec![DType::F32, DType::F64],
            conv_bias: vec![DType::F32],
            relu: true,
            planes: vec![DType::F32],
            layouts: true,
            row_tables: DType::ALL.to_vec(),
        },
    })
}

struct Cpu {
    pool: pool::Pool,
    limits: Limits,
    ready: InUse<forms::Ready>,
    many: InUse<Tiered<many::Many>>,
}

/// The address of a slot's first element.
fn address(slot: &Slot<'_>, dtype: DType) -> *mut u8 {
    (slot.buffer.raw() as *mut u8).wrapping_offset(slot.offset * dtype.size() as isize)
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        self.pool.take(bytes)
    }

    fn free(&self, raw: u64, bytes: usize) {
        self.pool.give(raw, bytes);
    }

    fn upload(&self, dst: &Buffer, at: usize, src: &[u8]) -> Result<()> {
        check_range(dst, at, src.len())?;
        // SAFETY: the range lies in the buffer, and nobody else holds a buffer that is being filled.
        unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), (dst.raw() as *mut u8).add(at), src.len()) };
        Ok(())
    }

    fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        check_range(src, at, dst.len())?;
        // SAFETY: the range lies in the buffer, whose content is final once a node has it.
        unsafe { std::ptr::copy_nonoverlapping((src.raw() as *const u8).add(at), dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    fn host_ptr(&self, buffer: &Buffer) -> Option<*mut u8> {
        Some(buffer.raw() as *mut u8)
    }

    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>> {
        verify(kernel).map_err(|why| Error::new("compile", ErrorKind::Internal(why)))?;
        let ready = self.ready.of(std::slice::from_ref(kernel), || Ok::<_, Error>(forms::Ready::of(kernel)))?;
        Ok(ready)
    }

    fn launch(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let ready = exe.as_any().downcast_ref::<forms::Ready>();
        let ready = ready.ok_or_else(|| Tensor::bug("a kernel of another backend"))?;
        // SAFETY: the planner derives addresses from shapes that fit the buffers, gives every written buffer memory of
        // its own, and lets each element be written by one map point.
        unsafe { ready.launch(args, params) }
    }

    fn compile_many(&self, kernels: &[Kernel]) -> Result<Option<Arc<dyn Executable>>> {
        kernels.iter().try_for_each(verify).map_err(|why| Error::new("compile", ErrorKind::Internal(why)))?;
        let many = self.many.of(kernels, || Ok::<_, Error>(Tiered::new(kernels, many::Many::new)))?;
        Ok(Some(many))
    }

    fn compile_join(&self, kernels: &[Kernel]) -> Result<Option<Arc<dyn Executable>>> {
        kernels.iter().try_for_each(verify).map_err(|why| Error::new("compile", ErrorKind::Internal(why)))?;
        Ok(join::Join::of(kernels).map(|j| Arc::new(j) as Arc<dyn Executable>))
    }

    fn launch_many(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        if let Some(join) = exe.as_any().downcast_ref::<join::Join>() {
            // SAFETY: as for one kernel; each writes elements of its own.
            unsafe { join.run(args) };
            return Ok(());
        }
        let many = exe.as_any().downcast_ref::<Tiered<many::Many>>();
        let many = many.ok_or_else(|| Tensor::bug("a kernel of another backend"))?;
        // SAFETY: as for one kernel, and the planner gives each its own buffers to write.
        unsafe { many.now().run(args, params) }
    }

    fn reads_last(&self, conv: &Conv) -> bool {
        matmul::reads_last(conv)
    }

    fn matmul(&self, spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Option<Tail<'_>>, c: Slot<'_>) -> Result<()> {
        match tail {
            None => matmul::run(spec, a, b, c),
            Some(tail) => matmul::run_with(spec, a, b, tail, c),
        }
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
        match tail {
            None => matmul::conv(spec, dtype, a, b, c),
            Some(tail) => matmul::conv_with(spec, dtype, a, b, tail, c),
        }
    }

    fn overwrites(&self, op: &HostOp, input: usize) -> bool {
        matches!(op, HostOp::MaxPool(MaxPool::Grad, pool) if input == 0 && pool.is_pairs())
    }

    fn host_op(&self, op: &HostOp, inputs: &[Slot<'_>], out: Slot<'_>, types: &[(DType, Shape)]) -> Result<bool> {
        // Everything else is done by `library::run`, which wants arrays that do not overlap.
        let (HostOp::MaxPool(MaxPool::Grad, pool), [x, grad]) = (op, inputs) else { return Ok(false) };
        let dtype = types[0].0;
        let at = address(&out, dtype);
        if at != address(x, dtype) {
            return Ok(false);
        }
        /// # Safety
        /// There are contiguous arrays of these sizes, and nobody else uses the first meanwhile.
        unsafe fn over<T: Pooled>(pool: &Pool, (x, n): (*mut u8, usize), (grad, m): (*const u8, usize)) -> bool {
            // SAFETY: the caller's promise.
            let (x, grad) = unsafe {
                (std::slice::from_raw_parts_mut(x.cast::<T>(), n), std::slice::from_raw_parts(grad.cast::<T>(), m))
            };
            T::max_pool_grad_over(pool, x, grad)
        }
        let (x, grad) = ((at, types[0].1.numel()), (address(grad, dtype).cast_const(), types[1].1.numel()));
        // SAFETY: the planner gives contiguous buffers of exactly these shapes; nobody else uses the first meanwhile.
        let done = unsafe { if dtype == DType::F64 { over::<f64>(pool, x, grad) } else { over::<f32>(pool, x, grad) } };
        if done { Ok(true) } else { Err(Tensor::bug("a gradient over windows that overlap")) }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

fn check_range(b: &Buffer, at: usize, len: usize) -> Result<()> {
    if at.checked_add(len).is_none_or(|end| end > b.bytes()) {
        return Err(Tensor::bug(format!("bytes {at}..{at}+{len} of a buffer of {}", b.bytes())));
    }
    Ok(())
}
