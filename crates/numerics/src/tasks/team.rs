//! Threads that wait for the next piece of work awake, for a while.
//!
//! A step of a small model is dozens of parallel loops of 10 to 100 us with little between them.
//! Handing one to sleeping threads takes 9 to 17 us from outside of a rayon pool, 50 and more after
//! a pause; to a thread that looks for it, 0.3 us. So helpers keep looking for [`AWAKE`] after
//! their last piece of work, giving way to others meanwhile, and sleep only then.
//!
//! The caller works too, and tasks are taken one by one: a helper that comes late costs nothing. Each
//! thread begins with a share of its own, the same part of the tasks whenever their number is the
//! same, so that it finds in its caches what it left there the last time; when its share is done, it
//! takes from the ends of the others'. Jobs whose tasks are ranges of memory go through the shares from their ends if
//! the job before went from their beginnings: what was touched last is still in the second cache, and what was
//! touched first is not.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a helper looks for work before it sleeps.
const AWAKE: Duration = Duration::from_millis(1);

/// How much of that without giving way to other threads.
const GREEDY: Duration = Duration::from_micros(30);

/// Pauses between two looks at the clock.
const PAUSES: usize = 32;

/// The state's bits: how many helpers are inside the job, whether it is open, its number.
const INSIDE: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const NUMBER: u64 = 1 << 17;

/// The most shares that tasks are split into; more threads than this have one in common.
const SHARES: usize = 64;

/// A share's bits: its next task, and above it the task after its last.
const NEXT: u64 = (1 << 32) - 1;
const END: u64 = 1 << 32;

type Task<'a> = &'a (dyn Fn(usize) + Sync);

#[derive(Clone, Copy)]
struct Job {
    /// Lives until the job is closed and nobody is inside.
    task: Task<'static>,
    /// Shares that the tasks are split into.
    shares: usize,
    /// Helpers with a number below this take part.
    helpers: usize,
    /// Whether shares are gone through from their ends.
    back: bool,
}

/// A value on a cache line of its own.
#[repr(align(128))]
struct Line<T>(T);

