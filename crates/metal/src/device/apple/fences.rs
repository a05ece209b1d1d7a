//! Order between encoders for buffers that Metal does not track.

use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLDevice, MTLFence};

use super::Object;

pub(super) type Fence = Object<dyn MTLFence>;

/// Fences of a command buffer.
#[derive(Default)]
pub(super) struct Fences {
    /// Of the encoders since the last point of order.
    open: Vec<Fence>,
    /// Of the encoders that those to come must wait for.
    awaited: Vec<Fence>,
}

impl Fences {
    /// Encoders to come wait for those that have ended. Encoders before the point before last were waited for by
    /// those in between; where there are none in between, they still must be.
    pub(super) fn order(&mut self) {
        if !self.open.is_empty() {
            self.awaited = std::mem::take(&mut self.open);
        }
    }

    /// What a new encoder must wait for.
    pub(super) fn awaited(&self) -> &[Fence] {
        &self.awaited
    }

    /// A fence for an encoder to update at its end.
    pub(super) fn add(&mut self, device: &ProtocolObject<dyn MTLDevice>) -> Option<Fence> {
        let fence = device.newFence()?;
        self.open.push(fence.clone());
        Some(fence)
    }
}
