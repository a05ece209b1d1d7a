//! IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 values spaced unevenly.
//!
//! ```text
//! IQ4_NL, 32 values:   f16 d, u8 indices[16]
//! IQ4_XS, 256 values:  f16 d, u16 scales_high, u8 scales_low[4], u8 indices[128]
//! ```
//!
//! value = d * table\[index\], in IQ4_XS times the signed 6-bit scale of its group of 32. In the 16 bytes
//! of a group, byte `j` holds value `j` in its low half and value `j + 16` in its high half.

use super::scale::{SMALLEST_MAGNITUDE, extreme, f16_at, inverse, nearest, put_f16};
use super::{BLOCK, SUPER_BLOCK};

/// The table of IQ4_NL and IQ4_XS. Source: `kvalues_iq4nl` in ggml-common.h.
pub const IQ4_NL_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

pub(super) fn decode_nl(block: &[u8; 18], out: &mut [f32; BLOCK]) {
    decode_group(f16_at(block, 0), &block[2..], out);
}

pub(super) fn decode_xs(block: &[u8; 136], out: &mut [f32; SUPER_BLOCK]) {
    let d = f16_at(block, 0);
    let scales_high = u16::from_le_bytes([block[2], block[3]]);
    let (scales_low, indices) = (&block[4..8], &block[8..]);
    for (group, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
        let low = scales_low[group / 2] >> (group % 2 * 4) & 15;
        let high = (scales_high >> (group * 2) & 3) as u8;
        let scale = (high << 4 | low) as i8 - 32;
        decode_group(d * f32::from(scale), &indices[group * 16..][..16], out);
    }
}

fn decode_group(scale: f32, indices: &[u8], out: &mut [f32; BLOCK]) {
    for (j, byte) in indices.iter().enumerate() {
        out[j] = scale * f32::from(IQ4_NL_VALUES[usize::from(byte & 15)]);
        out[j + 16] = scale * f32::from(IQ4_NL_VALUES[usize::from(byte >> 4)]);
    }
}

pub(super) fn encode_nl(values: &[f32; BLOCK], block: &mut [u8; 18]) {
    let scale = best_scale(values);
    put_f16(block, 0, scale);
    encode_group(values, inverse(scale), &mut block[2..]);
}

pub(super) fn encode_xs(values: &[f32; SUPER_BLOCK], block: &mut [u8; 136]) {
    let groups: &[[f32; BLOCK]] = values.as_chunks().0;
    let mut scales = [0.0; 8];
    for (scale, group) in scales.iter_mut().zip(groups) {
        *scale = best_scale(group);
    }
    let d = -extreme(&scales) / 32.0;
    let id = inverse(d);
    block.fill(0);
    put_f16(block, 0, d);
    for (i, group) in groups.iter().enumerate() {
        let scale = nearest(id * scales[i]).clamp(-32, 31);
        let stored = (scale + 32) as u8;
        block[2 + i / 4] |= (stored >> 4) << (i % 4 * 2);
        block[4 + i / 2] |= (stored & 15) << (i % 2 * 4);
        let id = inverse(d * scale as f32);
        encode_group(group, id, &mut block[8 + i * 16..][..16]);
    }
}

fn encode_group(values: &[f32; BLOCK], inverse_scale: f32, indices: &mut [u8]) {
    let index = |value: f32| nearest_index(value * inverse_scale) as u8;
    for (j, byte) in indices.iter_mut().enumerate() {
        *byte = index(values[j]) | index(values[j + 16]) << 4;
    }
}

/// The scale with the smallest squared error, errors weighted by the squared value. Candidates are the
/// scales that put the extreme value near the first entry of the table; each is refined by least squares.
fn best_scale(values: &[f32; BLOCK]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < SMALLEST_MAGNITUDE {
        return 0.0;
    }
    let first = f32::from(IQ4_NL_VALUES[0]);
    let (qx, q2) = products(values, 1.0 / (-extreme / first));
    let mut scale = qx / q2;
    let mut best = scale * qx;
    for step in -7..=7i8 {
        let (qx, q2) = products(values, (f32::from(step) + first) / extreme);
        if q2 > 0.0 && qx * qx > best * q2 {
            scale = qx / q2;
            best = scale * qx;
        }
    }
    scale
}

/// The weighted products `sum(q * x)` and `sum(q * q)` of values and their table entries.
fn products(values: &[f32; BLOCK], inverse_scale: f32) -> (f32, f32) {
    let (mut qx, mut q2) = (0.0, 0.0);
    for &x in values {
        let weight = x * x;
        let q = f32::from(IQ4_NL_VALUES[nearest_index(inverse_scale * x)]);
        qx += weight * q * x;
        q2 += weight * q * q;
    }
    (qx, q2)
}

/// The index of the table entry nearest to `x`; the upper one of two equally near.
fn nearest_index(x: f32) -> usize {
    let above = IQ4_NL_VALUES.partition_point(|&entry| f32::from(entry) <= x);
    match above {
        0 => 0,
        16 => 15,
        _ => {
            let (low, high) = (IQ4_NL_VALUES[above - 1], IQ4_NL_VALUES[above]);
            above - usize::from(x - f32::from(low) < f32::from(high) - x)
        }
    }
}
