//! Apple's GPUs, by `objc2-metal`. Compiled for Apple's systems; elsewhere `scripts/check_apple.sh` type-checks it.
//!
//! # What the host may touch
//!
//! Buffers are shared memory, so a copy by the host must not race with the GPU. From its submission until Metal
//! calls its completion handler, a command buffer is noted at each buffer that its encoders named, and host accesses
//! that would race fail with [`DeviceError::Busy`]. After [`DeviceError::TimedOut`] that stays so until the GPU is
//! done or the system ends the work. Memory stays alive as long: Metal's command buffers hold what they use, a
//! wrapped memory's owner is held by its buffer, and the notes hold the buffers.
//!
//! # What is trusted
//!
//! A kernel is code without bounds checks in one address space with the process's shared buffers. That it stays
//! within the ranges that a dispatch declares, and ends, is for the kernel's author to prove, as for any `unsafe`
//! code; `minfer-softmetal` checks ours.

mod blit;
mod buffer;
mod capture;
mod commands;
mod compute;
mod info;
mod library;
mod pipeline;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSError, NSString};
use objc2_metal::{
    MTLCommandQueue, MTLCreateSystemDefaultDevice, MTLDevice, MTLHazardTrackingMode,
};

use super::{ConstantValue, Device, DeviceError, DeviceInfo, LibrarySource, StableBytes};

pub use blit::AppleBlitEncoder;
pub use buffer::AppleBuffer;
pub use commands::AppleCommandBuffer;
pub use compute::AppleComputeEncoder;
pub use library::AppleLibrary;
pub use pipeline::ApplePipeline;

use super::queue::slots::Slots;
use crate::metallib::Metallib;
use capture::Capture;

// `MTLCreateSystemDefaultDevice` finds no device on macOS unless Core Graphics is linked (Apple's documentation).
#[cfg_attr(target_os = "macos", link(name = "CoreGraphics", kind = "framework"))]
unsafe extern "C" {}

/// A Metal object.
type Object<P> = Retained<ProtocolObject<P>>;

/// The oldest family whose GPUs have what kernels use: reductions and matrices of simdgroups.
const MIN_FAMILY: u32 = 7;

/// How many command buffers the queue takes. For one more, Metal would wait without a limit. More than are given out,
/// since the queue may count one for a while after its handler was called.
const MAX_COMMAND_BUFFERS: usize = 2 * Slots::MOST;

/// Choices for a device.
#[derive(Clone, Debug, Default)]
pub struct AppleOptions {
    /// Where minfer's kernels are from.
    pub metallib: Metallib,
    /// Writes a GPU trace for Xcode, a `.gputrace`, from the start of the device until the last of its buffers is
    /// gone. Metal allows it to processes with `MTL_CAPTURE_ENABLED=1` in their environment.
    pub capture: Option<PathBuf>,
    /// Puts each dispatch into a debug group with its label, for captures in Xcode. Takes host time per dispatch.
    pub debug_groups: bool,
}

/// The system's default GPU. Clones are the same device.
#[derive(Clone)]
pub struct AppleDevice(Arc<Shared>);

struct Shared {
    metal: Object<dyn MTLDevice>,
    queue: Object<dyn MTLCommandQueue>,
    slots: Slots,
    info: DeviceInfo,
    metallib: Metallib,
    debug_groups: bool,
    next_id: AtomicU64,
    /// Ends with the device.
    _capture: Option<Capture>,
}

impl AppleDevice {
    /// The system's default GPU, `None` without one. Fails when it is older than the family Apple7, or an option
    /// cannot be followed.
    pub fn system_default(options: AppleOptions) -> Result<Option<Self>, DeviceError> {
        options.metallib.check()?;
        autoreleasepool(|_| {
            let Some(metal) = MTLCreateSystemDefaultDevice() else {
                return Ok(None);
            };
            let info = info::query(&metal)?;
            let unsupported = |reason: String| DeviceError::Unsupported {
                device: info.name.clone(),
                reason,
            };
            if info.apple_family.is_none_or(|family| family < MIN_FAMILY) {
                let family = info.apple_family.map_or_else(
                    || "no family of Apple GPUs".to_owned(),
                    |n| format!("family Apple{n}"),
                );
                return Err(unsupported(format!(
                    "it is of {family}, kernels need Apple{MIN_FAMILY} or later"
                )));
            }
            // Only command queues made afterwards are sure to be in it.
            let capture = options.capture.as_deref();
            let capture = capture
                .map(|path| Capture::start(&metal, path))
                .transpose()?;
            let queue = metal
                .newCommandQueueWithMaxCommandBufferCount(MAX_COMMAND_BUFFERS)
                .ok_or_else(|| unsupported("Metal gives no command queue".to_owned()))?;
            queue.setLabel(Some(&NSString::from_str("minfer")));
            Ok(Some(AppleDevice(Arc::new(Shared {
                metal,
                queue,
                slots: Slots::default(),
                info,
                metallib: options.metallib,
                debug_groups: options.debug_groups,
                next_id: AtomicU64::new(0),
                _capture: capture,
            }))))
        })
    }

    /// A library that `xcrun metal` compiled, from the bytes of its `.metallib` file. It must have been compiled
    /// with `-fno-fast-math`, as [`Device::library`] does.
    pub fn precompiled(&self, name: &str, metallib: &[u8]) -> Result<AppleLibrary, DeviceError> {
        AppleLibrary::load(&self.0.metal, name, metallib)
    }

    fn is(&self, other: &AppleDevice) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// An error unless the buffer is of this device.
    fn own(&self, buffer: &AppleBuffer) -> Result<(), DeviceError> {
        buffer.check_device(self)
    }

    fn new_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

impl Device for AppleDevice {
    type Buffer = AppleBuffer;
    type Library = AppleLibrary;
    type Pipeline = ApplePipeline;
    type CommandBuffer = AppleCommandBuffer;

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn buffer(&self, bytes: usize, label: &str) -> Result<AppleBuffer, DeviceError> {
        AppleBuffer::new(self, bytes, label, MTLHazardTrackingMode::Tracked)
    }

    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<AppleBuffer, DeviceError> {
        AppleBuffer::new(self, bytes, label, MTLHazardTrackingMode::Untracked)
    }

    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<AppleBuffer, DeviceError> {
        AppleBuffer::wrap(self, memory, label)
    }

    fn library(&self, source: &LibrarySource) -> Result<AppleLibrary, DeviceError> {
        match self.0.metallib.find(source)? {
            Some(compiled) => self.precompiled(source.name(), &compiled),
            None => AppleLibrary::compile(&self.0.metal, source.name(), source.text()),
        }
    }

    fn pipeline(
        &self,
        library: &AppleLibrary,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<ApplePipeline, DeviceError> {
        ApplePipeline::new(&self.0.metal, library, kernel, constants)
    }

    fn command_buffer(&self, label: &str) -> Result<AppleCommandBuffer, DeviceError> {
        AppleCommandBuffer::new(self, label)
    }
}

/// Metal's own words.
fn message(error: &NSError) -> String {
    autoreleasepool(|_| error.localizedDescription().to_string())
}
