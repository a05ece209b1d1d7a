//! Buffers: memory that the host and the GPU share.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block2::RcBlock;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::{MTLBuffer, MTLDevice, MTLHazardTrackingMode, MTLResource, MTLResourceOptions};

use super::{AppleDevice, Object};
use crate::device::queue::uses::Uses;
use crate::device::{Access, Buffer, BufferRange, DeviceError, StableBytes};

/// A buffer of a GPU. Clones are the same memory.
#[derive(Clone)]
pub struct AppleBuffer(Arc<Inner>);

struct Inner {
    device: AppleDevice,
    id: u64,
    label: String,
    bytes: usize,
    metal: Object<dyn MTLBuffer>,
    tracked: bool,
    writable: bool,
    /// Held while the host copies.
    uses: Mutex<Uses>,
}

// SAFETY: a Metal buffer is no thread's own. Its methods used here return constants, and its memory is reached
// through `host_access` only, under a lock.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl AppleBuffer {
    /// New memory. Metal clears it (documentation of `newBufferWithLength:options:`).
    pub(super) fn new(
        device: &AppleDevice,
        bytes: usize,
        label: &str,
        tracking: MTLHazardTrackingMode,
    ) -> Result<Self, DeviceError> {
        let error = |reason: String| DeviceError::Allocation {
            label: label.to_owned(),
            bytes,
            reason,
        };
        let most = device.0.info.max_buffer_bytes;
        if bytes == 0 || bytes > most {
            return Err(error(format!("a buffer has 1 to {most} bytes")));
        }
        let tracked = tracking != MTLHazardTrackingMode::Untracked;
        let mut options = MTLResourceOptions::StorageModeShared;
        if !tracked {
            options |= MTLResourceOptions::HazardTrackingModeUntracked;
        }
        let metal = autoreleasepool(|_| device.0.metal.newBufferWithLength_options(bytes, options));
        let metal = metal.ok_or_else(|| error("Metal gives no such buffer".to_owned()))?;
        Ok(Self::of(device, metal, bytes, label, tracked, true))
    }

    /// Existing memory.
    pub(super) fn wrap(
        device: &AppleDevice,
        memory: Arc<dyn StableBytes>,
        label: &str,
    ) -> Result<Self, DeviceError> {
        let page = device.0.info.page_bytes;
        let pointer = NonNull::from(memory.bytes());
        let (address, bytes) = (pointer.addr().get(), pointer.len());
        if bytes == 0 || !address.is_multiple_of(page) || !bytes.is_multiple_of(page) {
            return Err(DeviceError::Unaligned {
                label: label.to_owned(),
                address,
                length: bytes,
                page,
            });
        }
        let error = |reason: String| DeviceError::Allocation {
            label: label.to_owned(),
            bytes,
            reason,
        };
        let most = device.0.info.max_buffer_bytes;
        if bytes > most {
            return Err(error(format!("a buffer has at most {most} bytes")));
        }
        // Metal calls the block, then releases it, when the buffer and whatever uses it are gone.
        let deallocator = RcBlock::new(move |_: NonNull<_>, _: usize| {
            let _owner = &memory;
        });
        // SAFETY: the memory stays where it is for as long as the block lives (`StableBytes`), and kernels only
        // read it. The block owns a value that may be dropped on any thread.
        let metal = autoreleasepool(|_| unsafe {
            device
                .0
                .metal
                .newBufferWithBytesNoCopy_length_options_deallocator(
                    pointer.cast(),
                    bytes,
                    MTLResourceOptions::StorageModeShared,
                    Some(&deallocator),
                )
        });
        let metal = metal.ok_or_else(|| error("Metal does not share this memory".to_owned()))?;
        Ok(Self::of(device, metal, bytes, label, true, false))
    }

    fn of(
        device: &AppleDevice,
        metal: Object<dyn MTLBuffer>,
        bytes: usize,
        label: &str,
        tracked: bool,
        writable: bool,
    ) -> Self {
        metal.setLabel(Some(&NSString::from_str(label)));
        AppleBuffer(Arc::new(Inner {
            device: device.clone(),
            id: device.new_id(),
            label: label.to_owned(),
            bytes,
            metal,
            tracked,
            writable,
            uses: Mutex::default(),
        }))
    }

    pub(super) fn metal(&self) -> &ProtocolObject<dyn MTLBuffer> {
        &self.0.metal
    }

    /// Whether Metal orders encoders that use it.
    pub(super) fn is_tracked(&self) -> bool {
        self.0.tracked
    }

    /// An error unless the buffer is of this device.
    pub(super) fn check_device(&self, device: &AppleDevice) -> Result<(), DeviceError> {
        if self.0.device.is(device) {
            return Ok(());
        }
        Err(DeviceError::Encode {
            label: format!("buffer {}", self.0.label),
            message: "it belongs to another device".to_owned(),
        })
    }

    /// An error if it wraps memory.
    pub(super) fn check_writable(&self) -> Result<(), DeviceError> {
        if self.0.writable {
            return Ok(());
        }
        Err(DeviceError::ReadOnly {
            buffer: self.0.label.clone(),
        })
    }

    pub(super) fn busy(&self) -> DeviceError {
        DeviceError::Busy {
            buffer: self.0.label.clone(),
        }
    }

    pub(super) fn uses(&self) -> MutexGuard<'_, Uses> {
        // The counts are whole between statements.
        self.0.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a copy by the host and keeps others away while the guard lives.
    fn host_access(
        &self,
        offset: usize,
        bytes: usize,
        access: Access,
    ) -> Result<(*mut u8, MutexGuard<'_, Uses>), DeviceError> {
        let range = BufferRange {
            buffer: self,
            offset,
            bytes,
        };
        range.check()?;
        let uses = self.uses();
        if uses.conflict(access) {
            return Err(self.busy());
        }
        let start: *mut u8 = self.0.metal.contents().as_ptr().cast();
        Ok((start.wrapping_add(offset), uses))
    }
}

impl Buffer for AppleBuffer {
    fn id(&self) -> u64 {
        self.0.id
    }

    fn label(&self) -> &str {
        &self.0.label
    }

    fn bytes(&self) -> usize {
        self.0.bytes
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        let (from, _guard) = self.host_access(offset, into.len(), Access::Read)?;
        // SAFETY: the range lies in the buffer, whose memory is shared; no command buffer in flight writes it and
        // the guard keeps other copies and submissions away. `into` is borrowed alone, so it does not overlap.
        unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<(), DeviceError> {
        self.check_writable()?;
        let (to, _guard) = self.host_access(offset, from.len(), Access::Write)?;
        // SAFETY: as above, and no command buffer in flight uses it. Nobody has a reference to a buffer's own
        // memory, so `from` does not overlap.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }
}
