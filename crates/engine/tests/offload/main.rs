//! Models on the software Metal device or on a Mac's GPU, wholly and in part.

#![cfg(any(
    all(feature = "softmetal", target_os = "linux"),
    target_vendor = "apple"
))]

mod company;
mod memory;
mod places;
mod refusals;
mod sessions;
#[cfg(target_os = "linux")]
mod software;
mod support;
mod values;
