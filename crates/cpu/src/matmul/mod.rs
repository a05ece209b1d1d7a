//! Products of weights and activations: prompt rows through [`prefill`], generated rows through
//! [`decode`], whatever their number.

mod decode;
mod out_rows;
mod prefill;

use std::ops::Range;

use minfer_gguf::TensorType;

use crate::dequant::dequantizer;
use crate::view::{MatMut, MatRef};
use crate::{Isa, Pool};
use decode::{ActivationKind, Activations, OutPart, QuantizedRows, Weights};
use out_rows::OutRows;
use prefill::{PackedRows, TileScratch};

pub(crate) use decode::MatvecError as MatmulError;
pub use prefill::PrefillPrecision;

/// Bytes of weights that a thread takes at a time for generated rows: enough to hide the hand-over,
/// little enough to share out evenly.
const DECODE_BYTES: usize = 32 * 1024;
/// Output rows of such a part are a multiple of this, so that two threads share no cache line.
const DECODE_ROWS: usize = 16;

/// A weight `[in_dim, out_dim]` in the blocks of its file.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    pub(crate) ty: TensorType,
    pub(crate) bytes: &'a [u8],
    pub(crate) in_dim: usize,
    pub(crate) out_dim: usize,
}

/// One of the products that share their activations.
pub(crate) struct Product<'a> {
    pub(crate) weight: Matrix<'a>,
    /// `[out_dim, rows]`.
    pub(crate) out: MatMut<'a>,
}

/// Memory that products reuse, in the format that their precision asks for.
pub(crate) struct Scratch {
    packed: PackedRows,
    quantized: QuantizedRows,
    workers: Vec<TileScratch>,
}

impl Scratch {
    /// Memory of products whose prompt rows have this precision.
    pub(crate) fn new(prefill: PrefillPrecision) -> Self {
        Scratch {
            packed: PackedRows::new(prefill),
            quantized: QuantizedRows::default(),
            workers: Vec::new(),
        }
    }
}

/// Whether weights of this type can be multiplied.
pub(crate) fn is_supported(ty: TensorType) -> bool {
    dequantizer(Isa::Scalar, ty).is_some() && ActivationKind::of(ty).is_some()
}

/// `out = weight^T x` for every product, in one parallel region per role.
///
/// The leading `prompt_rows` rows are prompt rows. A row's result depends neither on the others nor on
/// the products computed beside it.
///
/// # Safety
/// Nothing writes the elements between the rows of `x`, and nothing accesses those between the rows
/// of an output.
pub(crate) unsafe fn multiply<const N: usize>(
    isa: Isa,
    pool: &Pool,
    x: MatRef<'_>,
    prompt_rows: usize,
    mut products: [Product<'_>; N],
    scratch: &mut Scratch,
) -> Result<(), MatmulError> {
    let weights = products.each_ref().map(|product| product.weight);
    let rows = x.rows();
    let prompt = prompt_rows.min(rows);
    if prompt > 0 {
        let x = x.slice_rows(0..prompt);
        // SAFETY: by this function's contract, which covers the elements between the rows.
        unsafe {
            let outs = out_rows(&mut products, 0..prompt);
            multiply_prompt(isa, pool, x, &weights, &outs, scratch);
        }
    }
    for first in (prompt..rows).step_by(decode::MAX_ROWS) {
        let part = first..rows.min(first + decode::MAX_ROWS);
        // SAFETY: by this function's contract.
        let outs = unsafe { out_rows(&mut products, part.clone()) };
        multiply_generated(isa, pool, x.slice_rows(part), &weights, &outs, scratch)?;
    }
    Ok(())
}

/// # Safety
/// Nothing accesses the elements between the rows while the result is in use.
unsafe fn out_rows<'a, const N: usize>(
    products: &'a mut [Product<'_>; N],
    rows: Range<usize>,
) -> [OutRows<'a>; N] {
    products.each_mut().map(|product| {
        let out = product.out.slice_rows(rows.clone());
        let (width, rows, stride) = (out.width(), out.rows(), out.stride());
        // SAFETY: by this function's contract.
        OutRows::new(unsafe { out.span_mut() }, width, rows, stride)
    })
}

/// Output rows of several products one after the other, cut into parts that stay within a product.
struct Parts<const N: usize> {
    outputs: [usize; N],
    lengths: [usize; N],
}

