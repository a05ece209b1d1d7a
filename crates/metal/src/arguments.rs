//! Argument structs of kernels, declared once for Rust and MSL.

use crate::device::SourceFile;

/// A field of an argument struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, the same on both sides.
    pub name: &'static str,
    /// First byte in the Rust struct.
    pub offset: usize,
}

/// An argument struct that exists on both sides.
///
/// # Safety
///
/// The type must be `repr(C)`, without padding and made of numbers only: its bytes are sent to the device.
pub unsafe trait KernelArguments: Copy {
    /// Name in MSL.
    const NAME: &'static str;
    /// Fields in order.
    const FIELDS: &'static [Field];

    /// The bytes to bind.
    fn as_bytes(&self) -> &[u8] {
        let size = std::mem::size_of::<Self>();
        // SAFETY: the trait's contract rules out padding, so that every byte is initialized.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size) }
    }
}

/// Fields are 4 bytes wide, so both languages lay them out one after the other.
macro_rules! kernel_arguments {
    ($($(#[$doc:meta])* struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ident,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, PartialEq)]
            pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }

            const _: () = assert!(std::mem::size_of::<$name>() == 4 * [$(stringify!($field)),*].len());

            // SAFETY: `repr(C)` with 4-byte numbers only; the assertion rules out padding and other sizes.
            unsafe impl KernelArguments for $name {
                const NAME: &'static str = stringify!($name);
                const FIELDS: &'static [Field] = &[$(Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                },)*];
            }
        )*
        /// The declarations in MSL, for `#include "arguments.h"`.
        pub const HEADER: SourceFile<'static> = SourceFile {
            name: "arguments.h",
            text: concat!($("struct ", stringify!($name), " {\n",
                $("    ", msl!($ty), " ", stringify!($field), ";\n",)* "};\n",)*),
        };
    };
}

macro_rules! msl {
    (u32) => {
        "uint"
    };
    (i32) => {
        "int"
    };
    (f32) => {
        "float"
    };
}

