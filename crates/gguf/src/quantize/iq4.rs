//! IQ4_NL and IQ4_XS: 4-bit indices into a table of 16 values spaced unevenly.
//!
//! ```text
//! IQ4_NL, 32 values:   f16 d, u8 indices[16]
//! IQ4_XS, 256 values:  f16 d, u16 scales_high, u8 scales_low[4], u8 indices[128]
//! ```
//!
//! value = d * table\[index\], in IQ4_XS times the signed 6-bit scale of its group of 32. In the 16 bytes
//! of a group, byte `j` holds value `j` in its low half and value `j + 16` in its high half.

use super::scale::f16_at;
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
