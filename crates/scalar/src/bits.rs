//! A set of slots, one bit each.

/// A growable set of small numbers that is quick to scan in order from either end.
///
/// Each bit of `summary` stands for a word of 64 items, and is set if that word may have any. A scan thus passes
/// over 4096 absent items at a step, and a few items among millions are found quickly.
#[derive(Default)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl BitSet {
    pub(crate) const fn new() -> Self {
        BitSet { words: Vec::new(), summary: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, item: u32) {
        let word = item as usize / 64;
        if word >= self.words.len() {
            self.grow(word);
        }
        self.words[word] |= 1 << (item % 64);
        self.summary[word / 64] |= 1 << (word % 64);
    }

    #[cold]
    fn grow(&mut self, word: usize) {
        let summary = word / 64 + 1;
        self.words.resize(summary * 64, 0);
        self.summary.resize(summary, 0);
    }

    /// Takes out the least item. No item may be below `from`, which is where the search begins.
    #[inline]
    pub(crate) fn pop_first(&mut self, from: u32) -> Option<u32> {
        for (i, summary) in self.summary.iter_mut().enumerate().skip(from as usize / 4096) {
            while *summary != 0 {
                let word = i * 64 + summary.trailing_zeros() as usize;
                let bits = &mut self.words[word];
                if *bits != 0 {
                    let bit = bits.trailing_zeros();
                    *bits &= *bits - 1;
                    return Some(word as u32 * 64 + bit);
                }
                *summary &= *summary - 1;
            }
        }
        None
    }

    /// Calls `f` with each item from the greatest down, and leaves the set empty. `f` may put in further items
    /// below the one it was called with.
    ///
    /// It tries every number in a word that has any, instead of computing the next: a processor then runs ahead
    /// to the next item while the last is still in work, where it would otherwise wait for each.
    #[inline]
    pub(crate) fn drain_down(&mut self, mut f: impl FnMut(&mut BitSet, u32)) {
        for i in (0..self.summary.len()).rev() {
            if self.summary[i] == 0 {
                continue;
            }
            for word in (i * 64..(i + 1) * 64).rev() {
                if self.words[word] == 0 {
                    continue;
                }
                for bit in (0..64).rev() {
                    if self.words[word] >> bit & 1 == 1 {
                        f(self, word as u32 * 64 + bit);
                    }
                }
                self.words[word] = 0;
            }
            self.summary[i] = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.summary.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(items: &[u32]) -> BitSet {
        let mut set = BitSet::new();
        items.iter().for_each(|&item| set.insert(item));
        set
    }

    #[test]
    fn gives_items_from_either_end_in_order() {
        let items = [0, 5, 63, 64, 127, 1000, 4095, 4096, 70_000];
        let mut up = set(&items);
        let mut down = set(&items);
        let mut least = 0;
        let popped: Vec<u32> = std::iter::from_fn(|| up.pop_first(least).inspect(|&item| least = item)).collect();
        assert_eq!(popped, items);
        let mut drained = Vec::new();
        down.drain_down(|_, item| drained.push(item));
        drained.reverse();
        assert_eq!(drained, items);
        assert_eq!(down.pop_first(0), None, "drained is empty");
    }

    #[test]
    fn draining_meets_items_put_in_on_the_way() {
        let mut drained = Vec::new();
        set(&[9000]).drain_down(|set, item| {
            drained.push(item);
            if item > 0 {
                set.insert(item - 1);
                set.insert(item / 2);
            }
        });
        assert_eq!(drained, (0..=9000).rev().collect::<Vec<u32>>());
    }

    #[test]
    fn an_emptied_word_can_be_filled_again() {
        let mut set = set(&[70]);
        assert_eq!((set.pop_first(0), set.pop_first(0)), (Some(70), None));
        set.insert(71);
        assert_eq!((set.pop_first(0), set.pop_first(0)), (Some(71), None));
    }
}