struct Team {
    /// Held by the thread whose job runs: how many helpers there are.
    owner: Mutex<usize>,
    state: Line<AtomicU64>,
    shares: [Line<AtomicU64>; SHARES],
    job: UnsafeCell<Option<Job>>,
    /// Whether the last job went through its shares from their ends.
    back: AtomicBool,
    panic: Mutex<Option<Box<dyn std::any::Any + Send>>>,
    asleep: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `job` is written by the owner while the job is closed with nobody inside, and read by
// helpers that entered it open.
unsafe impl Sync for Team {}

static TEAM: Team = Team {
    owner: Mutex::new(0),
    state: Line(AtomicU64::new(0)),
    shares: [const { Line(AtomicU64::new(0)) }; SHARES],
    job: UnsafeCell::new(None),
    back: AtomicBool::new(false),
    panic: Mutex::new(None),
    asleep: AtomicUsize::new(0),
    sleep: Mutex::new(()),
    wake: Condvar::new(),
};

thread_local! {
    /// Whether this thread is running a task.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling code is part of a task already.
pub(super) fn inside() -> bool {
    BUSY.get()
}

fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// Runs tasks `0..count` on up to `threads` threads, those of each thread the other way round than the last time if
/// `turns`; `false`, and nothing done, where another thread's job is running.
pub(super) fn run(threads: usize, count: usize, turns: bool, task: Task<'_>) -> bool {
    if count as u64 > NEXT {
        return false;
    }
    let Ok(mut helpers) = TEAM.owner.try_lock() else { return false };
    let wanted = threads.min(count).saturating_sub(1).min(INSIDE as usize / 2);
    while *helpers < wanted {
        let number = *helpers;
        let spawned = thread::Builder::new().name(format!("gradus-{}", number + 1)).spawn(move || help(number));
        if spawned.is_err() {
            // The work gets done with those there are.
            break;
        }
        *helpers += 1;
    }
    let shares = (wanted + 1).min(SHARES);
    for (n, share) in TEAM.shares.iter().take(shares).enumerate() {
        let (from, to) = (count as u64 * n as u64 / shares as u64, count as u64 * (n as u64 + 1) / shares as u64);
        share.0.store(to * END + from, Ordering::Relaxed);
    }
    // SAFETY: the reference is used by helpers inside the open job only, and `Close` waits for them.
    let task = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
    let back = turns && !TEAM.back.load(Ordering::Relaxed);
    TEAM.back.store(back, Ordering::Relaxed);
    // SAFETY: the last job was closed and left by everyone, and this thread owns the team.
    unsafe { *TEAM.job.get() = Some(Job { task, shares, helpers: wanted, back }) };
    // Orders the job before the opening, and the opening before the look at who sleeps.
    TEAM.state.0.fetch_add(NUMBER + OPEN, Ordering::SeqCst);
    let close = Close { alone: threads > cores() };
    if TEAM.asleep.load(Ordering::SeqCst) > 0 {
        drop(TEAM.sleep.lock().unwrap_or_else(PoisonError::into_inner));
        TEAM.wake.notify_all();
    }
    work(task, &TEAM.shares[..shares], 0, back);
    drop(close);
    let panic = TEAM.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(helpers);
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
    true
}

/// Takes tasks until there are none, those of share `own` first; what one of them panics with is kept
/// for the owner.
fn work(task: Task<'_>, shares: &[Line<AtomicU64>], own: usize, back: bool) {
    BUSY.set(true);
    let done = catch_unwind(AssertUnwindSafe(|| {
        while let Some(i) = take(shares, own, back) {
            task(i);
        }
    }));
    BUSY.set(false);
    if let Err(payload) = done {
        shares.iter().for_each(|share| share.0.store(0, Ordering::Relaxed));
        TEAM.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
    }
}

/// The first task that is left of share `own`, or the last that is left of another; the other way round if `back`.
fn take(shares: &[Line<AtomicU64>], own: usize, back: bool) -> Option<usize> {
    (0..shares.len()).find_map(|n| {
        let share = &shares[(own + n) % shares.len()].0;
        let first = (n == 0) != back;
        let less = |s: u64| {
            let (next, end) = (s & NEXT, s / END);
            (next < end).then(|| if first { s + 1 } else { s - END })
        };
        let before = share.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some((if first { before & NEXT } else { before / END - 1 }) as usize)
    })
}

/// Closes the job and waits for those inside.
struct Close {
    /// Whether others need this core to come to an end.
    alone: bool,
}

impl Drop for Close {
    fn drop(&mut self) {
        TEAM.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while TEAM.state.0.load(Ordering::Acquire) & INSIDE != 0 {
            looks += 1;
            if self.alone || looks > 1000 {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// A helper's life.
fn help(number: usize) {
    let mut last = 0;
    loop {
        last = wait(last);
        let before = TEAM.state.0.fetch_add(1, Ordering::AcqRel);
        if before & OPEN != 0 {
            last = before & !(INSIDE | OPEN);
            // SAFETY: this helper is inside an open job, which is not written until it leaves.
            if let Some(job) = unsafe { *TEAM.job.get() }
                && number < job.helpers
            {
                let own = (number + 1) % job.shares;
                work(job.task, &TEAM.shares[..job.shares], own, job.back);
            }
        }
        TEAM.state.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for an open job with another number than `last`.
fn wait(last: u64) -> u64 {
    let open = || {
        let state = TEAM.state.0.load(Ordering::SeqCst);
        state & OPEN != 0 && state & !(INSIDE | OPEN) != last
    };
    let start = Instant::now();
    loop {
        for _ in 0..PAUSES {
            if open() {
                return last;
            }
            std::hint::spin_loop();
        }
        let waited = start.elapsed();
        if waited > AWAKE {
            break;
        }
        if waited > GREEDY {
            thread::yield_now();
        }
    }
    let mut guard = TEAM.sleep.lock().unwrap_or_else(PoisonError::into_inner);
    // Says that it sleeps, then looks once more: the owner opens, then looks who sleeps.
    TEAM.asleep.fetch_add(1, Ordering::SeqCst);
    while !open() {
        guard = TEAM.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    TEAM.asleep.fetch_sub(1, Ordering::SeqCst);
    last
}
