//! Super-blocks of 256 elements with scales per 16 or 32 of them.

use super::{Format, Scales, half};
use crate::matmul::decode::block_scales::{self, IQ4_VALUES, half_word, word, words};

pub(in crate::matmul::decode) struct Q2K;
pub(in crate::matmul::decode) struct Q3K;
pub(in crate::matmul::decode) struct Q4K;
pub(in crate::matmul::decode) struct Q5K;
pub(in crate::matmul::decode) struct Q6K;
pub(in crate::matmul::decode) struct Iq4Xs;

/// Element `i` of the 2-bit quants of Q2_K and Q3_K: each half of the super-block has 32 bytes, whose
/// bits `2j, 2j + 1` are its elements `32j ..`.
#[inline(always)]
fn two_bits(quants: &[u8], i: usize) -> u8 {
    (quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3
}

/// Element `i` of the 4-bit quants of Q4_K and Q5_K: 32 bytes hold 32 elements in their low nibbles
/// and the 32 that follow in their high ones.
#[inline(always)]
fn nibble(quants: &[u8], i: usize) -> u8 {
    (quants[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 0xf
}

/// Scales and minima of Q4_K and Q5_K from the first 16 bytes of a super-block.
#[inline(always)]
fn q4_k_scales(chunk: &[u8]) -> Scales {
    let (scale, min) = (half(chunk), half(&chunk[2..]));
    let (scales, mins) = block_scales::q4_k(words(&chunk[4..]));
    let (scales, mins) = (scales.to_le_bytes(), mins.to_le_bytes());
    Scales::of_groups(|g| {
        let (s, m) = (f32::from(scales[g / 2]), f32::from(mins[g / 2]));
        (scale * s, -min * m)
    })
}

impl Format for Q2K {
    const CHUNK_BYTES: usize = 84;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        let (scale, min) = (half(&chunk[80..]), half(&chunk[82..]));
        Scales::of_groups(|g| {
            let packed = chunk[g];
            (
                scale * f32::from(packed & 0xf),
                -min * f32::from(packed >> 4),
            )
        })
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        two_bits(&chunk[16..], i) as i8
    }
}

impl Format for Q3K {
    const CHUNK_BYTES: usize = 110;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        let scale = half(&chunk[108..]);
        let scales = block_scales::q3_k(words(&chunk[96..])).map(u64::to_le_bytes);
        Scales::of_groups(|g| (scale * f32::from(scales[g / 8][g % 8] as i8 - 32), 0.0))
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        // Bit `i / 32` of byte `i % 32` says that nothing is subtracted.
        let high = chunk[i % 32] >> (i / 32) & 1;
        (two_bits(&chunk[32..], i) | high << 2) as i8 - 4
    }
}

impl Format for Q4K {
    const CHUNK_BYTES: usize = 144;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        q4_k_scales(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        nibble(&chunk[16..], i) as i8
    }
}

impl Format for Q5K {
    const CHUNK_BYTES: usize = 176;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        q4_k_scales(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        let high = chunk[16 + i % 32] >> (i / 32) & 1;
        (nibble(&chunk[48..], i) | high << 4) as i8
    }
}

impl Format for Q6K {
    const CHUNK_BYTES: usize = 210;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        let scale = half(&chunk[208..]);
        Scales::of_groups(|g| (scale * f32::from(chunk[192 + g] as i8), 0.0))
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        // Each half has 64 bytes of low nibbles (elements 0..64 low, 64..128 high) and 32 bytes whose
        // bits `2j, 2j + 1` are the upper bits of elements `32j ..`.
        let (half, i) = (i / 128, i % 128);
        let low = (chunk[half * 64 + i % 64] >> (i / 64 * 4)) & 0xf;
        let high = (chunk[128 + half * 32 + i % 32] >> (i / 32 * 2)) & 3;
        (low | high << 4) as i8 - 32
    }
}

impl Format for Iq4Xs {
    const CHUNK_BYTES: usize = 136;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        let scale = half(chunk);
        let scales = block_scales::iq4_xs(half_word(&chunk[2..]), word(&chunk[4..]));
        Scales::of_groups(|g| (scale * f32::from(scales[g / 2] as i8 - 32), 0.0))
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        let byte = chunk[8 + i / 32 * 16 + i % 16];
        IQ4_VALUES[usize::from((byte >> (i / 16 % 2 * 4)) & 0xf)]
    }
}
