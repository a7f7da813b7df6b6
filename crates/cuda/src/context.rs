//! One GPU: its context, its stream, and what the other files need of them.

use crate::sys::{
    device_error,
    driver::{self, Driver, Handle},
};
use gradus_core::Result;
use std::{cell::Cell, ffi::c_void};

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its number.
    pub ordinal: usize,
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Its compute capability: 90 is 9.0.
    pub capability: i32,
    /// Its multiprocessors.
    pub multiprocessors: usize,
    /// Its memory in bytes.
    pub memory: usize,
}

/// The GPUs of this machine; an error where there is no driver.
pub fn list() -> Result<Vec<Info>> {
    let driver = Driver::get()?;
    let mut n = 0;
    // SAFETY: the pointer is to a local.
    driver.check(unsafe { (driver.device_get_count)(&mut n) }, "cuDeviceGetCount")?;
    (0..n).map(|i| info(driver, i)).collect()
}

fn info(driver: &Driver, ordinal: i32) -> Result<Info> {
    let mut device = 0;
    let mut name = [0u8; 128];
    let mut memory = 0usize;
    // SAFETY: all pointers are to locals, and the name's length is given.
    unsafe {
        driver.check((driver.device_get)(&mut device, ordinal), "cuDeviceGet")?;
        driver.check((driver.device_get_name)(name.as_mut_ptr().cast(), 127, device), "cuDeviceGetName")?;
        driver.check((driver.device_total_mem)(&mut memory, device), "cuDeviceTotalMem")?;
    }
    let attribute = |which| {
        let mut x = 0;
        // SAFETY: as above.
        driver.check(unsafe { (driver.device_get_attribute)(&mut x, which, device) }, "cuDeviceGetAttribute")?;
        Ok(x)
    };
    let end = name.iter().position(|&b| b == 0).unwrap_or(0);
    Ok(Info {
        ordinal: ordinal as usize,
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        capability: attribute(driver::CAPABILITY_MAJOR)? * 10 + attribute(driver::CAPABILITY_MINOR)?,
        multiprocessors: attribute(driver::MULTIPROCESSORS)? as usize,
        memory,
    })
}

/// A GPU made ready: its primary context and the one stream on which everything runs in order.
pub struct Context {
    pub driver: &'static Driver,
    pub info: Info,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared: usize,
    context: Handle,
    pub stream: Handle,
}

// SAFETY: contexts and streams may be used from any thread; the driver locks them.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes GPU `ordinal` ready.
    pub fn new(ordinal: usize) -> Result<Context> {
        let all = list()?;
        let Some(info) = all.get(ordinal) else {
            return Err(device_error(format!("there is no cuda:{ordinal}: this machine has {} GPUs", all.len())));
        };
        let driver = Driver::get()?;
        let (mut context, mut stream, mut shared) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        // SAFETY: pointers are to locals; the context lives as long as the process.
        unsafe {
            let mut device = 0;
            driver.check((driver.device_get)(&mut device, ordinal as i32), "cuDeviceGet")?;
            let code = (driver.device_get_attribute)(&mut shared, driver::SHARED_MEMORY, device);
            driver.check(code, "cuDeviceGetAttribute")?;
            driver.check((driver.primary_ctx_retain)(&mut context, device), "cuDevicePrimaryCtxRetain")?;
            driver.check((driver.ctx_set_current)(context), "cuCtxSetCurrent")?;
            driver.check((driver.stream_create)(&mut stream, driver::STREAM_NON_BLOCKING), "cuStreamCreate")?;
        }
        Ok(Context { driver, info: info.clone(), shared: shared as usize, context, stream })
    }

    /// Makes the context current on this thread.
    pub fn enter(&self) -> Result<()> {
        thread_local! {
            static CURRENT: Cell<*mut c_void> = const { Cell::new(std::ptr::null_mut()) };
        }
        if CURRENT.get() != self.context {
            // SAFETY: the context is alive.
            self.driver.check(unsafe { (self.driver.ctx_set_current)(self.context) }, "cuCtxSetCurrent")?;
            CURRENT.set(self.context);
        }
        Ok(())
    }

    /// The node that the recording stream added last.
    pub fn captured(&self) -> Result<Handle> {
        let (mut status, mut id, mut graph) = (0, 0u64, std::ptr::null_mut());
        let (mut nodes, mut count) = (std::ptr::null(), 0usize);
        // SAFETY: pointers are to locals; the list holds until the next call on the stream.
        unsafe {
            let info = self.driver.stream_get_capture_info;
            let code = info(self.stream, &mut status, &mut id, &mut graph, &mut nodes, &mut count);
            self.driver.check(code, "cuStreamGetCaptureInfo")?;
            if count == 0 || nodes.is_null() {
                return Err(device_error("a recording without a node"));
            }
            Ok(*nodes)
        }
    }

    /// Waits for all work.
    pub fn wait(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the stream is alive.
        self.driver.check(unsafe { (self.driver.stream_synchronize)(self.stream) }, "cuStreamSynchronize")
    }
}
