//! Data for gradus: what is embedded in the binary.

mod digits;

pub use digits::{Digits, digits};
