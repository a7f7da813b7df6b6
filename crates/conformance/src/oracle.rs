//! The scalar oracle as a device: plans run through the slow interpreter that defines kernels, and matrix products and
//! convolutions are plain loops. Everything a backend computes is compared with this.

use gradus_core::{
    DType, Device, Element, Error, ErrorKind, Result, Scalar,
    backend::{Backend, Executable, Limits, Matmul, Slot, Tail},
    graph::Buffer,
    kernel::{
        Kernel,
        oracle::{self, Bytes},
        verify,
    },
    op::Conv,
};
use std::{
    any::Any,
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// The oracle device, made once.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::from([1.0f32, 2.0]).to(&gradus_conformance::oracle::device());
/// assert_eq!((&x * 2.0).to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// ```
pub fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| register(false))
}

/// The same interpreter with the CPU's routines for borders and rows around its kernels: the kernels of a program are then
/// those that the CPU has, and so is the order of their reductions.
pub fn with_layouts() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| register(true))
}

fn register(layouts: bool) -> Device {
    Device::register(Box::new(Oracle {
        limits: Limits {
            max_args: 64,
            max_insts: 256,
            dtypes: DType::ALL.to_vec(),
            max_buffer: 1 << 40,
            attention: vec![],
            bias: vec![],
            conv_bias: vec![],
            relu: false,
            planes: vec![],
            layouts,
            row_tables: vec![],
        },
        memory: Mutex::default(),
        next: AtomicU64::new(1),
    }))
}

/// Memory is a table of vectors, so that no address can go wrong unnoticed: the interpreter's slices are checked.
struct Oracle {
    limits: Limits,
    memory: Mutex<HashMap<u64, Vec<u8>>>,
    next: AtomicU64,
}

struct Prepared(Kernel);

