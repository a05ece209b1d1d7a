//! Q2_K: 256 values of 2 bits in groups of 16, each with a 4-bit scale and a 4-bit minimum.
//!
//! ```text
//! u8 scales[16], u8 quants[64], f16 d, f16 dmin     value = d * scale * q - dmin * min
//! ```
//!
//! A byte of `scales` holds a group's scale in its low half and its minimum in its high half. Each half of
//! the block (128 values) has 32 bytes of `quants`; byte `l` holds values `l`, `l + 32`, `l + 64` and
//! `l + 96` of the half, lowest bits first.

use super::SUPER_BLOCK;
use super::scale::{f16_at, in_steps, largest, nearest, put_f16};
use super::search::AffineSearch;

pub(super) fn decode(block: &[u8; 84], out: &mut [f32; SUPER_BLOCK]) {
    let (scales, quants) = (&block[..16], &block[16..80]);
    let (d, dmin) = (f16_at(block, 80), f16_at(block, 82));
    for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group] & 15);
        let min = dmin * f32::from(scales[group] >> 4);
        let (half, shift, start) = (group / 8, group % 8 / 2 * 2, group % 2 * 16);
        for (l, out) in out.iter_mut().enumerate() {
            let q = quants[half * 32 + start + l] >> shift & 3;
            *out = scale * f32::from(q) - min;
        }
    }
}

const SEARCH: AffineSearch = AffineSearch {
    top: 3,
    first: -0.5,
    candidates: 15,
    absolute_errors: true,
};

pub(super) fn encode(values: &[f32; SUPER_BLOCK], block: &mut [u8; 84]) {
    let values: &[[f32; 16]] = values.as_chunks().0;
    let mut groups: [_; 16] =
        std::array::from_fn(|i| SEARCH.run(&values[i], &values[i].map(f32::abs)));
    let top_scale = largest(groups.iter().map(|group| group.scale));
    let top_min = largest(groups.iter().map(|group| group.min));
    block.fill(0);
    put_f16(block, 80, top_scale / 15.0);
    put_f16(block, 82, top_min / 15.0);
    let (d, dmin) = (f16_at(block, 80), f16_at(block, 82));
    for (i, group) in groups.iter_mut().enumerate() {
        let scale = in_steps(group.scale, top_scale, 15);
        let min = in_steps(group.min, top_min, 15);
        block[i] = scale | min << 4;
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        if scale != 0.0 {
            group.quants = values[i].map(|x| nearest((x + min) / scale).clamp(0, 3) as u8);
        }
        let (half, shift, start) = (i / 8, i % 8 / 2 * 2, i % 2 * 16);
        for (l, q) in group.quants.into_iter().enumerate() {
            block[16 + half * 32 + start + l] |= q << shift;
        }
    }
}
