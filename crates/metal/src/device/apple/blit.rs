//! Blit encoders.

use objc2::rc::autoreleasepool;
use objc2_foundation::NSRange;
use objc2_metal::{MTLBlitCommandEncoder, MTLCommandBuffer};

use super::commands::{AppleCommandBuffer, Encoding, Fence};
use super::{AppleBuffer, AppleDevice};
use crate::device::{Access, BlitEncoder, BufferCopy, BufferRange, DeviceError, check};

/// A blit encoder of a GPU.
pub struct AppleBlitEncoder {
    encoding: Encoding<dyn MTLBlitCommandEncoder>,
    commands: AppleCommandBuffer,
    /// For the end, when buffers were used that Metal does not track.
    fence: Option<Fence>,
}

// SAFETY: as `AppleCommandBuffer`.
unsafe impl Send for AppleBlitEncoder {}

impl AppleBlitEncoder {
    pub(super) fn new(commands: AppleCommandBuffer) -> Result<Self, DeviceError> {
        let metal = autoreleasepool(|_| commands.metal().blitCommandEncoder());
        let metal = metal.ok_or_else(|| commands.error("Metal gives no blit encoder"))?;
        let encoding = Encoding::new(metal, commands.label());
        autoreleasepool(|_| {
            for fence in commands.awaited() {
                encoding.metal().waitForFence(fence);
            }
        });
        Ok(AppleBlitEncoder {
            encoding,
            commands,
            fence: None,
        })
    }

    fn touch(
        &mut self,
        range: &BufferRange<'_, AppleBuffer>,
        access: Access,
    ) -> Result<(), DeviceError> {
        self.commands.device.own(range.buffer)?;
        if access == Access::Write {
            range.buffer.check_writable()?;
        }
        self.commands.touch(range.buffer, access, &mut self.fence)
    }
}

impl BlitEncoder<AppleDevice> for AppleBlitEncoder {
    fn copy(&mut self, copy: BufferCopy<'_, AppleBuffer>) -> Result<(), DeviceError> {
        let (from, to) = (copy.from, check::copy(&copy)?);
        self.touch(&from, Access::Read)?;
        self.touch(&to, Access::Write)?;
        // Metal refuses an empty copy.
        if from.bytes > 0 {
            // SAFETY: both ranges lie in their buffers, are aligned and do not overlap; the command buffer holds them.
            autoreleasepool(|_| unsafe {
                self.encoding
                    .metal()
                    .copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                        from.buffer.metal(),
                        from.offset,
                        to.buffer.metal(),
                        to.offset,
                        from.bytes,
                    );
            });
        }
        Ok(())
    }

    fn fill(&mut self, range: BufferRange<'_, AppleBuffer>, value: u8) -> Result<(), DeviceError> {
        check::blit_range(&range)?;
        self.touch(&range, Access::Write)?;
        if range.bytes > 0 {
            let bytes = NSRange::new(range.offset, range.bytes);
            autoreleasepool(|_| {
                let metal = self.encoding.metal();
                metal.fillBuffer_range_value(range.buffer.metal(), bytes, value);
            });
        }
        Ok(())
    }

    fn end(self) -> AppleCommandBuffer {
        if let Some(fence) = &self.fence {
            autoreleasepool(|_| self.encoding.metal().updateFence(fence));
        }
        drop(self.encoding);
        self.commands
    }
}
