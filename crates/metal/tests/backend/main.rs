//! The graph backend: on the software device, which also checks it, and on a Mac's GPU where there is one
//! (`MINFER_REQUIRE_MPS=1` makes its absence a failure). Elsewhere the latter is only type-checked.

#![cfg(any(target_os = "linux", target_vendor = "apple"))]

mod accuracy;
mod alternatives;
#[cfg(any(target_vendor = "apple", minfer_check_apple))]
mod apple;
mod cells;
mod choices;
mod decoder;
mod dispatch_log;
mod dispatches;
mod failing;
mod fused_decode;
mod fused_nodes;
mod guards;
mod kv_formats;
#[path = "../log/mod.rs"]
mod log;
mod lost;
mod memory;
mod models;
mod nodes;
mod operations;
mod real;
mod refused;
mod sequences;
#[cfg(not(any(target_vendor = "apple", minfer_check_apple)))]
mod software;
mod splits;
mod traces;
mod whole;

use std::time::Duration;

use minfer_metal::backend::{KernelChoices, MetalBackend, MetalOptions};
use minfer_metal::device::Device;

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
use apple::{assert_no_reports, checked_device, fast_device};
#[cfg(not(any(target_vendor = "apple", minfer_check_apple)))]
use software::{assert_no_reports, checked_device, fast_device};

fn options() -> MetalOptions {
    MetalOptions {
        // The software device is slow where it checks, and tests share their processors.
        submit_limit: Duration::from_secs(120),
        ..MetalOptions::default()
    }
}

fn backend<D: Device>(device: D) -> MetalBackend<D> {
    MetalBackend::new(device, options())
}

fn backend_of<D: Device>(device: D, kernels: KernelChoices) -> MetalBackend<D> {
    let options = MetalOptions {
        kernels,
        ..options()
    };
    MetalBackend::new(device, options)
}
