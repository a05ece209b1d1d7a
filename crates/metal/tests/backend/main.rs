//! The graph backend on the software device.

#![cfg(target_os = "linux")]

mod memory;
mod models;
mod nodes;
mod operations;

use std::path::Path;
use std::time::Duration;

use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_softmetal::report::Report;
use minfer_softmetal::{Mode, Options, SoftDevice};

/// A device whose compiled kernels all tests share.
fn device(mode: Mode) -> SoftDevice {
    SoftDevice::new(Options {
        mode,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    })
}

fn backend(device: &SoftDevice) -> MetalBackend<SoftDevice> {
    // The software device is slow where it checks, and tests share their processors.
    let options = MetalOptions {
        submit_limit: Duration::from_secs(120),
        ..MetalOptions::default()
    };
    MetalBackend::new(device.clone(), options)
}

fn assert_no_reports(device: &SoftDevice) {
    let reports = device.take_reports();
    let texts: Vec<_> = reports.iter().map(Report::to_string).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}
