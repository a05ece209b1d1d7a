//! A tensor's description and its bytes.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::TensorType;

/// Bytes that keep their backing storage (a mapped or read file part) alive.
#[derive(Clone)]
pub struct TensorBytes {
    storage: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl TensorBytes {
    /// Bytes `range` of `storage`; `None` when the storage is shorter than the range.
    pub fn new(storage: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Option<Self> {
        (*storage).as_ref().get(range.clone())?;
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
}

impl Deref for TensorBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &(*self.storage).as_ref()[self.range.clone()]
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
