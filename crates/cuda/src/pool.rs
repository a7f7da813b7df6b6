//! Device memory, kept for the next taker.
//!
//! All work runs on one stream, so memory that is given back may be taken at once: whatever its next owner does comes
//! after what the last one asked for.

use crate::{context::Context, sys::driver};
use gradus_core::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Sizes are rounded up to this below [`LARGE`] ...
const SMALL_STEP: usize = 512;
/// ... and to this beyond it.
const LARGE_STEP: usize = 2 << 20;
const LARGE: usize = 1 << 20;

/// Blocks by size.
#[derive(Default)]
pub struct Pool {
    /// The lowest address of a size goes first: a loop then comes back to the same addresses.
    free: BTreeMap<usize, BTreeSet<u64>>,
    sizes: HashMap<u64, usize>,
    held: usize,
    used: usize,
    peak: usize,
}

/// What a device's memory is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Bytes in buffers that are alive.
    pub used: usize,
    /// The most that ever were.
    pub peak: usize,
    /// Bytes taken from the driver.
    pub held: usize,
}

fn rounded(bytes: usize) -> Option<usize> {
    let step = if bytes < LARGE { SMALL_STEP } else { LARGE_STEP };
    bytes.max(1).checked_next_multiple_of(step)
}

impl Pool {
    /// A block of at least `bytes`.
    pub fn take(&mut self, context: &Context, bytes: usize) -> Result<u64> {
        let none = || Error::new("cuda", ErrorKind::Alloc { bytes: bytes as u128 });
        let size = rounded(bytes).ok_or_else(none)?;
        // A block up to a quarter too large will do: less is lost than by asking the driver again.
        let fits = self.free.range(size..=size + size / 4).find(|(_, list)| !list.is_empty()).map(|(&s, _)| s);
        if let Some(s) = fits
            && let Some(raw) = self.free.get_mut(&s).and_then(BTreeSet::pop_first)
        {
            self.count(s);
            return Ok(raw);
        }
        context.enter()?;
        let d = context.driver;
        let mut raw = 0;
        // SAFETY: the pointer is to a local.
        let mut code = unsafe { (d.mem_alloc)(&mut raw, size) };
        if code == driver::OUT_OF_MEMORY {
            self.trim(context)?;
            // SAFETY: as above.
            code = unsafe { (d.mem_alloc)(&mut raw, size) };
        }
        if code == driver::OUT_OF_MEMORY {
            let (mut free, mut total) = (0, 0);
            // SAFETY: pointers are to locals.
            unsafe { (d.mem_get_info)(&mut free, &mut total) };
            let hint =
                format!("{free} of {total} bytes are free on {}; {} are in use here", context.info.name, self.used);
            return Err(none().hint(hint));
        }
        d.check(code, "cuMemAlloc")?;
        self.sizes.insert(raw, size);
        self.held += size;
        self.count(size);
        Ok(raw)
    }

    /// Takes these very blocks, if all are free.
    pub fn take_all(&mut self, blocks: &[u64]) -> bool {
        for (i, raw) in blocks.iter().enumerate() {
            let size = self.sizes.get(raw).copied().unwrap_or(0);
            if !self.free.get_mut(&size).is_some_and(|list| list.remove(raw)) {
                blocks[..i].iter().for_each(|&b| self.give(b));
                return false;
            }
            self.count(size);
        }
        true
    }

    /// Takes these blocks, or others of their sizes where they are not free.
    pub fn take_or_like(&mut self, context: &Context, blocks: &[u64]) -> Result<Vec<u64>> {
        // First those that are free, so that no other takes their place.
        let taken: Vec<bool> = blocks.iter().map(|&b| self.take_all(&[b])).collect();
        let mut out = Vec::with_capacity(blocks.len());
        for (&b, &had) in blocks.iter().zip(&taken) {
            let size = self.sizes.get(&b).copied().unwrap_or(1);
            match if had { Ok(b) } else { self.take(context, size) } {
                Ok(raw) => out.push(raw),
                Err(e) => {
                    let held = blocks.iter().zip(&taken).skip(out.len()).filter(|(_, t)| **t).map(|(&b, _)| b);
                    let back: Vec<u64> = out.into_iter().chain(held).collect();
                    back.into_iter().for_each(|b| self.give(b));
                    return Err(e);
                }
            }
        }
        Ok(out)
    }

    fn count(&mut self, size: usize) {
        self.used += size;
        self.peak = self.peak.max(self.used);
    }

    /// Takes a block back.
    pub fn give(&mut self, raw: u64) {
        if let Some(&size) = self.sizes.get(&raw) {
            self.used -= size;
            self.free.entry(size).or_default().insert(raw);
        }
    }

    /// Gives all free blocks to the driver.
    pub fn trim(&mut self, context: &Context) -> Result<()> {
        context.wait()?;
        for (size, list) in std::mem::take(&mut self.free) {
            for raw in list {
                self.sizes.remove(&raw);
                self.held -= size;
                // SAFETY: the block came from the driver, nobody holds it, and no work is under way.
                context.driver.check(unsafe { (context.driver.mem_free)(raw) }, "cuMemFree")?;
            }
        }
        Ok(())
    }

    /// What it holds.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats { used: self.used, peak: self.peak, held: self.held }
    }

    /// Starts the peak anew.
    pub fn reset_peak(&mut self) {
        self.peak = self.used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_in_two_steps() {
        assert_eq!(rounded(0), Some(512));
        assert_eq!(rounded(513), Some(1024));
        assert_eq!(rounded(1 << 20), Some(2 << 20));
        assert_eq!(rounded((2 << 20) + 1), Some(4 << 20));
        assert_eq!(rounded(usize::MAX), None);
    }
}
