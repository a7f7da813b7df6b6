//! A device that does nothing, and says what a GPU would be asked for: every step of a training step with the bytes and
//! operations it takes, and the memory. Plans are made for it as for a GPU.

use gradus_core::{
    DType, Device, Result, Scalar, Shape,
    backend::{Backend, Executable, Limits, Matmul, Slot, Tail},
    graph::Buffer,
    kernel::{InstKind, Kernel},
    op::{Conv, HostOp},
};
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// Bytes a second, and multiply-adds times two a second, that a step is taken to reach.
const MEMORY: f64 = 3.6e12;
const PRODUCTS: f64 = 650e12;

/// One thing that was asked for.
struct Asked {
    what: String,
    bytes: u64,
    flops: u64,
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    next: u64,
    held: usize,
    peak: usize,
}

/// The device.
pub struct Dry {
    limits: Limits,
    state: Mutex<State>,
}

struct Described(Asked);

impl Executable for Described {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Dry {
    /// A new device.
    pub fn device() -> Device {
        let limits = Limits {
            max_args: 256,
            max_insts: 256,
            dtypes: DType::ALL.to_vec(),
            max_buffer: 1 << 40,
            attention: vec![DType::BF16, DType::F16],
            bias: vec![DType::F32, DType::F16, DType::BF16],
            conv_bias: vec![],
            relu: false,
            planes: vec![],
            layouts: false,
            row_tables: vec![DType::F32, DType::F64],
        };
        Device::register(Box::new(Dry { limits, state: Mutex::default() }))
    }

    /// The implementation behind a device, if it is this one.
    pub fn of(device: &Device) -> Option<&'static Dry> {
        device.backend().as_any().and_then(|a| a.downcast_ref())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn ask(&self, what: String, bytes: u64, flops: u64) {
        self.state().asked.push(Asked { what, bytes, flops });
    }

    /// Forgets what was asked, and counts the peak from now on.
    pub fn reset(&self) {
        let mut s = self.state();
        s.asked.clear();
        s.peak = s.held;
    }

    /// Prints what was asked: in order, or added up by kind with the time each would take.
    pub fn print(&self, in_order: bool) {
        let s = self.state();
        let ms = |bytes: u64, flops: u64| (bytes as f64 / MEMORY).max(flops as f64 / PRODUCTS) * 1e3;
        let mut kinds: BTreeMap<&str, (usize, u64, f64)> = BTreeMap::new();
        for a in &s.asked {
            let k = kinds.entry(&a.what).or_default();
            *k = (k.0 + 1, k.1 + a.bytes, k.2 + ms(a.bytes, a.flops));
            if in_order {
                println!("{:8.4} ms {:9.1} MB  {}", ms(a.bytes, a.flops), a.bytes as f64 / 1e6, a.what);
            }
        }
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by(|a, b| b.1.2.total_cmp(&a.1.2));
        for (what, (n, bytes, ms)) in &kinds {
            println!("{ms:8.4} ms {n:5} x {:9.1} MB  {what}", *bytes as f64 / 1e6);
        }
        let all: f64 = kinds.iter().map(|k| k.1.2).sum();
        println!("{} steps, {all:.3} ms at the limits; {:.2} GB at the peak", s.asked.len(), s.peak as f64 / 1e9);
    }
}

/// A kernel in a line: its space, its arguments' types, its operations.
fn line(k: &Kernel) -> String {
    let mut out = format!("kernel {:?} over {:?} [", k.map, k.reduce);
    for a in &k.args {
        out += if a.written { ">" } else { "" };
        out += &format!("{} ", a.dtype);
    }
    out += "]";
    for i in &k.insts {
        match &i.kind {
            InstKind::Ewise(row, _) => out += &format!(" {}", row.name),
            InstKind::Reduce(op, _) => out += &format!(" {op:?}"),
            InstKind::Cast(_) => out += &format!(" {}", i.dtype),
            InstKind::Const(_) | InstKind::Param(_) | InstKind::Load { .. } | InstKind::Store { .. } => {}
        }
    }
    out
}

impl Backend for Dry {
    fn name(&self) -> &str {
        "dry"
    }
    fn limits(&self) -> &Limits {
        &self.limits
    }
    fn alloc(&self, bytes: usize) -> Result<u64> {
        let mut s = self.state();
        s.next += (bytes as u64).next_multiple_of(512) + 512;
        s.held += bytes;
        s.peak = s.peak.max(s.held);
        Ok(s.next)
    }
    fn free(&self, _: u64, bytes: usize) {
        self.state().held -= bytes;
    }
    fn upload(&self, _: &Buffer, _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn download(&self, _: &Buffer, _: usize, dst: &mut [u8]) -> Result<()> {
        dst.fill(0);
        Ok(())
    }
    fn host_ptr(&self, _: &Buffer) -> Option<*mut u8> {
        None
    }
    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(Described(Asked { what: line(kernel), bytes: kernel.bytes(), flops: 0 })))
    }
    fn launch(&self, exe: &dyn Executable, _: &[Slot<'_>], _: &[Scalar]) -> Result<()> {
        if let Some(Described(a)) = exe.as_any().downcast_ref() {
            self.ask(a.what.clone(), a.bytes, a.flops);
        }
        Ok(())
    }
    fn matmul(&self, s: &Matmul, _: Slot<'_>, _: Slot<'_>, _: Option<Tail<'_>>, _: Slot<'_>) -> Result<()> {
        let [m, k, n] = s.mkn;
        let batch: usize = s.batch.iter().product();
        let bytes = ((m * k + k * n + m * n) * batch * s.dtype.size()) as u64;
        self.ask(format!("matmul {} {batch} x [{m}, {k}] @ [{k}, {n}]", s.dtype), bytes, s.flops());
        Ok(())
    }
    fn conv(&self, s: &Conv, dtype: DType, _: Slot<'_>, _: Slot<'_>, _: Option<Tail<'_>>, _: Slot<'_>) -> Result<()> {
        let bytes = ((s.input.numel() + s.weight.numel() + s.output.numel()) * dtype.size()) as u64;
        self.ask(format!("conv {dtype} {:?} {} * {}", s.kind, s.input, s.weight), bytes, s.flops());
        Ok(())
    }
    fn host_op(&self, op: &HostOp, _: &[Slot<'_>], _: Slot<'_>, types: &[(DType, Shape)]) -> Result<bool> {
        let bytes = types.iter().map(|(d, s)| (s.numel() * d.size()) as u64).sum();
        self.ask(format!("{} {}", op.name(), types.last().map_or(String::new(), |t| t.1.to_string())), bytes, 0);
        Ok(true)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
