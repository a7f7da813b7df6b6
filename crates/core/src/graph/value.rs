//! Buffers, and values as views of them.

use crate::{Device, Result, View};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Bytes in buffers that are alive now, on all devices.
pub fn live_bytes() -> usize {
    LIVE_BYTES.load(Relaxed)
}

/// Memory of a device; given back when the last holder goes.
pub struct Buffer {
    device: Device,
    raw: u64,
    bytes: usize,
    /// The handle that owns the memory, where this is another one to it.
    of: Option<Arc<Buffer>>,
}

impl Buffer {
    /// Takes `bytes` bytes (their content is unspecified) from the device.
    pub fn alloc(device: Device, bytes: usize) -> Result<Arc<Buffer>> {
        let raw = device.backend().alloc(bytes)?;
        LIVE_BYTES.fetch_add(bytes, Relaxed);
        Ok(Arc::new(Buffer { device, raw, bytes, of: None }))
    }

    /// Memory that the device has set aside for this.
    pub(crate) fn adopt(device: Device, raw: u64, bytes: usize) -> Arc<Buffer> {
        LIVE_BYTES.fetch_add(bytes, Relaxed);
        Arc::new(Buffer { device, raw, bytes, of: None })
    }

    /// Another handle to the same memory: it can be told from the first.
    pub(crate) fn alias(self: &Arc<Buffer>) -> Arc<Buffer> {
        Arc::new(Buffer { device: self.device, raw: self.raw, bytes: self.bytes, of: Some(self.clone()) })
    }

    /// The device it lives on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// The backend's own handle: an address for the CPU and CUDA.
    pub fn raw(&self) -> u64 {
        self.raw
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.of.is_some() {
            return;
        }
        LIVE_BYTES.fetch_sub(self.bytes, Relaxed);
        self.device.backend().free(self.raw, self.bytes);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes, {})", self.raw, self.bytes, self.device)
    }
}

/// A tensor's elements: a view of a buffer, in elements of the tensor's type.
#[derive(Clone, Debug)]
pub struct Value {
    /// The memory.
    pub buffer: Arc<Buffer>,
    /// How the elements lie in it.
    pub view: View,
}
