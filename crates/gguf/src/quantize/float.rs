//! F32, F16 (IEEE binary16) and BF16 (upper half of binary32). Rounding is to nearest, ties to even.

use half::{bf16, f16};

pub(super) fn decode_f32(bytes: &[u8; 4], out: &mut [f32; 1]) {
    out[0] = f32::from_le_bytes(*bytes);
}

pub(super) fn decode_f16(bytes: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = f16::from_le_bytes(*bytes).to_f32();
}

pub(super) fn decode_bf16(bytes: &[u8; 2], out: &mut [f32; 1]) {
    out[0] = bf16::from_le_bytes(*bytes).to_f32();
}

pub(super) fn encode_f32(values: &[f32; 1], out: &mut [u8; 4]) {
    *out = values[0].to_le_bytes();
}

pub(super) fn encode_f16(values: &[f32; 1], out: &mut [u8; 2]) {
    *out = f16::from_f32(values[0]).to_le_bytes();
}

pub(super) fn encode_bf16(values: &[f32; 1], out: &mut [u8; 2]) {
    *out = bf16::from_f32(values[0]).to_le_bytes();
}
