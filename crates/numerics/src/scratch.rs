//! Memory for packed operands and tiles, kept between calls: fresh pages cost more than the
//! arithmetic, and a replayed step must not allocate.

use crate::pages::{HUGE, advise_huge};
use crate::tasks::thread_number;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all kept buffers together may take, in bytes.
const KEEP: usize = 256 << 20;

/// Places where threads leave what they used, each under a lock of its own: with one for all of them, threads that take a
/// buffer for every small product waited for each other half of the time.
const PLACES: usize = 16;

/// What came back, in that order.
type Kept = Mutex<Vec<Raw>>;

static POOL: [Kept; PLACES] = [const { Mutex::new(Vec::new()) }; PLACES];

/// The bytes of all of it.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// The places, from that of this thread on.
fn places(user: usize) -> impl Iterator<Item = &'static Kept> {
    (0..PLACES).map(move |n| &POOL[(user + n) % PLACES])
}

struct Raw {
    ptr: *mut f32,
    len: usize,
    /// The thread that took it last: it has it in its caches, whoever gives it back.
    user: usize,
}

// SAFETY: a `Raw` owns its memory.
unsafe impl Send for Raw {}

impl Raw {
    fn layout(len: usize) -> Layout {
        let bytes = len.saturating_mul(size_of::<f32>());
        let align = if bytes >= HUGE { HUGE } else { 64 };
        Layout::from_size_align(bytes, align).unwrap_or_else(|_| handle_alloc_error(Layout::new::<f32>()))
    }

    fn new(len: usize) -> Raw {
        let layout = Raw::layout(len);
        // SAFETY: the size is not zero: `take` rounds up.
        let ptr = unsafe { alloc(layout) };
        if ptr.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the memory is ours and that large. Zeroed only now, so that its first touch
        // makes huge pages.
        unsafe {
            advise_huge(ptr, layout.size());
            ptr.write_bytes(0, layout.size());
        }
        Raw { ptr: ptr.cast(), len, user: thread_number() }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.ptr.cast(), Raw::layout(self.len)) }
    }
}

/// A borrowed buffer, 64-byte aligned, of unspecified content (finite or not); it goes back to
/// the pool when dropped.
pub struct Scratch {
    raw: Option<Raw>,
    len: usize,
}

/// The smallest that fits, unless it would waste more than it gives. Of those, what this thread used last: to write into what
/// lies in another core's cache takes several times as long, most of all where cores have no cache in common.
fn fit(free: &[Raw], class: usize, user: usize) -> Option<usize> {
    let fits = |r: &Raw| r.len >= class && r.len <= class.saturating_mul(4);
    let mut best: Option<(usize, (usize, bool))> = None;
    for (i, r) in free.iter().enumerate().rev().filter(|(_, r)| fits(r)) {
        let key = (r.len, r.user != user);
        if key == (class, false) {
            // There is no better one, and what came back last is mostly it: products ask for many a call.
            return Some(i);
        }
        if best.is_none_or(|(_, least)| key < least) {
            best = Some((i, key));
        }
    }
    best.map(|b| b.0)
}

/// Gives memory back until no more than [`KEEP`] is held. Those that nobody has wanted for longest go first, of other threads before
/// one's own: what is wanted again and again stays.
fn shrink(user: usize) {
    for place in places(user + 1) {
        let mut free = place.lock().unwrap_or_else(|e| e.into_inner());
        while BYTES.load(Ordering::Relaxed) > KEEP && !free.is_empty() {
            let oldest = free.remove(0);
            BYTES.fetch_sub(oldest.len * size_of::<f32>(), Ordering::Relaxed);
        }
    }
}

/// A buffer of `len` numbers.
pub fn take(len: usize) -> Scratch {
    // Few size classes, so that one buffer serves many calls: an eighth of the power of two.
    let step = (len.max(1024).next_power_of_two() / 8).max(1024);
    let mut class = len.max(1).div_ceil(step) * step;
    if class * size_of::<f32>() >= HUGE / 4 {
        // Whole huge pages: rows of a block fall on many small ones.
        class = class.next_multiple_of(HUGE / size_of::<f32>());
    }
    let user = thread_number();
    let raw = places(user).find_map(|place| {
        let mut free = place.lock().unwrap_or_else(|e| e.into_inner());
        fit(&free, class, user).map(|i| free.remove(i))
    });
    if let Some(r) = &raw {
        BYTES.fetch_sub(r.len * size_of::<f32>(), Ordering::Relaxed);
    }
    let mut raw = raw.unwrap_or_else(|| Raw::new(class));
    raw.user = user;
    Scratch { raw: Some(raw), len }
}

/// A buffer of `len` numbers of another type.
pub(crate) struct Of<T>(Scratch, std::marker::PhantomData<T>);

