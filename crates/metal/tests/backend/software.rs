//! The software device and what it finds. Below are the tests that need its checker or its statistics.

mod footprints;
mod statistics;
mod unfinished;

use std::path::Path;

use minfer_softmetal::report::Report;
use minfer_softmetal::{Mode, Options, SoftDevice};

/// A device whose compiled kernels all tests share.
pub fn device(mode: Mode) -> SoftDevice {
    SoftDevice::new(Options {
        mode,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    })
}

/// The device that values are compared on.
pub fn fast_device() -> Option<SoftDevice> {
    Some(device(Mode::Unchecked))
}

/// A device that checks what kernels do.
pub fn checked_device() -> Option<SoftDevice> {
    Some(device(Mode::Checked))
}

pub fn assert_no_reports(device: &SoftDevice) {
    let reports = device.take_reports();
    let texts: Vec<_> = reports.iter().map(Report::to_string).collect();
    assert!(texts.is_empty(), "{}", texts.join("\n"));
}
