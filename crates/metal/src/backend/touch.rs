//! Shared weights, mapped before the first step.

use super::MetalBackend;
use super::buffers::Pending;
use super::error::NodeError;
use crate::device::Device;
use crate::ops::touch;

impl<D: Device> MetalBackend<D> {
    /// Lets the device read every page of the shared weights, and waits for it.
    pub(super) fn touch_pages(&mut self) -> Result<(), NodeError> {
        let page_bytes = self.device().info().page_bytes;
        for part in self.weights.parts() {
            let bytes = touch::words(part, page_bytes);
            let words = self.buffers.alloc_scratch(&self.commands.device, bytes)?;
            self.buffers.mark(words, Pending::Writes);
            let range = self.buffers.range(words, 0, bytes)?;
            let encode = &mut self.commands.encode("touch weights")?;
            let touched = touch::touch_pages(encode, range, part);
            self.buffers.free(&self.commands.device, words);
            touched?;
        }
        self.submit()
    }
}
