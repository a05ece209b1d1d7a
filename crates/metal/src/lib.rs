//! Metal backend: the device interface, hazard tracking and the kernels.
//!
//! [`device::Device`] is made for Apple's GPUs, of which there is no implementation yet, and for the software
//! device of `minfer-softmetal`, which runs the same kernels on a CPU and checks how they use memory.
//! Everything above the trait is the same for both.

pub mod arguments;
pub mod backend;
pub mod device;
pub mod hazard;
pub mod kernels;
pub mod ops;
pub mod replay;
