//! When a kernel is worth machine code. Making that takes as long as running a small kernel a hundred times, and where shapes
//! change at every call nothing runs twice: so a small kernel runs by calls at first, and gets its machine code when it runs again. The bits
//! are the same either way.

use super::{exec::PARALLEL_WORK, jit};
use crate::kernel::Kernel;
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// From this much work on, one run alone is worth it.
const AT_ONCE: usize = 8 * PARALLEL_WORK;

/// What is made of kernels: without machine code, then with it.
pub struct Tiered<T> {
    first: T,
    /// Where machine code makes a difference: what to make it of, whether the first has run, and what was made.
    later: Option<(Vec<Kernel>, AtomicBool, OnceLock<T>)>,
    make: fn(&[Kernel]) -> T,
}

impl<T> Tiered<T> {
    /// Makes what runs first.
    pub fn new(kernels: &[Kernel], make: fn(&[Kernel]) -> T) -> Tiered<T> {
        let work = |k: &Kernel| k.rows().saturating_mul(k.cols()).saturating_mul(super::analysis::cost(k));
        if kernels.iter().map(work).fold(0, usize::saturating_add) >= AT_ONCE {
            return Tiered { first: make(kernels), later: None, make };
        }
        let (first, asked) = jit::without(|| make(kernels));
        let later = asked.then(|| (kernels.to_vec(), AtomicBool::new(false), OnceLock::new()));
        Tiered { first, later, make }
    }

    /// What runs now.
    pub fn now(&self) -> &T {
        match &self.later {
            Some((_, ran, made)) if made.get().is_some() || ran.swap(true, Relaxed) => self.best(),
            Some(_) | None => &self.first,
        }
    }

    /// What runs from now on, made if it was not.
    pub fn best(&self) -> &T {
        match &self.later {
            Some((kernels, _, made)) => made.get_or_init(|| (self.make)(kernels)),
            None => &self.first,
        }
    }
}

/// What was made for kernels, under their hashes, for as long as somebody uses it.
type Held<T> = HashMap<(u64, u64), Weak<T>>;

/// What was made for kernels and is in use: plans for other shapes have many kernels in common, those of an optimizer all of
/// them.
pub struct InUse<T>(Mutex<Option<Held<T>>>);

impl<T> InUse<T> {
    /// Nothing.
    pub const fn none() -> InUse<T> {
        InUse(Mutex::new(None))
    }

    /// What there is for these kernels, made if there is nothing.
    pub fn of<E>(&self, kernels: &[Kernel], make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut hash = crate::hash::Mix::default();
        kernels.hash(&mut hash);
        let lock = || self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(found) = lock().get_or_insert_default().get(&hash.both()).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        let mut guard = lock();
        let all = guard.get_or_insert_default();
        if all.len() == all.capacity() {
            // Before it grows, what nobody uses any more goes.
            all.retain(|_, held| held.strong_count() > 0);
        }
        all.insert(hash.both(), Arc::downgrade(&made));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        DType,
        kernel::{Access, Arg, Inst, InstKind, Level, Order, Source},
        op::ewise,
    };

    /// `exp` of so many numbers.
    fn exp(n: usize) -> Kernel {
        let access = || Access { strides: vec![1], ..Access::default() };
        let inst = |kind| Inst { kind, dtype: DType::F32, level: Level::Row };
        Kernel {
            map: vec![n],
            reduce: vec![],
            args: [false, true].map(|written| Arg { dtype: DType::F32, written }).to_vec(),
            params: vec![],
            insts: vec![
                inst(InstKind::Load { source: Source::Arg(0), access: access() }),
                inst(InstKind::Ewise(&ewise::EXP, [0].into_iter().collect())),
                inst(InstKind::Store { arg: 1, access: access(), value: 1 }),
            ],
            order: Order::ROWS,
        }
    }

    #[test]
    fn small_kernels_wait_for_their_machine_code() {
        if !jit::available() {
            return;
        }
        let make = |_: &[Kernel]| jit::available();
        let small = Tiered::new(&[exp(1000)], make);
        assert_eq!([*small.now(), *small.now(), *small.now()], [false, true, true]);
        let often = Tiered::new(&[exp(1000)], make);
        assert!(*often.best() && *often.now(), "what will run often has it at once");
        assert!(*Tiered::new(&[exp(1 << 20)], make).now(), "and so has what runs for long");
        let never = Tiered::new(&[exp(1000)], |k| k.len());
        assert!(never.later.is_none(), "what asks for no machine code is made once");
    }

    #[test]
    fn equal_kernels_are_made_once_while_they_are_in_use() {
        let all: InUse<usize> = InUse::none();
        let made = |n: usize, as_: usize| all.of(&[exp(n)], || Ok::<_, ()>(as_)).unwrap();
        let (a, b) = (made(10, 1), made(11, 2));
        assert_eq!((*made(10, 3), *made(11, 4)), (1, 2));
        drop(a);
        assert_eq!((*made(10, 5), *b), (5, 2));
        for n in 0..1000 {
            made(n, n);
        }
        assert!(all.0.lock().unwrap().as_ref().unwrap().capacity() < 200, "what nobody uses is not kept");
    }
}
