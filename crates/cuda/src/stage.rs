//! Copies between host and device through page-locked memory, so that an upload need not wait for the device.

use crate::{
    context::Context,
    sys::driver::{self, Handle},
};
use gradus_core::Result;
use std::collections::VecDeque;

/// Larger copies go without a stage: the driver's own is as fast then.
const MOST: usize = 8 << 20;
/// Blocks hold at least this.
const LEAST: usize = 64 << 10;
/// So many uploads may be under way.
const UNDER_WAY: usize = 32;

struct Block {
    host: *mut u8,
    size: usize,
    done: Handle,
}

/// Page-locked blocks: free ones, and ones an upload still reads, oldest first.
#[derive(Default)]
pub struct Stage {
    free: Vec<Block>,
    busy: VecDeque<Block>,
}

// SAFETY: the blocks belong to the stage, which one thread uses at a time.
unsafe impl Send for Stage {}

impl Stage {
    fn block(&mut self, c: &Context, bytes: usize) -> Result<Block> {
        let d = c.driver;
        while let Some(b) = self.busy.pop_front() {
            // SAFETY: the event was recorded when the block became busy.
            let code = unsafe { (d.event_query)(b.done) };
            if code == driver::NOT_READY && self.busy.len() + 1 < UNDER_WAY {
                self.busy.push_front(b);
                break;
            }
            // SAFETY: as above.
            d.check(unsafe { (d.event_synchronize)(b.done) }, "cuEventSynchronize")?;
            self.free.push(b);
        }
        if let Some(i) = self.free.iter().position(|b| b.size >= bytes) {
            return Ok(self.free.swap_remove(i));
        }
        let size = bytes.next_power_of_two().max(LEAST);
        let (mut host, mut done) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: pointers are to locals.
        unsafe {
            d.check((d.mem_host_alloc)(&mut host, size, driver::HOST_MAPPED), "cuMemHostAlloc")?;
            d.check((d.event_create)(&mut done, driver::EVENT_DISABLE_TIMING), "cuEventCreate")?;
        }
        Ok(Block { host: host.cast(), size, done })
    }

    /// Copies to the device, in stream order; `src` may go when this returns.
    pub fn upload(&mut self, c: &Context, to: u64, src: &[u8]) -> Result<()> {
        let d = c.driver;
        if src.len() > MOST {
            // SAFETY: the source is ordinary memory, which the driver has read when the call returns.
            let code = unsafe { (d.memcpy_htod_async)(to, src.as_ptr().cast(), src.len(), c.stream) };
            return d.check(code, "cuMemcpyHtoDAsync");
        }
        let b = self.block(c, src.len())?;
        // SAFETY: the block is large enough and nobody reads it; it is free again once its event has passed.
        unsafe {
            std::ptr::copy_nonoverlapping(src.as_ptr(), b.host, src.len());
            d.check((d.memcpy_htod_async)(to, b.host.cast(), src.len(), c.stream), "cuMemcpyHtoDAsync")?;
            d.check((d.event_record)(b.done, c.stream), "cuEventRecord")?;
        }
        self.busy.push_back(b);
        Ok(())
    }

    /// Copies to the host when all work before is done.
    pub fn download(&mut self, c: &Context, from: u64, dst: &mut [u8]) -> Result<()> {
        let d = c.driver;
        if dst.len() > MOST {
            // SAFETY: the destination lives until the wait is over.
            let code = unsafe { (d.memcpy_dtoh_async)(dst.as_mut_ptr().cast(), from, dst.len(), c.stream) };
            d.check(code, "cuMemcpyDtoHAsync")?;
            return c.wait();
        }
        let b = self.block(c, dst.len())?;
        // SAFETY: the block is large enough, and the copy is over when it is read.
        unsafe {
            d.check((d.memcpy_dtoh_async)(b.host.cast(), from, dst.len(), c.stream), "cuMemcpyDtoHAsync")?;
            c.wait()?;
            std::ptr::copy_nonoverlapping(b.host, dst.as_mut_ptr(), dst.len());
        }
        self.free.push(b);
        Ok(())
    }
}
