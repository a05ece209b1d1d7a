//! Blocks of 32 elements.

use std::arch::x86_64::*;

use super::{Format, Scales, groups_of_blocks, iq4_values, load_256, low_then_high_nibbles};
use crate::matmul::decode::block_scales::{half_word, word};

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;
pub(super) struct Iq4Nl;

/// Half floats `at` bytes into each block of `BYTES`, widened, a lane per group.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves<const BYTES: usize>(chunk: &[u8], at: usize) -> [__m256; 2] {
    assert_eq!(chunk.len(), 8 * BYTES);
    let half = |block: usize| half_word(&chunk[block * BYTES + at..]).cast_signed();
    let blocks = _mm_setr_epi16(
        half(0),
        half(1),
        half(2),
        half(3),
        half(4),
        half(5),
        half(6),
        half(7),
    );
    groups_of_blocks(_mm256_cvtph_ps(blocks))
}

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
    const CHUNK_BYTES: usize = 8 * 18;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales::symmetric(halves::<18>(chunk, 0), 8.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 18 * j + 2) }
    }
}

impl Format for Q4_1 {
    const CHUNK_BYTES: usize = 8 * 20;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales {
            scales: halves::<20>(chunk, 0),
            mins: halves::<20>(chunk, 2),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 20 * j + 4) }
    }
}

impl Format for Q5_0 {
    const CHUNK_BYTES: usize = 8 * 22;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales::symmetric(halves::<22>(chunk, 0), 16.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 22 * j + 2) }
    }
}

impl Format for Q5_1 {
    const CHUNK_BYTES: usize = 8 * 24;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales {
            scales: halves::<24>(chunk, 0),
            mins: halves::<24>(chunk, 2),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 24 * j + 4) }
    }
}

impl Format for Q8_0 {
    const CHUNK_BYTES: usize = 8 * 34;
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales::symmetric(halves::<34>(chunk, 0), 0.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { load_256(chunk, 34 * j + 2) }
    }
}

impl Format for Iq4Nl {
    const CHUNK_BYTES: usize = 8 * 18;
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        Scales::symmetric(halves::<18>(chunk, 0), 0.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        iq4_values(unsafe { low_then_high_nibbles(chunk, 18 * j + 2) })
    }
}
