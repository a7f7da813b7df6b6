//! Parts of a sum that are added up in pairs, by whoever completes a pair: always the same pairs, and mostly by the thread
//! that made both.
//!
//! Where one core adds up what another one summed, all of it passes from cache to cache and back at the next call: for the weights of
//! `3x48x31x31` by `48x48x3x3` that took as long as the products on cores that have no cache in common. Of a tree over parts
//! that threads take in order, only the last pair meets like that.

use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which pairs of a number of parts have one side complete.
pub(super) struct Pairs {
    parts: usize,
    /// By the first part of the pair's second side: no two pairs have the same.
    half: SmallVec<[AtomicBool; super::weight::PARTS]>,
}

impl Pairs {
    pub fn new(parts: usize) -> Pairs {
        Pairs { parts, half: (0..parts).map(|_| AtomicBool::new(false)).collect() }
    }

    /// Parts on each side of the last pair's first one, which is left to the caller.
    fn whole(&self) -> usize {
        self.parts.next_power_of_two() / 2
    }

    /// The part that holds the second side of the last pair at the end, as part zero does the first: none if there is only one part.
    pub fn last(&self) -> Option<usize> {
        (self.parts > 1).then(|| self.whole())
    }

    /// Says that a part is complete; calls `add` with the parts that hold two complete sides (to, from) for all pairs that are complete
    /// by it, but the last.
    pub fn done(&self, part: usize, mut add: impl FnMut(usize, usize)) {
        let mut wide = 1;
        while wide < self.whole() {
            let first = part / (2 * wide) * (2 * wide);
            let second = first + wide;
            // What is beyond the last part is complete, and nothing.
            if let Some(half) = self.half.get(second) {
                // Whoever comes first leaves it to the other, who then sees all that was written.
                if !half.swap(true, Ordering::AcqRel) {
                    return;
                }
                add(first, second);
            }
            wide *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pairs;

    fn tree(from: usize, to: usize) -> String {
        if to - from == 1 {
            return from.to_string();
        }
        let half = from + (to - from).next_power_of_two() / 2;
        format!("({}+{})", tree(from, half), tree(half, to))
    }

    #[test]
    fn pairs_are_the_same_in_any_order() {
        for parts in 1..=20usize {
            for step in [1, 3, 7, 11, 19] {
                let pairs = Pairs::new(parts);
                let mut sums: Vec<String> = (0..parts).map(|i| i.to_string()).collect();
                let order = (0..23).map(|i| i * step % 23).filter(|&i| i < parts);
                for part in order {
                    pairs.done(part, |to, from| sums[to] = format!("({}+{})", sums[to], sums[from]));
                }
                let all = pairs.last().map_or(sums[0].clone(), |last| format!("({}+{})", sums[0], sums[last]));
                assert_eq!(all, tree(0, parts), "{parts} in steps of {step}");
            }
        }
    }
}
