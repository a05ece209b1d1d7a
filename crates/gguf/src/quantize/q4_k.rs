//! Q4_K: 256 values of 4 bits in groups of 32, each with a 6-bit scale and a 6-bit minimum.
//!
//! ```text
//! f16 d, f16 dmin, u8 scales[12], u8 quants[128]     value = d * scale * q - dmin * min
//! ```
//!
//! Groups come in pairs: 32 bytes of `quants` hold the first group in their low halves and the second in
//! their high halves.

use super::SUPER_BLOCK;
use super::scale::{f16_at, in_steps, largest, nearest, put_f16};
use super::search::AffineSearch;

pub(super) fn decode(block: &[u8; 144], out: &mut [f32; SUPER_BLOCK]) {
    let quants = &block[16..];
    for (group, (scale, min)) in group_scales(block).into_iter().enumerate() {
        let (start, shift) = (group / 2 * 32, group % 2 * 4);
        for l in 0..32 {
            let q = quants[start + l] >> shift & 15;
            out[group * 32 + l] = scale * f32::from(q) - min;
        }
    }
}

/// `(d * scale, dmin * min)` of each group of a Q4_K or Q5_K block, which both start with the fields
/// `d`, `dmin`, `scales`.
pub(super) fn group_scales(block: &[u8]) -> [(f32, f32); 8] {
    let (d, dmin) = (f16_at(block, 0), f16_at(block, 2));
    let (scales, mins) = unpack_scales(&block[4..16]);
    std::array::from_fn(|i| (d * f32::from(scales[i]), dmin * f32::from(mins[i])))
}

/// The 8 scales and the 8 minimums of a Q4_K or Q5_K block, 0 to 63, from the 12 bytes that hold them.
///
/// The low six bits of bytes 0 to 3 are scales 0 to 3, those of bytes 4 to 7 minimums 0 to 3. Bytes 8 to
/// 11 hold the low four bits of scales 4 to 7 (low half) and of minimums 4 to 7 (high half), whose upper
/// two bits are the upper bits of bytes 0 to 3 and 4 to 7.
fn unpack_scales(packed: &[u8]) -> ([u8; 8], [u8; 8]) {
    let scales = std::array::from_fn(|i| match i {
        0..4 => packed[i] & 63,
        _ => packed[i + 4] & 15 | packed[i - 4] >> 6 << 4,
    });
    let mins = std::array::from_fn(|i| match i {
        0..4 => packed[i + 4] & 63,
        _ => packed[i + 4] >> 4 | packed[i] >> 6 << 4,
    });
    (scales, mins)
}

const SEARCH: AffineSearch = AffineSearch {
    top: 15,
    first: -1.0,
    candidates: 20,
    absolute_errors: false,
};

pub(super) fn encode(values: &[f32; SUPER_BLOCK], block: &mut [u8; 144]) {
    block.fill(0);
    let quants = encode_groups(values, &SEARCH, block);
    for (i, q) in quants.into_iter().enumerate() {
        block[16 + i / 64 * 32 + i % 32] |= q << (i / 32 % 2 * 4);
    }
}

/// Writes the fields `d`, `dmin`, `scales` of a zeroed Q4_K or Q5_K block and returns the quants.
pub(super) fn encode_groups(
    values: &[f32; SUPER_BLOCK],
    search: &AffineSearch,
    block: &mut [u8],
) -> [u8; SUPER_BLOCK] {
    let values: &[[f32; 32]] = values.as_chunks().0;
    let groups: [_; 8] = std::array::from_fn(|i| search.run(&values[i], &weights(&values[i])));
    let top_scale = largest(groups.iter().map(|group| group.scale));
    let top_min = largest(groups.iter().map(|group| group.min));
    put_f16(block, 0, top_scale / 63.0);
    put_f16(block, 2, top_min / 63.0);
    let scales = groups
        .each_ref()
        .map(|group| in_steps(group.scale, top_scale, 63));
    let mins = groups
        .each_ref()
        .map(|group| in_steps(group.min, top_min, 63));
    pack_scales(scales, mins, &mut block[4..16]);

    let mut quants = [0; SUPER_BLOCK];
    let rounded = group_scales(block).into_iter().zip(groups).zip(values);
    let out: &mut [[u8; 32]] = quants.as_chunks_mut().0;
    for (out, (((scale, min), group), values)) in out.iter_mut().zip(rounded) {
        *out = if scale == 0.0 {
            group.quants
        } else {
            values.map(|x| nearest((x + min) / scale).clamp(0, search.top.into()) as u8)
        };
    }
    quants
}

/// Each value's magnitude plus the root of the group's mean square.
fn weights(values: &[f32; 32]) -> [f32; 32] {
    let squares = values.iter().fold(0.0, |sum, x| sum + x * x);
    let level = (squares / 32.0).sqrt();
    values.map(|x| level + x.abs())
}

/// The inverse of [`unpack_scales`], into zeroed bytes.
fn pack_scales(scales: [u8; 8], mins: [u8; 8], packed: &mut [u8]) {
    for i in 0..4 {
        packed[i] = scales[i] | scales[i + 4] >> 4 << 6;
        packed[i + 4] = mins[i] | mins[i + 4] >> 4 << 6;
        packed[i + 8] = scales[i + 4] & 15 | mins[i + 4] << 4;
    }
}
