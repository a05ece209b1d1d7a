//! Buffers and the views that operands stand for.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use minfer_graph::{BufferId, Operand};

use crate::view::{MatMut, MatRef, span};

/// Bytes that every buffer is aligned to: a cache line, and the widest vector.
const ALIGNMENT: usize = 64;
/// Bytes of an operand's element.
const ELEMENT: usize = 4;

/// Why a buffer cannot be had or an operand does not fit one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BufferError {
    #[error("{bytes} bytes cannot be allocated")]
    Allocation { bytes: usize },
    #[error("{0:?} holds both keys and values")]
    Twice(BufferId),
    #[error("{0:?} does not exist")]
    Missing(BufferId),
    #[error("bytes {offset}..+{bytes} are outside {buffer:?} of {size} bytes")]
    Range {
        buffer: BufferId,
        offset: usize,
        bytes: usize,
        size: usize,
    },
    #[error("rows overlap in {0:?}")]
    Rows(Operand),
}

/// Zeroed memory. The allocator hands out large blocks as untouched pages, so a KV region costs
/// physical memory only where it is used; for that the alignment is made by hand.
struct Buffer {
    block: NonNull<u8>,
    layout: Layout,
    /// Start of the aligned part within the block.
    start: usize,
    size: usize,
}

// SAFETY: the memory is owned, and reached only through the owner.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new(bytes: usize) -> Result<Self, BufferError> {
        let failed = BufferError::Allocation { bytes };
        let size = match bytes.checked_next_multiple_of(ALIGNMENT) {
            Some(size) => size.max(ALIGNMENT),
            None => return Err(failed),
        };
        let layout = size
            .checked_add(ALIGNMENT)
            .and_then(|padded| Layout::from_size_align(padded, ELEMENT).ok());
        let Some(layout) = layout else {
            return Err(failed);
        };
        // SAFETY: the layout's size is not zero.
        let Some(block) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
            return Err(failed);
        };
        let start = block.as_ptr().addr().next_multiple_of(ALIGNMENT) - block.as_ptr().addr();
        Ok(Buffer {
            block,
            layout,
            start,
            size,
        })
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: `start` is below the alignment, which the block has in excess of `size`.
        unsafe { self.block.as_ptr().add(self.start) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

/// How the elements of two operands relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No element between the first and the last of one belongs to the other.
    Apart,
    /// No common element, but the rows alternate: two parts of the rows of one matrix.
    Interleaved,
    /// The same elements.
    Same,
    /// Some common elements.
    Partial,
}

/// The buffers of a backend.
#[derive(Default)]
pub(super) struct Buffers {
    slots: Vec<Option<Buffer>>,
}

impl Buffers {
    pub(super) fn alloc(&mut self, bytes: usize) -> Result<BufferId, BufferError> {
        let buffer = Buffer::new(bytes)?;
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or(self.slots.len());
        if index == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[index] = Some(buffer);
        Ok(BufferId(index as u32))
    }

    pub(super) fn free(&mut self, id: BufferId) {
        if let Some(slot) = self.slots.get_mut(id.0 as usize) {
            *slot = None;
        }
    }

    fn get(&self, id: BufferId) -> Result<&Buffer, BufferError> {
        let slot = self.slots.get(id.0 as usize).and_then(Option::as_ref);
        slot.ok_or(BufferError::Missing(id))
    }