/// A buffer of `len` numbers that any bits are good for.
pub(crate) fn of<T: Plain>(len: usize) -> Of<T> {
    Of(take(len * size_of::<T>() / size_of::<f32>()), std::marker::PhantomData)
}

/// Numbers of which any bits are one, of a whole number of `f32`.
pub(crate) trait Plain {}
impl Plain for f32 {}
impl Plain for f64 {}

impl<T: Plain> Deref for Of<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        let len = self.0.len() * size_of::<f32>() / size_of::<T>();
        // SAFETY: the memory is initialised, of as many bytes, and at a multiple of 64 of them.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

impl<T: Plain> DerefMut for Of<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let len = self.0.len() * size_of::<f32>() / size_of::<T>();
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}

// SAFETY: what is shared can only be read.
unsafe impl Sync for Scratch {}

impl Deref for Scratch {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        match &self.raw {
            // SAFETY: the memory is ours, initialised at least to zeros, and `len` was rounded up.
            Some(r) => unsafe { std::slice::from_raw_parts(r.ptr, self.len) },
            None => &[],
        }
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [f32] {
        match &self.raw {
            // SAFETY: as above, and borrowed exclusively.
            Some(r) => unsafe { std::slice::from_raw_parts_mut(r.ptr, self.len) },
            None => &mut [],
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(raw) = self.raw.take() else { return };
        // What helpers kept from task to task ends with the caller of them all, and is theirs again in the next call: frames of
        // 600 KB went from core to core at every convolution.
        let (user, bytes) = (raw.user, raw.len * size_of::<f32>());
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        POOL[user % PLACES].lock().unwrap_or_else(|e| e.into_inner()).push(raw);
        if BYTES.load(Ordering::Relaxed) > KEEP {
            shrink(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_separate() {
        let (mut a, mut b) = (take(1000), take(1000));
        assert_eq!((a.as_ptr() as usize % 64, a.len()), (0, 1000));
        a.fill(1.0);
        b.fill(2.0);
        assert!(a.iter().all(|&x| x == 1.0));
        assert_eq!(take(0).len(), 0);
    }

    #[test]
    fn a_thread_gets_what_it_used_last() {
        let raw = |len, user| {
            let mut raw = Raw::new(len);
            raw.user = user;
            raw
        };
        let free = [raw(1024, 1), raw(1024, 2), raw(1024, 1), raw(1024, 3), raw(2048, 4), raw(9000, 1)];
        assert_eq!([1, 2, 3, 4, 5].map(|user| fit(&free, 1024, user)), [2, 1, 3, 3, 3].map(Some));
        assert_eq!((fit(&free, 1025, 1), fit(&free, 9001, 1), fit(&free, 2049, 1)), (Some(4), None, None));
    }

    #[test]
    fn a_buffer_that_another_gives_back_stays_with_who_took_it() {
        let len = 9 << 20;
        let (give, given) = std::sync::mpsc::channel();
        let (say, said) = std::sync::mpsc::channel::<()>();
        let theirs = std::thread::spawn(move || {
            let buffer = take(len);
            let at = buffer.as_ptr() as usize;
            give.send(buffer).unwrap();
            said.recv().unwrap();
            let mine = POOL[thread_number() % PLACES].lock().unwrap();
            mine.iter().any(|r| r.ptr as usize == at && r.user == thread_number())
        });
        drop(given.recv().unwrap());
        say.send(()).unwrap();
        // (Sixteen threads have places of their own, and no other test takes as much.)
        assert!(theirs.join().unwrap());
    }

    #[test]
    fn a_full_pool_keeps_what_came_last() {
        // Six buffers of 64 MiB are more than the pool keeps.
        let all: Vec<Scratch> = (0..6).map(|_| take(16 << 20)).collect();
        let last = all.last().map(|s| s.as_ptr());
        all.into_iter().for_each(drop);
        assert!(BYTES.load(Ordering::Relaxed) <= KEEP + (64 << 20), "{BYTES:?}");
        let mine = POOL[thread_number() % PLACES].lock().unwrap();
        assert!(mine.iter().any(|r| Some(r.ptr.cast_const()) == last));
    }

    #[test]
    fn a_thread_takes_what_another_left_if_it_has_none() {
        let len = 7 << 20;
        let theirs = std::thread::spawn(move || take(len).as_ptr() as usize).join().unwrap();
        // Tests beside this one may take it first, but hardly three times.
        let found = (0..3).any(|_| {
            let other = std::thread::spawn(move || take(len).as_ptr() as usize).join().unwrap();
            let ours = take(len);
            ours.as_ptr() as usize == other || ours.as_ptr() as usize == theirs
        });
        assert!(found);
    }
}
