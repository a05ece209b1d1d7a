//! Reference conversion between f32 and the element types of tensors.
//!
//! Plain scalar code, the meaning of each format: SIMD and GPU kernels are tested against it. Block
//! layouts and rounding are those of the `*_ref` functions in ggml's `ggml-quants.c`; quantized bytes are
//! identical to llama.cpp's.

mod float;
mod iq4;
mod q2_k;
mod q3_k;
mod q4;
mod q4_k;
mod q5;
mod q5_k;
mod q6_k;
mod q8;
mod scale;
mod search;

use crate::TensorType;

pub use iq4::IQ4_NL_VALUES;

/// A conversion that cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantizeError {
    /// No conversion is implemented for the type.
    #[error("{ty} has no {conversion}")]
    Unsupported {
        /// The element type.
        ty: TensorType,
        /// "quantizer" or "dequantizer".
        conversion: &'static str,
    },
    /// The number of values is not a whole number of blocks.
    #[error("{len} values are not a whole number of {ty} blocks of {}", ty.block_len())]
    Length {
        /// The element type.
        ty: TensorType,
        /// Number of values.
        len: usize,
    },
    /// Bytes and values do not belong together.
    #[error("{values} values of {ty} are {expected} bytes, not {found}")]
    Bytes {
        /// The element type.
        ty: TensorType,
        /// Number of values.
        values: usize,
        /// Bytes of that many values.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
}

/// Elements of a K-quant super-block.
pub const SUPER_BLOCK: usize = 256;
/// Elements of a block of the simple formats and of IQ4_NL.
pub const BLOCK: usize = 32;

/// Converts whole blocks to f32, one value per element of `out`.
pub fn dequantize(ty: TensorType, bytes: &[u8], out: &mut [f32]) -> Result<(), QuantizeError> {
    let expected = ty
        .row_bytes(out.len())
        .ok_or(QuantizeError::Length { ty, len: out.len() })?;
    if bytes.len() != expected {
        return Err(QuantizeError::Bytes {
            ty,
            values: out.len(),
            expected,
            found: bytes.len(),
        });
    }
    match ty {
        TensorType::F32 => decode(bytes, out, float::decode_f32),
        TensorType::F16 => decode(bytes, out, float::decode_f16),
        TensorType::BF16 => decode(bytes, out, float::decode_bf16),
        TensorType::Q4_0 => decode(bytes, out, q4::decode_q4_0),
        TensorType::Q4_1 => decode(bytes, out, q4::decode_q4_1),
        TensorType::Q5_0 => decode(bytes, out, q5::decode_q5_0),
        TensorType::Q5_1 => decode(bytes, out, q5::decode_q5_1),
        TensorType::Q8_0 => decode(bytes, out, q8::decode_q8_0),
        TensorType::Q2_K => decode(bytes, out, q2_k::decode),
        TensorType::Q3_K => decode(bytes, out, q3_k::decode),
        TensorType::Q4_K => decode(bytes, out, q4_k::decode),
        TensorType::Q5_K => decode(bytes, out, q5_k::decode),
        TensorType::Q6_K => decode(bytes, out, q6_k::decode),
        TensorType::IQ4_NL => decode(bytes, out, iq4::decode_nl),
        TensorType::IQ4_XS => decode(bytes, out, iq4::decode_xs),
        _ => {
            return Err(QuantizeError::Unsupported {
                ty,
                conversion: "dequantizer",
            });
        }
    }
    Ok(())
}

/// Converts whole blocks from f32.
pub fn quantize(ty: TensorType, values: &[f32]) -> Result<Vec<u8>, QuantizeError> {
    let len = ty.row_bytes(values.len()).ok_or(QuantizeError::Length {
        ty,
        len: values.len(),
    })?;
    let mut out = vec![0; len];
    match ty {
        TensorType::F32 => encode(values, &mut out, float::encode_f32),
        TensorType::F16 => encode(values, &mut out, float::encode_f16),
        TensorType::BF16 => encode(values, &mut out, float::encode_bf16),
        TensorType::Q4_0 => encode(values, &mut out, q4::encode_q4_0),
        TensorType::Q4_1 => encode(values, &mut out, q4::encode_q4_1),
        TensorType::Q5_0 => encode(values, &mut out, q5::encode_q5_0),
        TensorType::Q5_1 => encode(values, &mut out, q5::encode_q5_1),
        TensorType::Q8_0 => encode(values, &mut out, q8::encode_q8_0),
        TensorType::Q2_K => encode(values, &mut out, q2_k::encode),
        TensorType::Q3_K => encode(values, &mut out, q3_k::encode),
        TensorType::Q4_K => encode(values, &mut out, q4_k::encode),
        TensorType::Q5_K => encode(values, &mut out, q5_k::encode),
        TensorType::Q6_K => encode(values, &mut out, q6_k::encode),
        TensorType::IQ4_NL => encode(values, &mut out, iq4::encode_nl),
        TensorType::IQ4_XS => encode(values, &mut out, iq4::encode_xs),
        _ => {
            return Err(QuantizeError::Unsupported {
                ty,
                conversion: "quantizer",
            });
        }
    }
    Ok(out)
}

fn decode<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut [f32],
    block: fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let (bytes, out) = (bytes.as_chunks().0, out.as_chunks_mut().0);
    for (bytes, out) in bytes.iter().zip(out) {
        block(bytes, out);
    }
}

fn encode<const BYTES: usize, const LEN: usize>(
    values: &[f32],
    out: &mut [u8],
    block: fn(&[f32; LEN], &mut [u8; BYTES]),
) {
    let (values, out) = (values.as_chunks().0, out.as_chunks_mut().0);
    for (values, out) in values.iter().zip(out) {
        block(values, out);
    }
}