impl<const N: usize> Parts<N> {
    fn new(weights: &[Matrix<'_>; N], length: impl Fn(&Matrix<'_>) -> usize) -> Self {
        Parts {
            outputs: weights.each_ref().map(|w| w.out_dim),
            lengths: weights.each_ref().map(|w| length(w).max(1)),
        }
    }

    fn count(&self) -> usize {
        let parts = self.outputs.iter().zip(&self.lengths);
        parts
            .map(|(outputs, length)| outputs.div_ceil(*length))
            .sum()
    }

    /// Product and outputs of part `index`, which must be below `count`.
    fn locate(&self, mut index: usize) -> (usize, Range<usize>) {
        let mut product = 0;
        loop {
            let length = self.lengths[product];
            let parts = self.outputs[product].div_ceil(length);
            if index < parts {
                let start = index * length;
                return (product, start..(start + length).min(self.outputs[product]));
            }
            index -= parts;
            product += 1;
        }
    }
}

/// # Safety
/// Nothing writes the elements between the rows of `x`.
unsafe fn multiply_prompt<const N: usize>(
    isa: Isa,
    pool: &Pool,
    x: MatRef<'_>,
    weights: &[Matrix<'_>; N],
    outs: &[OutRows<'_>; N],
    scratch: &mut Scratch,
) {
    // SAFETY: by this function's contract.
    let span = unsafe { x.span() };
    let packer = scratch
        .packed
        .packer(isa, span, x.stride(), x.rows(), x.width());
    pool.for_each_chunk(packer.groups(), 1, |groups| {
        // SAFETY: chunks are disjoint.
        unsafe { packer.pack(groups) }
    });
    let packed = &scratch.packed;
    scratch
        .workers
        .resize_with(pool.threads(), TileScratch::default);
    let parts = Parts::new(weights, |weight| prefill::part(weight.out_dim));
    pool.for_each_chunk_with(&mut scratch.workers, parts.count(), 1, |scratch, range| {
        for part in range {
            let (product, outputs) = parts.locate(part);
            let Matrix {
                ty, bytes, in_dim, ..
            } = weights[product];
            let weight = prefill::Weight {
                ty,
                bytes,
                width: in_dim,
            };
            // SAFETY: parts are disjoint.
            unsafe { prefill::gemm(weight, outputs, packed, outs[product], scratch) };
        }
    });
}

/// At most [`decode::MAX_ROWS`] rows.
fn multiply_generated<const N: usize>(
    isa: Isa,
    pool: &Pool,
    x: MatRef<'_>,
    weights: &[Matrix<'_>; N],
    outs: &[OutRows<'_>; N],
    scratch: &mut Scratch,
) -> Result<(), MatmulError> {
    for weight in weights {
        // The one thing a kernel refuses once shapes agree, found before threads start.
        Weights::new(weight.ty, weight.bytes, weight.in_dim)?;
    }
    let is_int8 = |w: &Matrix<'_>| ActivationKind::of(w.ty) == Some(ActivationKind::Int8);
    if weights.iter().any(is_int8) {
        scratch.quantized.quantize(isa, x);
    }
    let quantized = &scratch.quantized;
    let parts = Parts::new(weights, |weight| {
        let row_bytes = weight.bytes.len() / weight.out_dim.max(1);
        (DECODE_BYTES / row_bytes.max(1)).next_multiple_of(DECODE_ROWS)
    });
    pool.for_each_chunk(parts.count(), 1, |range| {
        for part in range {
            let (product, outputs) = parts.locate(part);
            let weight = &weights[product];
            let activations = match is_int8(weight) {
                true => Activations::Int8(quantized),
                false => Activations::F32(x),
            };
            // SAFETY: parts are disjoint.
            let mut out = unsafe { OutPart::new(outs[product], outputs) };
            Weights::new(weight.ty, weight.bytes, weight.in_dim)
                .and_then(|weights| decode::matvec(isa, weights, activations, &mut out))
                .expect("the weights were accepted before, and shapes agree");
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_products_once() {
        let matrix = |out_dim| Matrix {
            ty: TensorType::F32,
            bytes: &[],
            in_dim: 1,
            out_dim,
        };
        let parts = Parts::new(&[matrix(100), matrix(0), matrix(64), matrix(1)], |_| 32);
        let found: Vec<_> = (0..parts.count()).map(|i| parts.locate(i)).collect();
        let want = [
            (0, 0..32),
            (0, 32..64),
            (0, 64..96),
            (0, 96..100),
            (2, 0..32),
            (2, 32..64),
            (3, 0..1),
        ];
        assert_eq!(found, want);
    }
}
