//! Models on the software Metal device, wholly and in part.

#![cfg(all(feature = "softmetal", target_os = "linux"))]

mod company;
mod memory;
mod places;
mod refusals;
mod sessions;
mod support;
mod values;
