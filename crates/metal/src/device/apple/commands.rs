//! Command buffers: submission and its bounded wait.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use block2::RcBlock;
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder, MTLCommandQueue, MTLDevice,
    MTLFence,
};

use super::{AppleBlitEncoder, AppleBuffer, AppleComputeEncoder, AppleDevice, Object, message};
use crate::device::queue::fences::Fences;
use crate::device::queue::slots::{Slot, Slots};
use crate::device::{Access, Buffer, CommandBuffer, DeviceError, Order, RecentLabels};

pub(super) type Fence = Object<dyn MTLFence>;

/// A command buffer of a GPU.
pub struct AppleCommandBuffer {
    metal: Object<dyn MTLCommandBuffer>,
    pub(super) device: AppleDevice,
    label: String,
    /// What its encoders touch, by buffer.
    touched: HashMap<u64, Use>,
    fences: Fences<Fence>,
    pub(super) recent: RecentLabels,
    slot: Slot,
}

// SAFETY: Metal's command buffers and encoders belong to no thread, they only must not be used by two at a time. A
// value is used through `&mut` or by value, and nothing else refers to its objects before they are committed.
unsafe impl Send for AppleCommandBuffer {}

impl AppleCommandBuffer {
    pub(super) fn new(device: &AppleDevice, label: &str) -> Result<Self, DeviceError> {
        let error = |message: String| DeviceError::Encode {
            label: label.to_owned(),
            message,
        };
        let slot = device.0.slots.take().ok_or_else(|| {
            let most = Slots::MOST;
            error(format!(
                "{most} command buffers have not completed or are not submitted"
            ))
        })?;
        // Metal's own reference to what a command buffer uses is what keeps memory alive after a time-out: never
        // `commandBufferWithUnretainedReferences`.
        let metal = autoreleasepool(|_| {
            let metal = device.0.queue.commandBuffer()?;
            metal.setLabel(Some(&NSString::from_str(label)));
            Some(metal)
        });
        let metal = metal.ok_or_else(|| error("Metal gives no command buffer".to_owned()))?;
        Ok(AppleCommandBuffer {
            metal,
            device: device.clone(),
            label: label.to_owned(),
            touched: HashMap::new(),
            fences: Fences::default(),
            recent: RecentLabels::default(),
            slot,
        })
    }

    pub(super) fn metal(&self) -> &ProtocolObject<dyn MTLCommandBuffer> {
        &self.metal
    }

    pub(super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn awaited(&self) -> &[Fence] {
        self.fences.awaited()
    }

    /// An error of an encoder of this command buffer.
    pub(super) fn error(&self, message: &str) -> DeviceError {
        DeviceError::Encode {
            label: self.label.clone(),
            message: message.to_owned(),
        }
    }

    /// Notes that an encoder uses a buffer. `fence` is the encoder's, made here when Metal does not track the buffer.
    pub(super) fn touch(
        &mut self,
        buffer: &AppleBuffer,
        access: Access,
        fence: &mut Option<Fence>,
    ) -> Result<(), DeviceError> {
        if !buffer.is_tracked() && fence.is_none() {
            let added = autoreleasepool(|_| self.device.0.metal.newFence());
            let added = added.ok_or_else(|| self.error("Metal gives no fence"))?;
            self.fences.add(added.clone());
            *fence = Some(added);
        }
        let touched = self.touched.entry(buffer.id()).or_insert_with(|| Use {
            buffer: buffer.clone(),
            access,
        });
        if access == Access::Write {
            touched.access = access;
        }
        Ok(())
    }
}

impl CommandBuffer<AppleDevice> for AppleCommandBuffer {
    type Compute = AppleComputeEncoder;
    type Blit = AppleBlitEncoder;

    fn compute(self, order: Order) -> Result<AppleComputeEncoder, DeviceError> {
        AppleComputeEncoder::new(self, order)
    }

    fn blit(self) -> Result<AppleBlitEncoder, DeviceError> {
        AppleBlitEncoder::new(self)
    }

    fn fence(&mut self) {
        self.fences.order();
    }

    fn submit(self, limit: Duration) -> Result<(), DeviceError> {
        let in_flight = InFlight::begin(self.touched)?;
        // Fences too: nothing says that Metal's command buffers keep them.
        let held = Mutex::new(Some((in_flight, self.fences, self.slot)));
        let (send, outcome) = sync_channel(1);
        let handler = RcBlock::new(
            move |metal: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
                // SAFETY: Metal hands over the command buffer that completed, which lives during the call.
                let outcome = self::outcome(unsafe { metal.as_ref() });
                // Before the outcome: who waits for it may touch the buffers.
                drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
                // The receiver is gone after a time-out.
                let _ = send.try_send(outcome);
            },
        );
        autoreleasepool(|_| {
            // SAFETY: the block is valid, Metal copies it, and what it owns may be used and dropped on any thread.
            unsafe { self.metal.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            self.metal.commit();
        });
        drop(handler);
        let (label, recent) = (self.label, self.recent.into_vec());
        let message = match outcome.recv_timeout(limit) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(message)) => message,
            Err(RecvTimeoutError::Timeout) => {
                return Err(DeviceError::TimedOut {
                    label,
                    limit,
                    recent,
                });
            }
            Err(RecvTimeoutError::Disconnected) => "Metal never called its handler".to_owned(),
        };
        Err(DeviceError::Failed {
            label,
            message,
            recent,
        })
    }
}

/// How a command buffer ended, in Metal's words where it failed.
fn outcome(metal: &ProtocolObject<dyn MTLCommandBuffer>) -> Result<(), String> {
    autoreleasepool(|_| match metal.status() {
        MTLCommandBufferStatus::Completed => Ok(()),
        status => Err(metal.error().map_or_else(
            || format!("it ended in {status:?} without an error"),
            |error| message(&error),
        )),
    })
}

/// What a command buffer does with a buffer.
struct Use {
    buffer: AppleBuffer,
    access: Access,
}

/// Uses by a submitted command buffer, noted at the buffers until this is dropped.
struct InFlight(Vec<Use>);

impl InFlight {
    /// Fails where a command buffer in flight uses a buffer that Metal does not track, and one of the two writes.
    fn begin(touched: HashMap<u64, Use>) -> Result<Self, DeviceError> {
        let mut begun = InFlight(Vec::with_capacity(touched.len()));
        for touched in touched.into_values() {
            let mut uses = touched.buffer.uses();
            if !touched.buffer.is_tracked() && uses.conflict(touched.access) {
                return Err(touched.buffer.busy());
            }
            uses.begin(touched.access);
            drop(uses);
            begun.0.push(touched);
        }
        Ok(begun)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        for used in &self.0 {
            used.buffer.uses().end(used.access);
        }
    }
}

/// An encoder that ends when dropped: Metal ends the process when one is released before its end.
pub(super) struct Encoding<E: ?Sized>(Object<E>)
where
    ProtocolObject<E>: MTLCommandEncoder;

impl<E: ?Sized> Encoding<E>
where
    ProtocolObject<E>: MTLCommandEncoder,
{
    pub(super) fn new(metal: Object<E>, label: &str) -> Self {
        autoreleasepool(|_| metal.setLabel(Some(&NSString::from_str(label))));
        Encoding(metal)
    }

    pub(super) fn metal(&self) -> &ProtocolObject<E> {
        &self.0
    }
}

impl<E: ?Sized> Drop for Encoding<E>
where
    ProtocolObject<E>: MTLCommandEncoder,
{
    fn drop(&mut self) {
        autoreleasepool(|_| self.0.endEncoding());
    }
}
