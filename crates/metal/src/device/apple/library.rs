//! Libraries.

use std::sync::Arc;

use dispatch2::DispatchData;
use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::{NSObjectProtocol, ProtocolObject};
use objc2::sel;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLCompileOptions, MTLDevice, MTLLanguageVersion, MTLLibrary, MTLMathFloatingPointFunctions,
    MTLMathMode,
};

use super::{Object, message};
use crate::device::DeviceError;
use crate::kernels::MSL_VERSION;

/// A compiled library. Clones are the same library.
#[derive(Clone)]
pub struct AppleLibrary {
    name: Arc<str>,
    metal: Object<dyn MTLLibrary>,
}

impl AppleLibrary {
    pub(super) fn compile(
        device: &ProtocolObject<dyn MTLDevice>,
        name: &str,
        source: &str,
    ) -> Result<Self, DeviceError> {
        autoreleasepool(|_| {
            let source = NSString::from_str(source);
            let library =
                device.newLibraryWithSource_options_error(&source, Some(&compile_options()));
            let library = library.map_err(|error| DeviceError::Compile {
                library: name.to_owned(),
                message: message(&error),
            });
            Ok(Self::new(name, library?))
        })
    }

    pub(super) fn load(
        device: &ProtocolObject<dyn MTLDevice>,
        name: &str,
        metallib: &[u8],
    ) -> Result<Self, DeviceError> {
        autoreleasepool(|_| {
            let data = DispatchData::from_bytes(metallib);
            let library = device.newLibraryWithData_error(&data);
            let library = library.map_err(|error| DeviceError::Library {
                library: name.to_owned(),
                message: message(&error),
            });
            Ok(Self::new(name, library?))
        })
    }

    fn new(name: &str, metal: Object<dyn MTLLibrary>) -> Self {
        metal.setLabel(Some(&NSString::from_str(name)));
        AppleLibrary {
            name: name.into(),
            metal,
        }
    }

    /// Name of the source.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the kernels.
    pub fn kernels(&self) -> Vec<String> {
        autoreleasepool(|_| {
            let names = self.metal.functionNames();
            names.iter().map(|name| name.to_string()).collect()
        })
    }

    pub(super) fn metal(&self) -> &ProtocolObject<dyn MTLLibrary> {
        &self.metal
    }
}

/// Metal's default, fast math, assumes that there are no infinities and NaNs and divides by approximate
/// reciprocals. Softmax starts from -inf, a NaN must not be hidden, and q8_0 rows must be the CPU's to the bit. A
/// kernel that wants an approximation asks for it with `fast::`.
fn compile_options() -> Retained<MTLCompileOptions> {
    let options = MTLCompileOptions::new();
    let (major, minor) = MSL_VERSION;
    // Metal's encoding of versions (`MTLLanguageVersion3_1` and its like).
    let version = usize::from(major) << 16 | usize::from(minor);
    options.setLanguageVersion(MTLLanguageVersion(version));
    if options.respondsToSelector(sel!(setMathMode:)) {
        options.setMathMode(MTLMathMode::Safe);
        options.setMathFloatingPointFunctions(MTLMathFloatingPointFunctions::Precise);
    } else {
        #[expect(deprecated, reason = "there is no math mode before macOS 15")]
        options.setFastMathEnabled(false);
    }
    options
}
