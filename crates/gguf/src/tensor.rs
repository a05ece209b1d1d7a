//! A tensor's description and its bytes.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::TensorType;

/// Memory that the bytes of tensors lie in: a mapped or read file part, or a weight made in memory.
///
/// # Safety
///
/// Each function returns the same memory for as long as the value lives, nothing writes to it meanwhile, and
/// `pages` is empty or starts with `bytes`. Devices share the pages by their address.
pub unsafe trait Storage: Send + Sync {
    /// All bytes.
    fn bytes(&self) -> &[u8];

    /// Of memory that is mapped: the same bytes, and after them the rest of their last page where it may be read.
    /// Nothing of the allocator's memory, which devices must not share.
    fn pages(&self) -> &[u8] {
        &[]
    }
}

// SAFETY: a vector that is only lent out shared neither moves its elements nor changes them.
unsafe impl Storage for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Bytes that keep their backing storage alive.
#[derive(Clone)]
pub struct TensorBytes {
    storage: Arc<dyn Storage>,
    range: Range<usize>,
}

impl TensorBytes {
    /// Bytes `range` of `storage`; `None` when the storage is shorter than the range.
    pub fn new(storage: Arc<dyn Storage>, range: Range<usize>) -> Option<Self> {
        storage.bytes().get(range.clone())?;
        Some(TensorBytes { storage, range })
    }

    /// Owned bytes, for weights built in memory.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        TensorBytes {
            storage: Arc::new(bytes),
            range,
        }
    }

    /// What they are part of.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Where they are in [`Storage::bytes`].
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl Deref for TensorBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage.bytes()[self.range.clone()]
    }
}

impl std::fmt::Debug for TensorBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TensorBytes({:?})", self.range)
    }
}

/// A named tensor with its bytes. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name as the file gives it, for example `blk.0.attn_q.weight`.
    pub name: String,
    /// Element type.
    pub ty: TensorType,
    /// Dimensions, innermost (contiguous) first: a weight is `[in, out]`.
    pub shape: Vec<usize>,
    /// Elements in row order, `shape[0]` per row.
    pub bytes: TensorBytes,
}
