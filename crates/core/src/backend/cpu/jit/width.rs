//! How wide the lanes of a body are.

/// The width of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 8 bits: small integers and bools alone.
    Byte,
    /// 16 bits: integers of as many and bools, and the bits of floats.
    Word,
    /// 32 bits.
    #[default]
    Single,
    /// 64 bits.
    Double,
}

impl Width {
    /// Bytes of a lane.
    pub fn bytes(self) -> usize {
        match self {
            Width::Byte => 1,
            Width::Word => 2,
            Width::Single => 4,
            Width::Double => 8,
        }
    }

    /// Whether there are more lanes than a mask of 16 bits has.
    pub fn many(self) -> bool {
        matches!(self, Width::Byte | Width::Word)
    }

    /// Lanes of a vector.
    pub fn lanes(self) -> usize {
        64 / self.bytes()
    }
}
