//! Metal backend: the device interface, hazard tracking, the kernels, the operations that dispatch them, and the
//! graph backend.
//!
//! [`device::Device`] has two implementations: `device::apple` for Apple's GPUs, which exists on their systems, and
//! the software device of `minfer-softmetal`, which runs the same kernels on a CPU and checks how they use memory.
//! Everything above the trait is the same for both.

pub mod arguments;
pub mod backend;
pub mod device;
pub mod hazard;
pub mod kernels;
pub mod metallib;
pub mod ops;
pub mod replay;
