//! Super-blocks of 256 elements.

use std::arch::x86_64::*;

use super::{Format, field, iq4_values, load_256, low_then_high_nibbles};
use crate::matmul::decode::scalar::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};

/// Bit `j` of each byte, as `value` where it is set.
#[inline]
#[target_feature(enable = "avx2")]
fn bit(bytes: __m256i, j: usize, value: i8) -> __m256i {
    let select = _mm256_set1_epi8((1_u8 << j).cast_signed());
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
    _mm256_and_si256(set, _mm256_set1_epi8(value))
}

impl Format for Q2K {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let packed = unsafe { load_256(chunk, 16 + j / 4 * 32) };
        field(packed, 2 * (j % 4), 3)
    }
}

impl Format for Q3K {
    const ZERO_POINT: f32 = 4.0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let (packed, high) = unsafe { (load_256(chunk, 32 + j / 4 * 32), load_256(chunk, 0)) };
        _mm256_or_si256(field(packed, 2 * (j % 4), 3), bit(high, j, 4))
    }
}

impl Format for Q4K {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let packed = unsafe { load_256(chunk, 16 + j / 2 * 32) };
        field(packed, 4 * (j % 2), 0xf)
    }
}

impl Format for Q5K {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let (packed, high) = unsafe { (load_256(chunk, 48 + j / 2 * 32), load_256(chunk, 16)) };
        _mm256_or_si256(field(packed, 4 * (j % 2), 0xf), bit(high, j, 16))
    }
}

impl Format for Q6K {
    const ZERO_POINT: f32 = 32.0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        let (half, k) = (j / 4, j % 4);
        // SAFETY: the caller's.
        let (low, high) = unsafe {
            (
                load_256(chunk, 64 * half + k % 2 * 32),
                load_256(chunk, 128 + 32 * half),
            )
        };
        let high = _mm256_slli_epi16::<4>(field(high, 2 * k, 3));
        _mm256_or_si256(field(low, k / 2 * 4, 0xf), high)
    }
}

impl Format for Iq4Xs {
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        iq4_values(unsafe { low_then_high_nibbles(chunk, 8 + 16 * j) })
    }
}
