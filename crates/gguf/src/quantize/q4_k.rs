//! Q4_K: 256 values of 4 bits in groups of 32, each with a 6-bit scale and a 6-bit minimum.
//!
//! ```text
//! f16 d, f16 dmin, u8 scales[12], u8 quants[128]     value = d * scale * q - dmin * min
//! ```
//!
//! Groups come in pairs: 32 bytes of `quants` hold the first group in their low halves and the second in
//! their high halves.

use super::SUPER_BLOCK;
use super::scale::f16_at;

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
