//! Blocks of 32 elements.

use std::arch::x86_64::*;

use super::{Format, iq4_values, load_256, low_then_high_nibbles};
use crate::matmul::decode::block_scales::word;
use crate::matmul::decode::scalar::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};

/// The 4-bit quants of a block, with the fifth bits in front of them from `at` on.
///
/// # Safety
/// The 20 bytes lie within `chunk`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn five_bits(chunk: &[u8], at: usize) -> __m256i {
    // SAFETY: the caller's.
    let low = unsafe { low_then_high_nibbles(chunk, at + 4) };
    let bits = _mm256_set1_epi32(word(&chunk[at..]).cast_signed());
    let byte_of = _mm256_setr_epi64x(
        0,
        0x0101_0101_0101_0101,
        0x0202_0202_0202_0202,
        0x0303_0303_0303_0303,
    );
    let select = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    let selected = _mm256_and_si256(_mm256_shuffle_epi8(bits, byte_of), select);
    let set = _mm256_cmpeq_epi8(selected, select);
    _mm256_or_si256(low, _mm256_and_si256(set, _mm256_set1_epi8(16)))
}

impl Format for Q4_0 {
    const ZERO_POINT: f32 = 8.0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 18 * j + 2) }
    }
}

impl Format for Q4_1 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 20 * j + 4) }
    }
}

impl Format for Q5_0 {
    const ZERO_POINT: f32 = 16.0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 22 * j + 2) }
    }
}

impl Format for Q5_1 {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 24 * j + 4) }
    }
}

impl Format for Q8_0 {
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { load_256(chunk, 34 * j + 2) }
    }
}

impl Format for Iq4Nl {
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        iq4_values(unsafe { low_then_high_nibbles(chunk, 18 * j + 2) })
    }
}
