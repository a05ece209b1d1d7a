//! Super-blocks of 256 elements, one to a chunk.

use std::arch::x86_64::*;

use super::{Format, Scales, field, groups_of_blocks, iq4_values, low_then_high_nibbles};
use crate::matmul::decode::{block_scales, load};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

/// A half float in every lane.
#[inline(always)]
unsafe fn half(bits: u16) -> __m256 {
    // SAFETY: the caller's.
    unsafe { _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}

/// `scale` times each of sixteen signed bytes.
#[inline(always)]
unsafe fn times_bytes(scale: __m256, bytes: __m128i) -> [__m256; 2] {
    // SAFETY: the caller's.
    unsafe {
        let first = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        let second = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)));
        [_mm256_mul_ps(scale, first), _mm256_mul_ps(scale, second)]
    }
}

/// `scale` times each of eight bytes, for both groups of a block.
#[inline(always)]
unsafe fn times_block_bytes(scale: __m256, bytes: u64) -> [__m256; 2] {
    // SAFETY: the caller's.
    unsafe {
        let bytes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes.cast_signed()));
        groups_of_blocks(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(bytes)))
    }
}

/// Scales and minima of Q4_K and Q5_K.
#[inline(always)]
unsafe fn q4_k_scales(chunk: &[u8]) -> Scales {
    // SAFETY: the caller's.
    unsafe {
        let (scales, mins) = block_scales::q4_k(load(chunk, 4));
        // Minima are subtracted: the sign bit of the half float is flipped.
        let min = half(load::<u16>(chunk, 2) ^ 0x8000);
        Scales {
            scales: times_block_bytes(half(load(chunk, 0)), scales),
            mins: times_block_bytes(min, mins),
        }
    }
}

/// Bit `j` of each byte, as `value` where it is set.
#[inline(always)]
unsafe fn bit(bytes: __m256i, j: usize, value: i8) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let select = _mm256_set1_epi8((1_u8 << j).cast_signed());
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
        _mm256_and_si256(set, _mm256_set1_epi8(value))
    }
}

impl Format for Q2K {
    const CHUNK_BYTES: usize = 84;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe {
            let packed = load(chunk, 0);
            let low = _mm_set1_epi8(0xf);
            let mins = _mm_and_si128(_mm_srli_epi16::<4>(packed), low);
            let min = half(load::<u16>(chunk, 82) ^ 0x8000);
            Scales {
                scales: times_bytes(half(load(chunk, 80)), _mm_and_si128(packed, low)),
                mins: times_bytes(min, mins),
            }
        }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { field(load(chunk, 16 + j / 4 * 32), 2 * (j % 4), 3) }
    }
}

impl Format for Q3K {
    const CHUNK_BYTES: usize = 110;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe {
            let [first, second] = block_scales::q3_k(load(chunk, 96));
            let packed = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
            let scales = _mm_sub_epi8(packed, _mm_set1_epi8(32));
            Scales::symmetric(times_bytes(half(load(chunk, 108)), scales), 4.0)
        }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let low = field(load(chunk, 32 + j / 4 * 32), 2 * (j % 4), 3);
            _mm256_or_si256(low, bit(load(chunk, 0), j, 4))
        }
    }
}

impl Format for Q4K {
    const CHUNK_BYTES: usize = 144;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { q4_k_scales(chunk) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { field(load(chunk, 16 + j / 2 * 32), 4 * (j % 2), 0xf) }
    }
}

impl Format for Q5K {
    const CHUNK_BYTES: usize = 176;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { q4_k_scales(chunk) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let low = field(load(chunk, 48 + j / 2 * 32), 4 * (j % 2), 0xf);
            _mm256_or_si256(low, bit(load(chunk, 16), j, 16))
        }
    }
}

impl Format for Q6K {
    const CHUNK_BYTES: usize = 210;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { Scales::symmetric(times_bytes(half(load(chunk, 208)), load(chunk, 192)), 32.0) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            let (n, k) = (j / 4, j % 4);
            let low = field(load(chunk, 64 * n + k % 2 * 32), k / 2 * 4, 0xf);
            let high = field(load(chunk, 128 + 32 * n), 2 * k, 3);
            _mm256_or_si256(low, _mm256_slli_epi16::<4>(high))
        }
    }
}

impl Format for Iq4Xs {
    const CHUNK_BYTES: usize = 136;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe {
            let nibble = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
            let pair = _mm256_srli_epi32::<1>(nibble);
            let low = _mm256_srlv_epi32(_mm256_set1_epi32(load(chunk, 4)), nibble);
            let high = _mm256_set1_epi32(i32::from(load::<u16>(chunk, 2)));
            let high = _mm256_slli_epi32::<4>(_mm256_srlv_epi32(high, pair));
            let low = _mm256_and_si256(low, _mm256_set1_epi32(0xf));
            let high = _mm256_and_si256(high, _mm256_set1_epi32(0x30));
            let scales = _mm256_sub_epi32(_mm256_or_si256(low, high), _mm256_set1_epi32(32));
            let scales = _mm256_mul_ps(half(load(chunk, 0)), _mm256_cvtepi32_ps(scales));
            Scales::symmetric(groups_of_blocks(scales), 0.0)
        }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { iq4_values(low_then_high_nibbles(chunk, 8 + 16 * j)) }
    }
}
