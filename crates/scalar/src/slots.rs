//! A map from tape slots to numbers: as quick as an array for a graph that fills the tape, and no larger than
//! the graph for one that does not.

const PAGE: usize = 256;

struct Page<T> {
    present: [u64; PAGE / 64],
    items: [T; PAGE],
}

/// A sparse array in pages. A plain array over all slots would make a ten-node backward pass pay for a million
/// unrelated live nodes; a hash map would cost a large graph more than the differentiation itself.
pub(crate) struct SlotMap<T> {
    pages: Vec<Option<Box<Page<T>>>>,
}

impl<T: Copy + Default> SlotMap<T> {
    pub(crate) fn new() -> Self {
        SlotMap { pages: Vec::new() }
    }

    /// What was put in for `slot`, or `None` if nothing was.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<T> {
        let (page, at) = split(slot);
        let page = self.pages.get(page)?.as_ref()?;
        (page.present[at / 64] >> (at % 64) & 1 == 1).then(|| page.items[at])
    }

    /// The place for `slot`, put in as the default if it was absent.
    #[inline]
    pub(crate) fn entry(&mut self, slot: u32) -> &mut T {
        let (index, at) = split(slot);
        if !matches!(self.pages.get(index), Some(Some(_))) {
            self.add_page(index);
        }
        let page = self.pages[index].as_mut().expect("the page was just made");
        page.present[at / 64] |= 1 << (at % 64);
        &mut page.items[at]
    }

    #[cold]
    fn add_page(&mut self, index: usize) {
        if self.pages.len() <= index {
            self.pages.resize_with(index + 1, || None);
        }
        self.pages[index] = Some(Box::new(Page { present: [0; PAGE / 64], items: [T::default(); PAGE] }));
    }
}

#[inline]
fn split(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE, slot as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_nothing_else() {
        let mut map = SlotMap::new();
        for slot in [0, 63, 64, 255, 256, 70_000] {
            *map.entry(slot) += f64::from(slot) + 0.5;
        }
        assert_eq!(map.get(64), Some(64.5));
        assert_eq!(map.get(70_000), Some(70_000.5));
        assert_eq!(map.get(1), None);
        assert_eq!(map.get(69_999), None);
        assert_eq!(map.get(u32::MAX), None);
        assert_eq!(map.pages.iter().flatten().count(), 3);
    }
}