kernel_arguments! {
    /// Operation on corresponding elements of `[width, rows]` values.
    struct Elementwise {
        /// Features per row.
        width: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of the first operand.
        a_stride: u32,
        /// Elements between rows of the second operand; 0 to use one row for all.
        b_stride: u32,
        /// Factor, where the operation has one.
        factor: f32,
    }

    /// RMS normalization of rows, or of heads within rows.
    struct Norm {
        /// Features that are normalized together.
        width: u32,
        /// Such groups per row.
        heads: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Added to the mean square.
        eps: f32,
    }

    /// Rotary position embedding of the heads of rows.
    struct Rope {
        /// Heads per row.
        heads: u32,
        /// Features per head.
        head_dim: u32,
        /// Leading features of a head that are rotated, even.
        n_rot: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of the input.
        x_stride: u32,
    }

    /// Rows stored into the cells of a KV region.
    struct KvStore {
        /// Features per row.
        width: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
    }

    /// Rotation of stored keys.
    struct KvRotate {
        /// Rotated pairs of a head.
        pairs: u32,
        /// Features per head.
        head_dim: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
    }

    /// Attention of rows of queries over the cells of a KV region.
    struct Attention {
        /// Query heads that share a key and value head.
        group: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of queries.
        q_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Factor on the scores.
        scale: f32,
    }

    /// Attention of generated rows over a chunk of their windows.
    struct FlashDecode {
        /// Query heads that share a key and value head.
        group: u32,
        /// Query heads of a row.
        heads: u32,
        /// Partials of a row's head, those that it has no chunk for too.
        chunks: u32,
        /// Elements between rows of queries.
        q_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Factor on the scores.
        scale: f32,
    }

    /// Rows of attention from the partials of their chunks.
    struct FlashCombine {
        /// Query heads of a row.
        heads: u32,
        /// Partials of a row's head, those that it has no chunk for too.
        chunks: u32,
        /// Elements between rows of the output.
        y_stride: u32,
    }

    /// Attention of the rows of a prompt.
    struct FlashPrefill {
        /// Query heads that share a key and value head.
        group: u32,
        /// Rows of queries.
        rows: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of queries.
        q_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Factor on the scores.
        scale: f32,
    }

    /// Scores of generated rows, the first of two passes.
    struct SplitScores {
        /// Query heads that share a key and value head.
        group: u32,
        /// Query heads of a row.
        heads: u32,
        /// Blocks of keys that there is room for.
        blocks: u32,
        /// Elements between rows of queries.
        q_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Factor on the scores.
        scale: f32,
    }

    /// Values weighted by their scores, the second of two passes.
    struct SplitValues {
        /// Query heads that share a key and value head.
        group: u32,
        /// Query heads of a row.
        heads: u32,
        /// Blocks of keys that there is room for.
        blocks: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
    }

    /// Attention of prompt rows, each of three passes.
    struct ThreePass {
        /// Query heads that share a key and value head.
        group: u32,
        /// First head of the pass.
        first_head: u32,
        /// Rows of the pass.
        rows: u32,
        /// Scores that there is room for in a row.
        cells: u32,
        /// Elements between rows of queries.
        q_stride: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Factor on the scores.
        scale: f32,
    }

    /// Packed cells to f32.
    struct KvStage {
        /// Vectors of four features of a cell.
        vectors: u32,
        /// Bytes of a packed cell.
        cell_bytes: u32,
    }

    /// Rows of a weight picked by index.
    struct Embed {
        /// Features per row.
        width: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a row of the weight.
        row_bytes: u32,
    }

    /// Products of a weight and rows of activations.
    struct Product {
        /// Features per row of the input, elements per row of the weight.
        in_width: u32,
        /// Features per row of the output, rows of the weight.
        out_width: u32,
        /// Rows of the input.
        rows: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a row of the weight.
        row_bytes: u32,
    }

    /// Product of a weight and rows, with what stands before and after it in a layer.
    struct FusedMatMul {
        /// Features per row of the input, elements per row of the weight.
        in_width: u32,
        /// Features per row of the output, rows of the weight.
        out_width: u32,
        /// Rows of the output.
        rows: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of the residual.
        residual_stride: u32,
        /// Bytes of a row of the weight.
        row_bytes: u32,
        /// Added to the mean square of a row.
        eps: f32,
    }

    /// Gated half of a feed-forward network.
    struct FusedFfn {
        /// Features per row of the input, elements per row of the weights.
        in_width: u32,
        /// Features per row of the output, rows of the weights.
        out_width: u32,
        /// Rows of the input.
        rows: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a row of the gate's weight.
        gate_row_bytes: u32,
        /// Bytes of a row of the other weight.
        up_row_bytes: u32,
        /// Added to the mean square of a row.
        eps: f32,
    }

    /// Queries, and keys and values stored, of rows.
    struct FusedQkv {
        /// Features per row of the input, elements per row of the weights.
        in_width: u32,
        /// Query heads.
        q_heads: u32,
        /// Heads of keys, and of values.
        kv_heads: u32,
        /// Features per head.
        head_dim: u32,
        /// Leading features of a head that are rotated, even.
        n_rot: u32,
        /// Rows of the input.
        rows: u32,
        /// Elements between rows of the input.
        x_stride: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Bytes of a row of the queries' weight.
        q_row_bytes: u32,
        /// Bytes of a row of the keys' weight.
        k_row_bytes: u32,
        /// Bytes of a row of the values' weight.
        v_row_bytes: u32,
        /// Bytes of a cell.
        cell_bytes: u32,
        /// Added to the mean square of a row.
        eps: f32,
        /// Added to the mean square of a head of queries.
        q_eps: f32,
        /// Added to the mean square of a head of keys.
        k_eps: f32,
    }

    /// Rows of an activation picked by index.
    struct GetRows {
        /// Features per row.
        width: u32,
        /// Elements between rows of the output.
        y_stride: u32,
        /// Elements between rows of the source.
        x_stride: u32,
    }

    /// Words of a memory, one of each page.
    struct TouchPages {
        /// Pages.
        pages: u32,
        /// Words of a page.
        page_words: u32,
    }
}
