//! The graph backend: on the software device, which also checks it, and on a Mac's GPU where there is one
//! (`MINFER_REQUIRE_MPS=1` makes its absence a failure).

#![cfg(any(target_os = "linux", target_vendor = "apple"))]

mod accuracy;
mod alternatives;
#[cfg(target_os = "linux")]
mod cells;
#[cfg(target_os = "linux")]
mod choices;
#[cfg(target_os = "linux")]
mod decoder;
#[cfg(target_os = "linux")]
mod dispatch_log;
#[cfg(target_os = "linux")]
mod dispatches;
#[cfg(target_os = "linux")]
mod failing;
#[cfg(target_os = "linux")]
mod footprints;
#[cfg(target_os = "linux")]
mod fused_decode;
#[cfg(target_os = "linux")]
mod fused_nodes;
#[cfg(target_os = "linux")]
mod guards;
mod kv_formats;
#[cfg(target_os = "linux")]
#[path = "../log/mod.rs"]
mod log;
#[cfg(target_os = "linux")]
mod lost;
#[cfg(target_os = "linux")]
mod memory;
mod models;
#[cfg(target_os = "linux")]
mod nodes;
mod operations;
mod real;
#[cfg(target_os = "linux")]
mod refused;
mod sequences;
#[cfg(target_os = "linux")]
mod software;
mod splits;
#[cfg(target_os = "linux")]
mod traces;
#[cfg(target_os = "linux")]
mod whole;

use std::time::Duration;

use minfer_metal::backend::{KernelChoices, MetalBackend, MetalOptions};
use minfer_metal::device::Device;
#[cfg(target_vendor = "apple")]
use minfer_metal::device::apple::AppleDevice;

/// The device that values are compared on.
#[cfg(target_os = "linux")]
fn fast_device() -> Option<minfer_softmetal::SoftDevice> {
    Some(software::device(minfer_softmetal::Mode::Unchecked))
}

#[cfg(target_vendor = "apple")]
fn fast_device() -> Option<AppleDevice> {
    let device = AppleDevice::system_default(Default::default());
    let found = device.as_ref().is_ok_and(Option::is_some);
    let required = std::env::var_os("MINFER_REQUIRE_MPS").is_some();
    assert!(found || !required, "no Metal device that kernels run on");
    device.ok().flatten()
}

fn backend<D: Device>(device: D) -> MetalBackend<D> {
    backend_of(device, KernelChoices::default())
}

fn backend_of<D: Device>(device: D, kernels: KernelChoices) -> MetalBackend<D> {
    // The software device is slow where it checks, and tests share their processors.
    let options = MetalOptions {
        submit_limit: Duration::from_secs(120),
        kernels,
        ..MetalOptions::default()
    };
    MetalBackend::new(device, options)
}
