//! The kernels' sources.

use crate::arguments;
use crate::device::{LibrarySource, SourceError, SourceFile};

/// Version of Metal's language that the kernels are written in, major and minor; macOS 14 is the first that has it.
pub const MSL_VERSION: (u8, u8) = (3, 1);

macro_rules! kernel_files {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $constant: SourceFile<'static> = SourceFile {
                name: $name,
                text: include_str!(concat!("../kernels/", $name)),
            };
        )*
        /// Every kernel file.
        pub const ALL: &[SourceFile<'static>] = &[$($constant),*];
    };
}

kernel_files! {
    /// `attention_FORMAT` over windows of any layout, with heads of any shape.
    ATTENTION = "attention.metal";
    /// Operations on corresponding elements: `add`, `mul`, `scale`, `silu`, `swiglu`.
    ELEMENTWISE = "elementwise.metal";
    /// `flash_decode_FORMAT` of generated rows over chunks of their windows, and the `flash_decode_combine` of chunks.
    FLASH_DECODE = "flash_decode.metal";
    /// `flash_prefill_FORMAT` of the rows of a prompt.
    FLASH_PREFILL = "flash_prefill.metal";
    /// `fused_ffn` of generated rows: normalization, both products, activation.
    FUSED_FFN = "fused_ffn.metal";
    /// `fused_matmul` of generated rows: normalization, product, bias, residual.
    FUSED_MATMUL = "fused_matmul.metal";
    /// `fused_qkv` of generated rows: from normalization to the store of keys and values.
    FUSED_QKV = "fused_qkv.metal";
    /// `gemm_TYPE` of a weight and the rows of a prompt.
    GEMM = "gemm.metal";
    /// `kv_store_FORMAT` of keys or values.
    KV = "kv.metal";
    /// `kv_rotate_FORMAT` of stored keys.
    KV_ROTATE = "kv_rotate.metal";
    /// `kv_stage_q8_0` of cells for attention in f32.
    KV_STAGE = "kv_stage.metal";
    /// `matvec_TYPE` of a weight and a row of activations.
    MATVEC = "matvec.metal";
    /// `matvec_batch_TYPE` of a weight and up to eight rows of activations.
    MATVEC_BATCH = "matvec_batch.metal";
    /// `rms_norm` of rows or heads.
    NORM = "norm.metal";
    /// `rope` in both styles.
    ROPE = "rope.metal";
    /// `get_rows` of activations, `embed_TYPE` of weights.
    ROWS = "rows.metal";
    /// `split_scores_FORMAT` and `split_values_FORMAT`, attention of generated rows in two passes.
    SPLIT_ATTENTION = "split_attention.metal";
    /// `three_pass_scores_FORMAT`, `three_pass_weights` and `three_pass_outputs_FORMAT`, attention of prompt rows.
    THREE_PASS = "three_pass.metal";
    /// `touch_pages` of a memory.
    TOUCH = "touch.metal";
}

macro_rules! headers {
    ($($name:literal)*) => {
        /// Headers that kernel files include.
        const HEADERS: &[SourceFile<'static>] = &[
            arguments::HEADER,
            $(SourceFile {
                name: $name,
                text: include_str!(concat!("../kernels/", $name)),
            },)*
        ];
    };
}

headers! {
    "activations.h"
    "batches.h"
    "block_types.h"
    "blocks.h"
    "fused.h"
    "key_scores.h"
    "kv_cells.h"
    "norms.h"
    "products.h"
    "rotations.h"
    "slices.h"
    "tiles.h"
    "vectors.h"
    "windows.h"
}

/// A kernel file with its headers in place.
pub fn library(file: SourceFile<'_>) -> Result<LibrarySource, SourceError> {
    LibrarySource::new(file, HEADERS)
}
