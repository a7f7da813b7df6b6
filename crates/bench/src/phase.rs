//! How far apart the cores are in this minute: nanoseconds that a line takes from one to the other.
//!
//! Virtual cores move. Those of a Zen 4 server stand on one die in some minutes and on two in others: 50 ns with a last cache that
//! both share and one link to memory, or 240 ns with a cache for each. 64 MiB are read at 60 GB/s in the first and at 120 in
//! the second, where they fit the two caches; threads that pass lines to and fro are slower in the second. So a figure belongs to
//! its phase, and a ratio is one of figures of the same phase.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// How often the line goes to and fro in one try, and how many tries there are; the fastest counts.
const TRIPS: u32 = 1000;
const TRIES: u32 = 7;

/// Phases are different where one takes so much longer than the other.
const FACTOR: f64 = 1.7;

/// A line of its own.
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds from one core to the other and half of that back; none where there is only one core.
pub fn latency() -> Option<f64> {
    if std::thread::available_parallelism().map_or(1, |n| n.get()) < 2 {
        return None;
    }
    let (ping, pong) = (Line(AtomicU32::new(0)), Line(AtomicU32::new(0)));
    let wait = |line: &Line, value: u32| {
        while line.0.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 1..=TRIPS * TRIES {
                wait(&ping, i);
                pong.0.store(i, Ordering::Release);
            }
        });
        let mut fastest = f64::INFINITY;
        for attempt in 0..TRIES {
            let start = Instant::now();
            for i in attempt * TRIPS + 1..=(attempt + 1) * TRIPS {
                ping.0.store(i, Ordering::Release);
                wait(&pong, i);
            }
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        Some(fastest * 1e9 / f64::from(2 * TRIPS))
    })
}

/// Whether all of these were measured in one phase.
pub fn same(all: &[f64]) -> bool {
    let (least, most) = all.iter().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), x| (a.min(*x), b.max(*x)));
    most <= least * FACTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_some_time_from_core_to_core() {
        let _alone = crate::allocations::alone();
        if let Some(ns) = latency() {
            assert!(ns > 1.0 && ns < 1e7, "{ns}");
        }
    }

    #[test]
    fn phases_are_told_apart() {
        let _alone = crate::allocations::alone();
        assert!(same(&[]) && same(&[50.0, 58.0, 49.0]));
        assert!(!same(&[50.0, 240.0]));
    }
}
