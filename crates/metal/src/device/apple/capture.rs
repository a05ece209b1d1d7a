//! GPU traces for Xcode.

use std::path::Path;

use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSString, NSURL};
use objc2_metal::{MTLCaptureDescriptor, MTLCaptureDestination, MTLCaptureManager, MTLDevice};

use super::message;
use crate::device::DeviceError;

/// A GPU trace of what a device does, written until this is dropped.
pub(super) struct Capture(());

impl Capture {
    /// Starts writing to `path`, where nothing may be yet.
    pub(super) fn start(
        device: &ProtocolObject<dyn MTLDevice>,
        path: &Path,
    ) -> Result<Self, DeviceError> {
        let error = |message: &str| DeviceError::Capture {
            path: path.display().to_string(),
            message: message.to_owned(),
        };
        let text = path
            .to_str()
            .ok_or_else(|| error("the path is not Unicode"))?;
        // Metal's own message says no more than that there is something.
        if path.exists() {
            return Err(error("it exists"));
        }
        autoreleasepool(|_| {
            // SAFETY: a class method without preconditions.
            let manager = unsafe { MTLCaptureManager::sharedCaptureManager() };
            if !manager.supportsDestination(MTLCaptureDestination::GPUTraceDocument) {
                return Err(error(
                    "Metal captures to files only in processes that are started with MTL_CAPTURE_ENABLED=1",
                ));
            }
            let descriptor = MTLCaptureDescriptor::new();
            // SAFETY: a device is one of the objects that can be captured (documentation of `captureObject`).
            unsafe { descriptor.setCaptureObject(Some(device.as_ref())) };
            descriptor.setDestination(MTLCaptureDestination::GPUTraceDocument);
            let url = NSURL::fileURLWithPath(&NSString::from_str(text));
            descriptor.setOutputURL(Some(&url));
            manager
                .startCaptureWithDescriptor_error(&descriptor)
                .map_err(|cause| error(&message(&cause)))
        })?;
        tracing::info!(path = text, "capturing the GPU's work");
        Ok(Capture(()))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        autoreleasepool(|_| {
            // SAFETY: as above.
            unsafe { MTLCaptureManager::sharedCaptureManager() }.stopCapture();
        });
    }
}
