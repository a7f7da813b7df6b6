//! How wide the lanes of a body are.

/// The width of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// 8 bits: small integers and bools alone.
    Byte,
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
            Width::Single => 4,
            Width::Double => 8,
        }
    }

    /// Lanes of a vector.
    pub fn lanes(self) -> usize {
        64 / self.bytes()
    }
}
