use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

fn on<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(f)
}

#[test]
fn every_task_runs_once() {
    for threads in [1, 2, 5] {
        on(threads, || {
            for count in (0..40).chain([1000]) {
                let runs: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                for_tasks(count, true, |i| {
                    runs[i].fetch_add(1, Ordering::Relaxed);
                });
                for_ranges(count, count % 3 == 0, |i| {
                    runs[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(runs.iter().all(|r| r.load(Ordering::Relaxed) == 2), "{threads} threads, {count} tasks");
            }
        });
    }
}

#[test]
fn callers_at_the_same_time_and_tasks_in_tasks() {
    let total = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                on(3, || {
                    for _ in 0..200 {
                        for_tasks(5, true, |_| {
                            for_tasks(4, true, |_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            });
        }
    });
    assert_eq!(total.into_inner(), 4 * 200 * 20);
}

#[test]
fn helpers_that_sleep_come_back() {
    let total = AtomicUsize::new(0);
    on(2, || {
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            for_tasks(4, true, |_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(total.into_inner(), 80);
}

#[test]
fn a_panic_reaches_the_caller_and_the_team_goes_on() {
    for _ in 0..20 {
        let bad = std::panic::catch_unwind(|| {
            on(3, || for_tasks(50, true, |i| assert!(i != 37, "number {i}")));
        });
        assert!(bad.is_err());
    }
    every_task_runs_once();
}

#[test]
fn what_a_thread_keeps_is_its_own() {
    let own = Own::default();
    own.keep(1);
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(own.take(), None);
            own.keep(2);
            assert_eq!(own.take(), Some(2));
        });
    });
    // Unless the other thread has the same place.
    assert!([Some(1), None].contains(&own.take()));
    assert_eq!(own.take(), None);
}
