//! Q6_K: 256 values of 6 bits in groups of 16, each with a signed 8-bit scale.
//!
//! ```text
//! u8 low[128], u8 high[64], i8 scales[16], f16 d     value = d * scale * (q - 32)
//! ```
//!
//! Each half of the block (128 values) has 64 bytes of `low` and 32 of `high`. Byte `l` of `low` holds
//! the low four bits of value `l` in its low half and of value `l + 64` in its high half; byte `l` of
//! `high` the upper two bits of values `l`, `l + 32`, `l + 64` and `l + 96`, lowest bits first.

use super::SUPER_BLOCK;
use super::scale::{SMALLEST_MAGNITUDE, extreme, f16_at, nearest, put_f16};
use super::search::symmetric;

pub(super) fn decode(block: &[u8; 210], out: &mut [f32; SUPER_BLOCK]) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let d = f16_at(block, 208);
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group] as i8);
        let (half, in_half) = (group / 8, group % 8 * 16);
        for (l, out) in out.iter_mut().enumerate() {
            let i = in_half + l;
            let low = low[half * 64 + i % 64] >> (i / 64 * 4) & 15;
            let high = high[half * 32 + i % 32] >> (i / 32 * 2) & 3;
            *out = scale * f32::from((high << 4 | low) as i8 - 32);
        }
    }
}

pub(super) fn encode(values: &[f32; SUPER_BLOCK], block: &mut [u8; 210]) {
    let values: &[[f32; 16]] = values.as_chunks().0;
    let mut groups: [_; 16] = std::array::from_fn(|i| symmetric(&values[i], 32));
    let largest = extreme(&groups.each_ref().map(|group| group.scale));
    block.fill(0);
    if largest.abs() < SMALLEST_MAGNITUDE {
        return;
    }
    let inverse = -128.0 / largest;
    put_f16(block, 208, 1.0 / inverse);
    let d = f16_at(block, 208);
    for (g, group) in groups.iter_mut().enumerate() {
        let scale = nearest(inverse * group.scale).min(127) as i8;
        block[192 + g] = scale as u8;
        let scale = d * f32::from(scale);
        if scale != 0.0 {
            group.quants = values[g].map(|x| nearest(x / scale).clamp(-32, 31) as i8);
        }
        let (half, in_half) = (g / 8, g % 8 * 16);
        for (l, q) in group.quants.into_iter().enumerate() {
            let (i, q) = (in_half + l, (q + 32) as u8);
            block[half * 64 + i % 64] |= (q & 15) << (i / 64 * 4);
            block[128 + half * 32 + i % 32] |= (q >> 4) << (i / 32 * 2);
        }
    }
}
