//! Decides whether what a kernel does with memory is allowed.
//!
//! Two accesses conflict when they touch a byte, one of them writes, and they are not both atomic. They
//! must be ordered: by a thread's own program, or by a barrier whose flags name the memory, within the
//! threads it waits for. Nothing orders threadgroups of one dispatch; only a barrier of the encoder
//! orders dispatches of a concurrent one.

mod arena;
mod counters;
mod findings;
mod footprint;
mod intervals;
mod order;
mod regions;
mod shadow;
mod watch;

pub(crate) use arena::Arena;
pub use counters::Counters;
pub(crate) use findings::{Finding, Memory, Site};
pub(crate) use footprint::{Footprint, Overlap};
pub(crate) use intervals::Intervals;
pub(crate) use order::{Agent, Epochs, Passed};
pub(crate) use regions::{Device, Private, Region, Regions};
pub(crate) use watch::{Announced, Verdict, Watch};
