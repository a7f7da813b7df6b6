//! The CPU under another name: a device that shares nothing with the CPU but its arithmetic.
//!
//! What works on it works on a GPU as far as the framework goes: its memory cannot be addressed by the host, and tensors
//! of both devices in one operation are an error. It counts what goes over, so a test can say what a loop reads.

use gradus_core::{
    DType, Device, Result, Scalar,
    backend::{Backend, Executable, Limits, Matmul, Slot, Tail},
    graph::Buffer,
    kernel::Kernel,
    op::Conv,
};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

static DOWNLOADS: AtomicUsize = AtomicUsize::new(0);

/// The device, made once.
///
/// ```
/// use gradus_core::Tensor;
/// let x = Tensor::from([1.0f32, 2.0]).to(&gradus_conformance::relay::device());
/// assert_eq!((&x * 2.0).to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// assert!(x.add(&Tensor::from([1.0f32, 2.0])).is_err());
/// ```
pub fn device() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| Device::register(Box::new(Relay { name: "relay", last: false })))
}

/// The same, with 16-bit images that keep their channels last.
pub fn channels_last() -> Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    *DEVICE.get_or_init(|| Device::register(Box::new(Relay { name: "relay:last", last: true })))
}

/// How often something was read back from a relay, in this process.
pub fn downloads() -> usize {
    DOWNLOADS.load(Relaxed)
}

struct Relay {
    name: &'static str,
    last: bool,
}

fn cpu() -> &'static dyn Backend {
    Device::cpu().backend()
}

impl Backend for Relay {
    fn name(&self) -> &str {
        self.name
    }

    fn limits(&self) -> &Limits {
        cpu().limits()
    }

    fn alloc(&self, bytes: usize) -> Result<u64> {
        cpu().alloc(bytes)
    }

    fn free(&self, raw: u64, bytes: usize) {
        cpu().free(raw, bytes);
    }

    fn upload(&self, dst: &Buffer, at: usize, src: &[u8]) -> Result<()> {
        cpu().upload(dst, at, src)
    }

    fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        DOWNLOADS.fetch_add(1, Relaxed);
        cpu().download(src, at, dst)
    }

    fn host_ptr(&self, _: &Buffer) -> Option<*mut u8> {
        None
    }

    fn compile(&self, kernel: &Kernel) -> Result<Arc<dyn Executable>> {
        cpu().compile(kernel)
    }

    fn launch(&self, exe: &dyn Executable, args: &[Slot<'_>], params: &[Scalar]) -> Result<()> {
        cpu().launch(exe, args, params)
    }

    fn matmul(&self, spec: &Matmul, a: Slot<'_>, b: Slot<'_>, tail: Option<Tail<'_>>, c: Slot<'_>) -> Result<()> {
        cpu().matmul(spec, a, b, tail, c)
    }

    fn channels_last(&self) -> bool {
        self.last
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
        cpu().conv(spec, dtype, a, b, tail, c)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
