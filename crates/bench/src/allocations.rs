//! Counts what a replayed step allocates: nothing.

use crate::training::training;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

/// Allocations of other tests would count, and random numbers that they draw would be missing: one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
/// Whether to print where: `GRADUS_SHOW_ALLOCATIONS` is set.
static SHOW: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn count() {
    if ON.load(SeqCst) {
        COUNT.fetch_add(1, SeqCst);
        if SHOW.load(SeqCst) && ON.swap(false, SeqCst) {
            eprintln!("{}", std::backtrace::Backtrace::force_capture());
            ON.store(true, SeqCst);
        }
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Heap allocations, on all threads, in two steps of a workload that has been replayed before. Which thread does what is not
/// fixed, and each has lists of its own that grow as it meets larger kernels: so the fewest of some pairs of steps.
fn allocations(name: &str) -> usize {
    let mut work = training(name, true).unwrap();
    for _ in 0..8 {
        work.step().unwrap();
    }
    let mut pair = || {
        COUNT.store(0, SeqCst);
        ON.store(true, SeqCst);
        let losses = [work.step().unwrap(), work.step().unwrap()];
        ON.store(false, SeqCst);
        assert!(losses[0] != losses[1]);
        COUNT.load(SeqCst)
    };
    (0..20).map(|_| pair()).find(|&n| n == 0).unwrap_or_else(pair)
}

#[test]
fn a_replayed_step_allocates_nothing() {
    SHOW.store(std::env::var_os("GRADUS_SHOW_ALLOCATIONS").is_some(), SeqCst);
    let _alone = alone();
    let names = ["sine", "mlp", "cnn", "gpt_small", "lstm"];
    let counts: Vec<_> = names.iter().map(|n| (n, allocations(n))).filter(|c| c.1 > 0).collect();
    assert!(counts.is_empty(), "heap allocations in two steps: {counts:?}");
}
