//! An allocator that counts what each thread holds.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    ptr::null_mut,
};

/// Make it the program's `#[global_allocator]`: without it, [`peak`] sees nothing.
pub struct Counting;

/// A single request of this size is refused: it would be a number from a file that nobody checked.
const REFUSED: usize = 4 << 30;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(by: isize) {
    // A thread that is ending has no cells any more, and nobody asks for its figures.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + by);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator, or answers null, which is allowed; counting allocates nothing (the
// cells are const-initialised).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= REFUSED {
            return null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= REFUSED {
            return null_mut();
        }
        count(layout.size() as isize);
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size >= REFUSED {
            return null_mut();
        }
        // Old and new may both be there for a while.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: passed on.
        unsafe { System.realloc(p, layout, size) }
    }
}

/// The most bytes that this thread held at once during `f`, beyond what it held before.
pub fn peak(f: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    f();
    (PEAK.get() - before).max(0) as usize
}
