//! Q5_0 and Q5_1: 32 values of 5 bits with one scale, Q5_1 also with a minimum.
//!
//! ```text
//! Q5_0: f16 d, u32 high, u8 low[16]            value = d * (q - 16)
//! Q5_1: f16 d, f16 m, u32 high, u8 low[16]     value = d * q + m
//! ```
//!
//! Bit `j` of `high` is the fifth bit of value `j`. Byte `j` of `low` holds the other four bits of value
//! `j` in its low half and those of value `j + 16` in its high half.

use super::BLOCK;
use super::scale::{bounds, extreme, f16_at, inverse, put_f16};

pub(super) fn decode_q5_0(block: &[u8; 22], out: &mut [f32; BLOCK]) {
    let d = f16_at(block, 0);
    for (q, out) in unpack(&block[2..]).into_iter().zip(out) {
        *out = (i32::from(q) - 16) as f32 * d;
    }
}

pub(super) fn decode_q5_1(block: &[u8; 24], out: &mut [f32; BLOCK]) {
    let (d, m) = (f16_at(block, 0), f16_at(block, 2));
    for (q, out) in unpack(&block[4..]).into_iter().zip(out) {
        *out = f32::from(q) * d + m;
    }
}

pub(super) fn encode_q5_0(values: &[f32; BLOCK], block: &mut [u8; 22]) {
    let d = extreme(values) / -16.0;
    let id = inverse(d);
    put_f16(block, 0, d);
    pack(
        values.map(|v| ((v * id + 16.5) as u8).min(31)),
        &mut block[2..],
    );
}

pub(super) fn encode_q5_1(values: &[f32; BLOCK], block: &mut [u8; 24]) {
    let (low, high) = bounds(values);
    let d = (high - low) / 31.0;
    let id = inverse(d);
    put_f16(block, 0, d);
    put_f16(block, 2, low);
    pack(
        values.map(|v| ((v - low) * id + 0.5) as u8),
        &mut block[4..],
    );
}

/// The 5-bit quants of the `high` and `low` fields together.
fn unpack(packed: &[u8]) -> [u8; BLOCK] {
    std::array::from_fn(|i| {
        let high = packed[i / 8] >> (i % 8) & 1;
        let low = packed[4 + i % 16] >> (i / 16 * 4) & 15;
        high << 4 | low
    })
}

fn pack(quants: [u8; BLOCK], packed: &mut [u8]) {
    packed.fill(0);
    for (i, q) in quants.into_iter().enumerate() {
        packed[i / 8] |= (q >> 4 & 1) << (i % 8);
        packed[4 + i % 16] |= (q & 15) << (i / 16 * 4);
    }
}
