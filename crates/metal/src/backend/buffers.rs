//! Buffers by number, from a pool.

use std::collections::HashMap;

use minfer_graph::{BufferId, Operand};

use super::error::NodeError;
use crate::device::{Buffer, BufferRange, Device, DeviceError};
use crate::ops::Rows;

/// Bytes of an operand's element.
const ELEMENT: usize = 4;
/// Smallest buffer, in bytes.
const SMALLEST: usize = 256;
/// Bytes that are zeroed at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// What encoded work does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pending {
    Nothing,
    Reads,
    Writes,
}

struct Slot<B> {
    buffer: B,
    /// Bytes asked for; the buffer may have more.
    bytes: usize,
    pending: Pending,
}

/// Buffers in use, and free ones kept for reuse by size class.
pub(super) struct Buffers<B> {
    slots: Vec<Option<Slot<B>>>,
    /// By size in bytes.
    free: HashMap<usize, Vec<B>>,
    /// Freed while encoded work uses them.
    retired: Vec<B>,
    /// Bytes of all of them.
    total: usize,
}

impl<B> Default for Buffers<B> {
    fn default() -> Self {
        Buffers {
            slots: Vec::new(),
            free: HashMap::new(),
            retired: Vec::new(),
            total: 0,
        }
    }
}

/// Size that a request is rounded up to: at most a quarter is lost, and later requests find it again.
fn class(bytes: usize) -> Option<usize> {
    let step = bytes.checked_next_power_of_two()? / 8;
    bytes
        .checked_next_multiple_of(step.max(SMALLEST))
        .map(|size| size.max(SMALLEST))
}

impl<B: Buffer> Buffers<B> {
    /// A zeroed buffer.
    pub(super) fn alloc<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        bytes: usize,
    ) -> Result<BufferId, DeviceError> {
        let (buffer, is_used) = self.take(device, bytes)?;
        if is_used {
            zero(&buffer, bytes)?;
        }
        Ok(self.insert(buffer, bytes))
    }

    /// A buffer whose contents mean nothing: a device that checks reports reads of what was not written since.
    pub(super) fn alloc_scratch<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        bytes: usize,
    ) -> Result<BufferId, DeviceError> {
        let (buffer, _) = self.take(device, bytes)?;
        device.discard(BufferRange::whole(&buffer))?;
        Ok(self.insert(buffer, bytes))
    }

    /// A buffer of the size that `bytes` are rounded up to, and whether it was in use before.
    fn take<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        bytes: usize,
    ) -> Result<(B, bool), DeviceError> {
        let too_large = || DeviceError::Allocation {
            label: "pool".to_owned(),
            bytes,
            reason: "more than an address space".to_owned(),
        };
        let size = class(bytes).ok_or_else(too_large)?;
        match self.free.get_mut(&size).and_then(Vec::pop) {
            Some(buffer) => Ok((buffer, true)),
            None => Ok((self.fresh(device, size)?, false)),
        }
    }

    /// A new buffer; free ones go where there is no room beside them.
    fn fresh<D: Device<Buffer = B>>(&mut self, device: &D, size: usize) -> Result<B, DeviceError> {
        let label = format!("pool of {size} bytes");
        let buffer = device.buffer(size, &label).or_else(|error| {
            let freed: usize = self
                .free
                .drain()
                .map(|(size, list)| size * list.len())
                .sum();
            self.total -= freed;
            if freed == 0 {
                return Err(error);
            }
            device.buffer(size, &label)
        })?;
        self.total += size;
        Ok(buffer)
    }

    fn insert(&mut self, buffer: B, bytes: usize) -> BufferId {
        let vacant = self.slots.iter().position(Option::is_none);
        let index = vacant.unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[index] = Some(Slot {
            buffer,
            bytes,
            pending: Pending::Nothing,
        });
        BufferId(index as u32)
    }

    /// Takes a buffer back, for reuse when encoded work is through with it.
    pub(super) fn free<D: Device<Buffer = B>>(&mut self, device: &D, id: BufferId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        match slot.pending {
            Pending::Nothing => self.keep(device, slot.buffer),
            Pending::Reads | Pending::Writes => self.retired.push(slot.buffer),
        }
    }

    fn keep<D: Device<Buffer = B>>(&mut self, device: &D, buffer: B) {
        // All of a buffer is in range.
        let _ = device.discard(BufferRange::whole(&buffer));
        self.free.entry(buffer.bytes()).or_default().push(buffer);
    }

    /// Nothing is encoded any more.
    pub(super) fn settle<D: Device<Buffer = B>>(&mut self, device: &D) {
        for slot in self.slots.iter_mut().flatten() {
            slot.pending = Pending::Nothing;
        }
        for buffer in std::mem::take(&mut self.retired) {
            self.keep(device, buffer);
        }
    }

    /// Bytes of all buffers, free ones too.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    fn slot(&self, id: BufferId) -> Result<&Slot<B>, NodeError> {
        let slot = self.slots.get(id.0 as usize).and_then(Option::as_ref);
        slot.ok_or(NodeError::NoBuffer(id))
    }

    /// What encoded work does with a buffer.
    pub(super) fn pending(&self, id: BufferId) -> Result<Pending, NodeError> {
        Ok(self.slot(id)?.pending)
    }

    /// Work that uses a buffer is about to be encoded.
    pub(super) fn mark(&mut self, id: BufferId, use_: Pending) {
        if let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            slot.pending = slot.pending.max(use_);
        }
    }

    /// `bytes` bytes from `offset` on, which were asked for.
    pub(super) fn range(
        &self,
        id: BufferId,
        offset: usize,
        bytes: usize,
    ) -> Result<BufferRange<'_, B>, NodeError> {
        let slot = self.slot(id)?;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > slot.bytes) {
            return Err(NodeError::Range {
                buffer: id,
                offset,
                bytes,
                size: slot.bytes,
            });
        }
        Ok(BufferRange {
            buffer: &slot.buffer,
            offset,
            bytes,
        })
    }

    /// An operand, all of it within the bytes asked for.
    pub(super) fn rows(&self, operand: &Operand) -> Result<Rows<'_, B>, NodeError> {
        let elements = span(operand).ok_or(NodeError::Rows(*operand))?;
        let offset = operand.offset.checked_mul(ELEMENT);
        let bytes = elements.checked_mul(ELEMENT);
        let (Some(offset), Some(bytes)) = (offset, bytes) else {
            return Err(NodeError::Rows(*operand));
        };
        Ok(Rows {
            buffer: self.range(operand.buffer, offset, bytes)?.buffer,
            offset: operand.offset,
            width: operand.width,
            stride: operand.stride,
            rows: operand.rows.total(),
        })
    }
}

