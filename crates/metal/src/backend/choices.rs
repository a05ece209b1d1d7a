//! Which kernels run where several can.

use minfer_graph::Attention;

use crate::ops::flash_decode;

/// Kernels to use where several can. The default has the fastest; the others compute the same in other ways, to
/// compare with and to find a faulty one by.
///
/// Whatever is chosen, a row's bits do not depend on the rows beside it. They differ between choices by the
/// order of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoices {
    /// Multiply prompt rows by `gemm_TYPE`; otherwise as generated rows are, up to eight at a time.
    pub gemm: bool,
    /// Attention of generated rows with heads of 64 or 128 features by `flash_decode_FORMAT`.
    pub flash_decode: bool,
    /// Most chunks that `flash_decode_FORMAT` cuts a row's window into, 1 to [`flash_decode::MOST_CHUNKS`]; `None`
    /// for the most. Other numbers are refused when an attention runs.
    pub attention_chunks: Option<usize>,
}

impl Default for KernelChoices {
    fn default() -> Self {
        KernelChoices {
            gemm: true,
            flash_decode: true,
            attention_chunks: None,
        }
    }
}

/// Kernels for attention of generated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratedAttention {
    /// By chunks of a window, at most so many.
    Flash { chunks: usize },
    /// Of any shape.
    Classic,
}

impl KernelChoices {
    /// What attention of generated rows runs by.
    pub(super) fn of_generated(&self, attention: &Attention) -> GeneratedAttention {
        if self.flash_decode && flash_decode::serves(attention) {
            let chunks = self.attention_chunks.unwrap_or(flash_decode::MOST_CHUNKS);
            return GeneratedAttention::Flash { chunks };
        }
        GeneratedAttention::Classic
    }
}
