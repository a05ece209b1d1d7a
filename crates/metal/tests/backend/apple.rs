//! A Mac's GPU, in the place of the software device.

use minfer_metal::device::DeviceError;
use minfer_metal::device::apple::AppleDevice;

/// The device that values are compared on; `None` where tests have nothing to run on.
pub fn fast_device() -> Option<AppleDevice> {
    let reason = match AppleDevice::system_default(Default::default()) {
        Ok(Some(device)) => return Some(device),
        Ok(None) => "there is no Metal device".to_owned(),
        Err(error @ DeviceError::Unsupported { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
    };
    let required = std::env::var_os("MINFER_REQUIRE_MPS").is_some();
    assert!(!required, "{reason}");
    None
}

/// The same: a GPU checks nothing.
pub fn checked_device() -> Option<AppleDevice> {
    fast_device()
}

pub fn assert_no_reports(_: &AppleDevice) {}