fn zero<B: Buffer>(buffer: &B, bytes: usize) -> Result<(), DeviceError> {
    for offset in (0..bytes).step_by(ZEROS.len()) {
        buffer.write(offset, &ZEROS[..ZEROS.len().min(bytes - offset)])?;
    }
    Ok(())
}

/// Elements from the first to the last; `None` where rows overlap or their number overflows.
fn span(operand: &Operand) -> Option<usize> {
    let rows = operand.rows.total();
    if rows == 0 || operand.width == 0 {
        return Some(0);
    }
    if rows > 1 && operand.stride < operand.width {
        return None;
    }
    (rows - 1)
        .checked_mul(operand.stride)?
        .checked_add(operand.width)
}

/// How the elements of two operands relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No common element.
    Apart,
    /// The same elements.
    Same,
    /// Some common elements.
    Partial,
}

/// How two operands overlap. Rows of the same stride that take turns are apart.
pub(super) fn overlap(a: &Operand, b: &Operand) -> Overlap {
    let end = |x: &Operand| x.offset.saturating_add(span(x).unwrap_or(usize::MAX));
    if a.buffer != b.buffer || end(a) <= b.offset || end(b) <= a.offset {
        return Overlap::Apart;
    }
    if a == b {
        return Overlap::Same;
    }
    let (low, high) = if a.offset <= b.offset { (a, b) } else { (b, a) };
    if a.stride == b.stride && a.stride > 0 {
        let shift = (high.offset - low.offset) % a.stride;
        if low.width <= shift && shift + high.width <= a.stride {
            return Overlap::Apart;
        }
    }
    Overlap::Partial
}

#[cfg(test)]
mod tests {
    use minfer_graph::RowCount;

    use super::*;

    fn operand(offset: usize, width: usize, stride: usize, rows: usize) -> Operand {
        let rows = RowCount {
            prompt: rows,
            generated: 0,
        };
        Operand {
            buffer: BufferId(0),
            offset,
            width,
            stride,
            rows,
        }
    }

    #[test]
    fn rows_that_take_turns_are_apart() {
        let a = operand(0, 4, 8, 3);
        let elsewhere = Operand {
            buffer: BufferId(1),
            ..a
        };
        for (b, expected) in [
            (a, Overlap::Same),
            (elsewhere, Overlap::Apart),
            (operand(20, 4, 8, 3), Overlap::Apart),
            (operand(4, 4, 8, 3), Overlap::Apart),
            (operand(12, 4, 8, 3), Overlap::Apart),
            (operand(3, 4, 8, 3), Overlap::Partial),
            (operand(13, 4, 8, 3), Overlap::Partial),
            (operand(4, 2, 4, 3), Overlap::Partial),
        ] {
            assert_eq!(overlap(&a, &b), expected, "{b:?}");
            assert_eq!(overlap(&b, &a), expected, "{b:?}");
        }
        assert_eq!(span(&operand(9, 4, 3, 2)), None);
        assert_eq!(span(&operand(9, 4, 3, 1)), Some(4));
        assert_eq!(span(&operand(9, 1, usize::MAX, 3)), None);
    }

    #[test]
    fn classes_lose_at_most_a_quarter() {
        for bytes in [
            0,
            1,
            255,
            256,
            257,
            1000,
            4096,
            4097,
            1_000_000,
            (1 << 30) + 1,
        ] {
            let size = class(bytes).unwrap();
            assert!(size >= bytes && size >= SMALLEST && class(size) == Some(size));
            assert!(bytes < 2048 || size - bytes <= bytes / 4, "{bytes}: {size}");
        }
        assert_eq!(class(usize::MAX), None);
    }
}
