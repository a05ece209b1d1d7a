//! Metal backend: the device interface, hazard tracking and the kernels.
//!
//! A [`device::Device`] is Apple's or the software device of `minfer-softmetal`, which runs the same
//! kernels on a CPU and checks how they use memory. Everything above the trait is the same for both.

pub mod arguments;
pub mod device;
pub mod hazard;
pub mod kernels;
