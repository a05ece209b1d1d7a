//! Matrix products for prompt rows.
//!
//! A thread takes a range of output rows. For up to 128 of them at a time it dequantizes a slice of the weight
//! rows (at most [`kernel::Kernel::DEPTH`] columns) into packed panels, multiplies them with the same slice of all
//! prompt rows while they are in the second-level cache, and goes on to the next slice; blocks of the
//! product wait in between as f32. Every element of the product is one sum over the columns in their
//! order, whatever the number of rows, the range of outputs or the number of threads.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod float;
mod kernel;
mod packed_rows;
mod precision;
mod product;
#[cfg(test)]
mod tests;
mod tile;

use std::ops::Range;

use minfer_gguf::TensorType;

use super::out_rows::OutRows;
use crate::isa::Isa;
use product::Product;

pub(crate) use packed_rows::PackedRows;
pub use precision::PrefillPrecision;
pub(crate) use product::TileScratch;

/// Evaluates an expression with `$kernel` naming the kernel of a level.
macro_rules! with_kernel {
    ($isa:expr, $kernel:ident => $body:expr) => {
        match $isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => {
                type $kernel = $crate::matmul::prefill::amx::Amx;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                type $kernel = $crate::matmul::prefill::avx512::Avx512;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                type $kernel = $crate::matmul::prefill::float::Avx2;
                $body
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => {
                type $kernel = $crate::matmul::prefill::float::Neon;
                $body
            }
            _ => {
                type $kernel = $crate::matmul::prefill::float::Scalar;
                $body
            }
        }
    };
}
use with_kernel;

/// Output rows whose panels are multiplied together: the more, the less often the activations stream
/// by.
const CHUNK: usize = 128;

/// Output rows that a thread should take at a time of a weight with `outputs` of them. Half a chunk
/// still shares small weights out evenly.
pub(crate) fn part(outputs: usize) -> usize {
    if outputs < 16 * CHUNK {
        CHUNK / 2
    } else {
        CHUNK
    }
}

/// A weight of `[width, outputs]` elements.
#[derive(Clone, Copy)]
pub(crate) struct Weight<'a> {
    /// Element type, one that [`crate::dequant::dequantizer`] knows.
    pub ty: TensorType,
    /// All rows.
    pub bytes: &'a [u8],
    /// Elements of a row.
    pub width: usize,
}

/// Sets outputs `outputs` of every row to the product of the weight and the packed activations, in
/// the instructions that these are packed for.
///
/// # Safety
/// No other thread accesses these outputs.
///
/// # Panics
/// When shapes disagree or the weight's type has no kernel.
pub(crate) unsafe fn gemm(
    weight: Weight<'_>,
    outputs: Range<usize>,
    x: &PackedRows,
    out: OutRows<'_>,
    scratch: &mut TileScratch,
) {
    let isa = x.isa();
    let product = Product::new(weight, x, out);
    assert!(outputs.end <= product.outputs());
    for start in outputs.clone().step_by(CHUNK) {
        let chunk = start..outputs.end.min(start + CHUNK);
        // SAFETY: rows are packed only for available levels; the outputs are ours.
        with_kernel!(isa, K => unsafe { product.chunk::<K>(chunk, scratch) });
    }
}
