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

    /// Takes out the greatest item. Costs as many steps as there are empty words above it, once for each.
    #[inline]
    pub(crate) fn pop_last(&mut self) -> Option<u32> {
        loop {
            let word = self.words.last_mut()?;
            if *word != 0 {
                let bit = 63 - word.leading_zeros();
                *word ^= 1 << bit;
                return Some((self.words.len() - 1) as u32 * 64 + bit);
            }
            self.words.pop();
        }
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
        let popped: Vec<u32> = std::iter::from_fn(|| down.pop_last()).collect();
        assert_eq!(popped, [1000, 127, 64, 63, 5, 0]);
    }

    #[test]
    fn can_grow_again_after_shrinking() {
        let mut set = set(&[1000]);
        assert_eq!((set.pop_last(), set.pop_last()), (Some(1000), None));
        assert!(set.insert(70) && set.insert(1000));
        assert_eq!(set.pop_first(0), Some(70));
    }
}
