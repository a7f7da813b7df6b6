//! The names of variables.

/// Long enough for the names people give, and for [`Name`] to be no larger than a `String`.
const SHORT: usize = 22;

/// A short name is kept in place, since an allocation would cost more than all else a variable does.
enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

impl Name {
    #[inline]
    fn new(text: &str) -> Name {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Name::Short { len: text.len() as u8, bytes }
            }
            None => Name::Long(text.into()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Name::Short { len, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*len)]).expect("copied whole from a str")
            }
            Name::Long(text) => text,
        }
    }
}

/// A slab of names.
pub(crate) struct Names {
    names: Vec<Name>,
    free: Vec<u32>,
}

impl Names {
    pub(crate) const fn new() -> Self {
        Names { names: Vec::new(), free: Vec::new() }
    }

    /// Keeps a name, and gives its place.
    #[inline]
    pub(crate) fn insert(&mut self, text: &str) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.names[place as usize] = Name::new(text);
                place
            }
            None => {
                self.names.push(Name::new(text));
                (self.names.len() - 1) as u32 // each belongs to a node, and those are fewer than 2^32
            }
        }
    }

    pub(crate) fn get(&self, place: u32) -> &str {
        self.names[place as usize].text()
    }

    /// Lets a name go. A long one stays in memory until its place is taken.
    #[inline]
    pub(crate) fn remove(&mut self, place: u32) {
        self.free.push(place);
    }

    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.free.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_come_back_whole() {
        let mut names = Names::new();
        let texts = ["", "x", "Größe", &"é".repeat(11), &"é".repeat(12), &"long".repeat(100)];
        let places = texts.map(|text| names.insert(text));
        assert_eq!(places.map(|place| names.get(place)), texts);
        assert_eq!(size_of::<Name>(), 24);
    }

    #[test]
    fn places_are_reused() {
        let mut names = Names::new();
        let first = names.insert("a name too long to keep in place");
        names.remove(first);
        assert_eq!(names.insert("b"), first);
        assert_eq!(names.get(first), "b");
    }
}
