//! Q3_K: 256 values of 3 bits in groups of 16, each with a signed 6-bit scale.
//!
//! ```text
//! u8 high[32], u8 low[64], u8 scales[12], f16 d     value = d * scale * (q - 4)
//! ```
//!
//! Each half of the block (128 values) has 32 bytes of `low`; byte `l` holds the low two bits of values
//! `l`, `l + 32`, `l + 64` and `l + 96` of the half, lowest bits first. Bit `b` of byte `l` of `high` is
//! the third bit of value `32 * b + l` of the block.

use super::SUPER_BLOCK;
use super::scale::{extreme, f16_at, nearest, put_f16};
use super::search::symmetric_by_exchange;

pub(super) fn decode(block: &[u8; 110], out: &mut [f32; SUPER_BLOCK]) {
    let (high, low) = (&block[..32], &block[32..96]);
    let scales = unpack_scales(&block[96..108]);
    let d = f16_at(block, 108);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group]);
        let (half, bit, start) = (group / 8, group / 2, group % 2 * 16);
        for (l, out) in out.iter_mut().enumerate() {
            let low = low[half * 32 + start + l] >> (bit % 4 * 2) & 3;
            let high = high[start + l] >> bit & 1;
            *out = scale * f32::from((high << 2 | low) as i8 - 4);
        }
    }
}

/// The 16 scales of a Q3_K block, -32 to 31, from the 12 bytes that hold them.
///
/// The low halves of bytes 0 to 7 are the low four bits of scales 0 to 7, the high halves those of scales
/// 8 to 15. Bytes 8 to 11 hold the upper two bits: those of scale `i` in byte `8 + i % 4` at bit
/// `i / 4 * 2`. A scale is stored with 32 added.
fn unpack_scales(packed: &[u8]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = packed[i % 8] >> (i / 8 * 4) & 15;
        let high = packed[8 + i % 4] >> (i / 4 * 2) & 3;
        (high << 4 | low) as i8 - 32
    })
}

pub(super) fn encode(values: &[f32; SUPER_BLOCK], block: &mut [u8; 110]) {
    let values: &[[f32; 16]] = values.as_chunks().0;
    let mut groups: [_; 16] = std::array::from_fn(|i| symmetric_by_exchange(&values[i], 4));
    let largest = extreme(&groups.each_ref().map(|group| group.scale));
    block.fill(0);
    if largest == 0.0 {
        return;
    }
    let inverse = -32.0 / largest;
    put_f16(block, 108, 1.0 / inverse);
    let d = f16_at(block, 108);
    for (i, group) in groups.iter_mut().enumerate() {
        let scale = nearest(inverse * group.scale).clamp(-32, 31);
        let stored = (scale + 32) as u8;
        block[96 + i % 8] |= (stored & 15) << (i / 8 * 4);
        block[104 + i % 4] |= (stored >> 4) << (i / 4 * 2);
        let scale = d * scale as f32;
        if scale != 0.0 {
            group.quants = values[i].map(|x| nearest(x / scale).clamp(-4, 3) as i8);
        }
        let (half, bit, start) = (i / 8, i / 2, i % 2 * 16);
        for (l, q) in group.quants.into_iter().enumerate() {
            let q = (q + 4) as u8;
            block[32 + half * 32 + start + l] |= (q & 3) << (bit % 4 * 2);
            block[start + l] |= (q >> 2) << bit;
        }
    }
}
