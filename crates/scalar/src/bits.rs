//! A set of slots, one bit each.

/// A growable set of small numbers that is quick to scan in order from either end.
pub(crate) struct BitSet {
    words: Vec<u64>,
}

impl BitSet {
    pub(crate) const fn new() -> Self {
        BitSet { words: Vec::new() }
    }

    /// Puts `item` in, and says whether it was absent.
    #[inline]
    pub(crate) fn insert(&mut self, item: u32) -> bool {
        let (word, bit) = split(item);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let absent = self.words[word] & bit == 0;
        self.words[word] |= bit;
        absent
    }

    /// Takes out the least item, which must not be below `from`, the least if it is known.
    #[inline]
    pub(crate) fn pop_first(&mut self, from: u32) -> Option<u32> {
        for (i, word) in self.words.iter_mut().enumerate().skip(split(from).0) {
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(i as u32 * 64 + bit);
            }
        }
        None
    }

    /// Calls `f` with each item from the greatest down, and leaves the set empty. `f` may put in further items
    /// below the one it was called with.
    ///
    /// It tries every number in a word that has any, instead of computing the next: a processor then runs ahead
    /// to the next item while the last is still in work, which halves the time of a walk through a long chain.
    #[inline]
    pub(crate) fn drain_down(&mut self, mut f: impl FnMut(&mut BitSet, u32)) {
        for word in (0..self.words.len()).rev() {
            if self.words[word] == 0 {
                continue;
            }
            for bit in (0..64).rev() {
                if self.words[word] >> bit & 1 == 1 {
                    f(self, word as u32 * 64 + bit);
                }
            }
        }
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
    }
}

#[inline]
fn split(item: u32) -> (usize, u64) {
    (item as usize / 64, 1 << (item % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(items: &[u32]) -> BitSet {
        let mut set = BitSet::new();
        items.iter().for_each(|&item| assert!(set.insert(item)));
        set
    }

    #[test]
    fn pops_from_either_end_in_order() {
        let items = [0, 5, 63, 64, 127, 1000];
        let mut up = set(&items);
        let mut down = set(&items);
        assert!(!up.insert(64), "already there");
        let mut least = 0;
        let popped: Vec<u32> = std::iter::from_fn(|| up.pop_first(least).inspect(|&item| least = item)).collect();
        assert_eq!(popped, items);
        let mut drained = Vec::new();
        down.drain_down(|_, item| drained.push(item));
        assert_eq!(drained, [1000, 127, 64, 63, 5, 0]);
        assert_eq!(down.pop_first(0), None);
    }

    #[test]
    fn draining_meets_items_put_in_on_the_way() {
        let mut drained = Vec::new();
        set(&[200]).drain_down(|set, item| {
            drained.push(item);
            if item > 0 {
                set.insert(item - 1);
                set.insert(item / 2);
            }
        });
        assert_eq!(drained, (0..=200).rev().collect::<Vec<u32>>());
    }
}