impl Executable for Prepared {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn bug(what: &str) -> Error {
    Error::new("oracle", ErrorKind::Internal(what.into()))
}

impl Oracle {
    fn with<R>(&self, f: impl FnOnce(&mut HashMap<u64, Vec<u8>>) -> R) -> R {
        f(&mut self.memory.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Elements of a slot as f64 (or i64 bits for integers), by address.
    fn number(&self, memory: &HashMap<u64, Vec<u8>>, slot: &Slot<'_>, dtype: DType, at: isize) -> Result<f64> {
        let size = dtype.size();
        let bytes = memory.get(&slot.buffer.raw()).ok_or_else(|| bug("no such buffer"))?;
        let from = (slot.offset + at) as usize * size;
        let b = bytes.get(from..from + size).ok_or_else(|| bug("an address outside its buffer"))?;
        Ok(match dtype {
            DType::F64 => f64::from_ne_bytes(b.try_into().unwrap_or_default()),
            DType::F32 => f32::from_ne_bytes(b.try_into().unwrap_or_default()) as f64,
            DType::F16 => half::f16::from_ne_bytes(b.try_into().unwrap_or_default()).to_f64(),
            DType::BF16 => half::bf16::from_ne_bytes(b.try_into().unwrap_or_default()).to_f64(),
            DType::I64 => i64::from_ne_bytes(b.try_into().unwrap_or_default()) as f64,
            DType::I32 => i32::from_ne_bytes(b.try_into().unwrap_or_default()) as f64,
            DType::I16 => i16::from_ne_bytes(b.try_into().unwrap_or_default()) as f64,
            DType::I8 => i8::from_ne_bytes([b[0]]) as f64,
            DType::U8 | DType::Bool => b[0] as f64,
        })
    }
}

impl Backend for Oracle {
    fn name(&self) -> &str {
        "oracle"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        let id = self.next.fetch_add(1, Relaxed);
        // Filled with a pattern: whoever reads memory that nobody wrote gets nonsense.
        self.with(|m| m.insert(id, vec![0xA5; bytes]));
        Ok(id)
    }

    fn free(&self, raw: u64, _: usize) {
        self.with(|m| m.remove(&raw));
    }

    fn upload(&self, dst: &Buffer, at: usize, src: &[u8]) -> Result<()> {
        self.with(|m| {
            let to = m.get_mut(&dst.raw()).and_then(|b| b.get_mut(at..at + src.len())).ok_or_else(|| bug("upload"))?;
            to.copy_from_slice(src);
            Ok(())
        })
    }

    fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        self.with(|m| {
            let from = m.get(&src.raw()).and_then(|b| b.get(at..at + dst.len())).ok_or_else(|| bug("download"))?;
            dst.copy_from_slice(from);
            Ok(())
        })
    }

    fn host_ptr(&self, _: &Buffer) -> Option<*mut u8> {
        None
    }

    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>> {
        verify(kernel).map_err(|why| bug(&why))?;
        Ok(Arc::new(Prepared(kernel.clone())))
    }

    fn launch(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        let Prepared(kernel) = exe.as_any().downcast_ref().ok_or_else(|| bug("a kernel of another backend"))?;
        self.with(|m| {
            // Each argument gets a copy; written ones are put back. A buffer may appear more than once.
            let mut copies: Vec<Vec<u8>> =
                args.iter().map(|s| m.get(&s.buffer.raw()).cloned().unwrap_or_default()).collect();
            let mut bytes: Vec<Bytes<'_>> =
                copies.iter_mut().zip(args).map(|(b, s)| Bytes { bytes: b, offset: s.offset }).collect();
            oracle::run(kernel, &mut bytes, params)?;
            let before: Vec<Vec<u8>> =
                args.iter().map(|s| m.get(&s.buffer.raw()).cloned().unwrap_or_default()).collect();
            for (k, (slot, copy)) in args.iter().zip(copies).enumerate() {
                if kernel.args[k].written {
                    let to = m.get_mut(&slot.buffer.raw()).ok_or_else(|| bug("no such buffer"))?;
                    // Several written arguments may be parts of one arena: only what changed is put back.
                    for (i, &b) in copy.iter().enumerate() {
                        if b != before[k][i] {
                            to[i] = b;
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn matmul(&self, spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Option<Tail<'_>>, c: Slot<'_>) -> Result<()> {
        if tail.is_some() {
            return Err(bug("a product with a bias, which the oracle does not name"));
        }
        let [m, k, n] = spec.mkn;
        let batches: usize = spec.batch.iter().product();
        let r = spec.batch.len();
        self.with(|mem| {
            let mut out = Vec::with_capacity(batches * m * n * spec.dtype.size());
            for batch in 0..batches {
                let (mut l, mut at_a, mut at_b) = (batch, 0isize, 0isize);
                for d in (0..r).rev() {
                    let i = (l % spec.batch[d]) as isize;
                    (at_a, at_b, l) = (at_a + i * spec.a[d], at_b + i * spec.b[d], l / spec.batch[d]);
                }
                for i in 0..m as isize {
                    for j in 0..n as isize {
                        let mut sum = 0.0;
                        for p in 0..k as isize {
                            let x = self.number(mem, &a, spec.dtype, at_a + i * spec.a[r] + p * spec.a[r + 1])?;
                            let y = self.number(mem, &b, spec.dtype, at_b + p * spec.b[r] + j * spec.b[r + 1])?;
                            sum += x * y;
                        }
                        push(&mut out, spec.dtype, sum);
                    }
                }
            }
            let from = c.offset as usize * spec.dtype.size();
            let to = mem.get_mut(&c.buffer.raw()).and_then(|b| b.get_mut(from..from + out.len()));
            to.ok_or_else(|| bug("a product outside its buffer"))?.copy_from_slice(&out);
            Ok(())
        })
    }

    fn conv(&self, spec: &Conv, _: DType, _: Slot<'_>, _: Slot<'_>, _: Option<Tail<'_>>, _: Slot<'_>) -> Result<()> {
        Err(bug(&format!("{} has its own tests against plain loops", spec.name())))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

fn push(out: &mut Vec<u8>, dtype: DType, x: f64) {
    match dtype {
        DType::F64 => out.extend(x.to_ne_bytes()),
        DType::F32 => out.extend((x as f32).to_ne_bytes()),
        DType::F16 => out.extend(half::f16::from_f32(x as f32).to_ne_bytes()),
        DType::BF16 => out.extend(half::bf16::from_f32(x as f32).to_ne_bytes()),
        DType::I64 => out.extend((x as i64).to_ne_bytes()),
        DType::I32 => out.extend(i32::from_i64(x as i64).to_ne_bytes()),
        DType::I16 => out.extend(i16::from_i64(x as i64).to_ne_bytes()),
        DType::I8 => out.extend(i8::from_i64(x as i64).to_ne_bytes()),
        DType::U8 | DType::Bool => out.push(x as u8),
    }
}
