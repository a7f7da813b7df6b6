//! Conformance checks of gradus against recorded results of other frameworks.
//!
//! [`opinfo`] runs PyTorch's operator samples, forward and gradient; [`fuzz`] damages files for every reader.

pub mod against;
pub mod devices;
pub mod fuzz;
pub mod opinfo;
pub mod oracle;
pub mod programs;
pub mod relay;
