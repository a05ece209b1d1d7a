//! A Mac's GPU, in the place of the software device.

use minfer_metal::device::apple::AppleDevice;

#[path = "../mac/mod.rs"]
mod mac;

/// The device that values are compared on; `None` where tests have nothing to run on.
pub use mac::device as fast_device;

/// The same: a GPU checks nothing.
pub use mac::device as checked_device;

pub fn assert_no_reports(_: &AppleDevice) {}
