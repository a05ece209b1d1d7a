//! Q4_0 and Q4_1: 32 values of 4 bits with one scale, Q4_1 also with a minimum.
//!
//! ```text
//! Q4_0: f16 d, u8 quants[16]            value = d * (q - 8)
//! Q4_1: f16 d, f16 m, u8 quants[16]     value = d * q + m
//! ```
//!
//! Byte `j` holds value `j` in its low half and value `j + 16` in its high half.

use super::BLOCK;
use super::scale::{bounds, extreme, f16_at, inverse, put_f16};

pub(super) fn decode_q4_0(block: &[u8; 18], out: &mut [f32; BLOCK]) {
    let d = f16_at(block, 0);
    for (j, byte) in block[2..].iter().enumerate() {
        out[j] = (i32::from(byte & 15) - 8) as f32 * d;
        out[j + 16] = (i32::from(byte >> 4) - 8) as f32 * d;
    }
}

pub(super) fn decode_q4_1(block: &[u8; 20], out: &mut [f32; BLOCK]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    for (j, byte) in block[4..].iter().enumerate() {
        out[j] = f32::from(byte & 15) * d + m;
        out[j + 16] = f32::from(byte >> 4) * d + m;
    }
}

pub(super) fn encode_q4_0(values: &[f32; BLOCK], block: &mut [u8; 18]) {
    let d = extreme(values) / -8.0;
    let id = inverse(d);
    put_f16(block, 0, d);
    let quant = |v: f32| ((v * id + 8.5) as u8).min(15);
    for (j, byte) in block[2..].iter_mut().enumerate() {
        *byte = quant(values[j]) | quant(values[j + 16]) << 4;
    }
}

pub(super) fn encode_q4_1(values: &[f32; BLOCK], block: &mut [u8; 20]) {
    let (low, high) = bounds(values);
    let d = (high - low) / 15.0;
    let id = inverse(d);
    put_f16(block, 0, d);
    put_f16(block, 2, low);
    let quant = |v: f32| (((v - low) * id + 0.5) as u8).min(15);
    for (j, byte) in block[4..].iter_mut().enumerate() {
        *byte = quant(values[j]) | quant(values[j + 16]) << 4;
    }
}
