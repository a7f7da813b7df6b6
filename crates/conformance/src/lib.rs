//! Conformance checks of gradus against recorded results of other frameworks.
//!
//! [`opinfo`] runs PyTorch's operator samples, forward and gradient.

pub mod against;
pub mod devices;
pub mod opinfo;
pub mod oracle;
pub mod programs;