    /// Start of `bytes` bytes from `offset` on.
    fn pointer(&self, id: BufferId, offset: usize, bytes: usize) -> Result<*mut u8, BufferError> {
        let buffer = self.get(id)?;
        let fits = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= buffer.size);
        if !fits {
            return Err(BufferError::Range {
                buffer: id,
                offset,
                bytes,
                size: buffer.size,
            });
        }
        // SAFETY: at most the end of the buffer.
        Ok(unsafe { buffer.base().add(offset) })
    }

    pub(super) fn bytes(
        &self,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&[u8], BufferError> {
        let base = self.pointer(id, offset, len)?;
        // SAFETY: initialized memory inside a live buffer; writers borrow `self` mutably.
        Ok(unsafe { std::slice::from_raw_parts(base, len) })
    }

    pub(super) fn bytes_mut(
        &mut self,
        id: BufferId,
        offset: usize,
        len: usize,
    ) -> Result<&mut [u8], BufferError> {
        let base = self.pointer(id, offset, len)?;
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        Ok(unsafe { std::slice::from_raw_parts_mut(base, len) })
    }

    /// The first `len` bytes of two buffers, which must differ.
    ///
    /// # Safety
    /// While the slices live, nothing else accesses the two buffers.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn region_mut(
        &self,
        keys: BufferId,
        values: BufferId,
        len: usize,
    ) -> Result<[&mut [u8]; 2], BufferError> {
        if keys == values {
            return Err(BufferError::Twice(keys));
        }
        let keys = self.pointer(keys, 0, len)?;
        let values = self.pointer(values, 0, len)?;
        // SAFETY: initialized memory of two live buffers, exclusive by this function's contract.
        Ok(unsafe {
            [
                std::slice::from_raw_parts_mut(keys, len),
                std::slice::from_raw_parts_mut(values, len),
            ]
        })
    }

    fn first_element<T>(&self, operand: &Operand) -> Result<*mut T, BufferError> {
        const { assert!(size_of::<T>() == ELEMENT && align_of::<T>() == ELEMENT) };
        let rows = operand.rows.total();
        if rows > 1 && operand.stride < operand.width {
            return Err(BufferError::Rows(*operand));
        }
        let bytes = span(operand.width, operand.stride, rows).and_then(|n| n.checked_mul(ELEMENT));
        let offset = operand.offset.checked_mul(ELEMENT);
        let (Some(bytes), Some(offset)) = (bytes, offset) else {
            return Err(BufferError::Rows(*operand));
        };
        Ok(self.pointer(operand.buffer, offset, bytes)?.cast())
    }

    /// An operand that is read, of f32 or i32 elements.
    pub(super) fn view<T: Element>(&self, operand: &Operand) -> Result<MatRef<'_, T>, BufferError> {
        let base = self.first_element::<T>(operand)?;
        let rows = operand.rows.total();
        // SAFETY: the elements are inside a live buffer, initialized (buffers start zeroed), and any
        // bits are a value. Only `view_mut` writes while `self` is borrowed shared; its callers keep
        // its operand apart from this one.
        Ok(unsafe { MatRef::from_raw(base, operand.width, operand.stride, rows) })
    }

    /// The operand that is written.
    ///
    /// # Safety
    /// While the view lives, no other view has an element in common with it.
    pub(super) unsafe fn view_mut(&self, operand: &Operand) -> Result<MatMut<'_>, BufferError> {
        let base = self.first_element::<f32>(operand)?;
        let rows = operand.rows.total();
        // SAFETY: as in `view`; exclusive by this function's contract.
        Ok(unsafe { MatMut::from_raw(base, operand.width, operand.stride, rows) })
    }
}

/// Element types of operands: 4 bytes, every bit pattern a value.
pub(super) trait Element: Copy {}
impl Element for f32 {}
impl Element for i32 {}

/// How two operands overlap.
pub(super) fn overlap(a: &Operand, b: &Operand) -> Overlap {
    let end = |x: &Operand| x.offset + span(x.width, x.stride, x.rows.total()).unwrap_or(0);
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
            return Overlap::Interleaved;
        }
    }
    Overlap::Partial
}

#[cfg(test)]
mod tests {
    use minfer_graph::RowCount;

    use super::*;

    fn operand(offset: usize, width: usize, stride: usize, rows: usize) -> Operand {
        Operand {
            buffer: BufferId(0),
            offset,
            width,
            stride,
            rows: RowCount {
                prompt: rows,
                generated: 0,
            },
        }
    }

    #[test]
    fn overlaps() {
        let a = operand(0, 4, 8, 3);
        for (b, want) in [
            (a, Overlap::Same),
            (operand(20, 4, 8, 3), Overlap::Apart),
            (operand(4, 4, 8, 3), Overlap::Interleaved),
            (operand(3, 4, 8, 3), Overlap::Partial),
            (operand(12, 4, 8, 3), Overlap::Interleaved),
            (operand(13, 4, 8, 3), Overlap::Partial),
            (operand(4, 2, 4, 3), Overlap::Partial),
        ] {
            assert_eq!(overlap(&a, &b), want, "{b:?}");
            assert_eq!(overlap(&b, &a), want, "{b:?}");
        }
    }

    #[test]
    fn buffers_are_aligned_zeroed_and_recycled() {
        let mut buffers = Buffers::default();
        let ids: Vec<_> = [1, 64, 100_000]
            .into_iter()
            .map(|n| buffers.alloc(n).expect("memory"))
            .collect();
        for &id in &ids {
            let bytes = buffers.bytes(id, 0, 64).expect("within the buffer");
            assert!(bytes.as_ptr().addr().is_multiple_of(64));
            assert!(bytes.iter().all(|&b| b == 0));
        }
        buffers.free(ids[1]);
        assert!(buffers.bytes(ids[1], 0, 1).is_err());
        assert_eq!(buffers.alloc(8), Ok(ids[1]));
        assert!(buffers.alloc(usize::MAX - 10).is_err());
    }

    #[test]
    fn operands_outside_their_buffer_are_refused() {
        let mut buffers = Buffers::default();
        buffers.alloc(64).expect("memory");
        assert!(buffers.view::<f32>(&operand(0, 4, 4, 4)).is_ok());
        for bad in [
            operand(1, 4, 4, 4),
            operand(0, 4, 3, 2),
            operand(usize::MAX, 1, 1, 1),
            operand(0, 1, usize::MAX, 3),
        ] {
            assert!(buffers.view::<f32>(&bad).is_err(), "{bad:?}");
        }
    }
}
