//! A software Metal device.
//!
//! Runs compute kernels written in the Metal Shading Language on the CPU, and checks what they do with
//! memory: bounds, alignment, initialization, races, missing barriers, divergence.
//!
//! `docs/metal.md` explains how; the decision record is `docs/adr/0008-software-metal-device.md`.

#![cfg(target_os = "linux")]

mod check;
mod compile;
mod device;
mod estimate;
mod exec;
mod front;
pub mod lint;
mod module;
pub mod report;
mod shim;

pub use check::Counters;
pub use device::{
    KernelStatistics, Mode, Options, Profile, SoftBlitEncoder, SoftBuffer, SoftCommandBuffer,
    SoftComputeEncoder, SoftDevice, SoftLibrary, SoftPipeline, Statistics, Submissions,
};
pub use estimate::{Costs, Estimate};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
