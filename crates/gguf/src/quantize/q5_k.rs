//! Q5_K: 256 values of 5 bits in groups of 32, each with a 6-bit scale and a 6-bit minimum.
//!
//! ```text
//! f16 d, f16 dmin, u8 scales[12], u8 high[32], u8 low[128]     value = d * scale * q - dmin * min
//! ```
//!
//! `scales` and `low` are those of Q4_K. Bit `g` of byte `l` of `high` is the fifth bit of value `l` of
//! group `g`.

use super::SUPER_BLOCK;
use super::q4_k::{encode_groups, group_scales};
use super::search::AffineSearch;

pub(super) fn decode(block: &[u8; 176], out: &mut [f32; SUPER_BLOCK]) {
    let (high, low) = (&block[16..48], &block[48..]);
    for (group, (scale, min)) in group_scales(block).into_iter().enumerate() {
        let (start, shift) = (group / 2 * 32, group % 2 * 4);
        for l in 0..32 {
            let q = low[start + l] >> shift & 15 | (high[l] >> group & 1) << 4;
            out[group * 32 + l] = scale * f32::from(q) - min;
        }
    }
}

const SEARCH: AffineSearch = AffineSearch {
    top: 31,
    first: -0.5,
    candidates: 15,
    absolute_errors: false,
};

pub(super) fn encode(values: &[f32; SUPER_BLOCK], block: &mut [u8; 176]) {
    block.fill(0);
    let quants = encode_groups(values, &SEARCH, block);
    for (i, q) in quants.into_iter().enumerate() {
        block[16 + i % 32] |= (q >> 4) << (i / 32);
        block[48 + i / 64 * 32 + i % 32] |= (q & 15) << (i / 32 % 2 * 4);
    }
}
