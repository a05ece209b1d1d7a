//! Blocks of 32 elements, eight to a chunk.

use std::arch::x86_64::*;

use super::{Format, Scales, groups_of_blocks, iq4_values, low_then_high_nibbles};
use crate::matmul::decode::load;

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;
pub(super) struct Iq4Nl;

/// Half floats `at` bytes into each block of `BYTES`, widened, a lane per group.
#[inline(always)]
unsafe fn halves<const BYTES: usize>(chunk: &[u8], at: usize) -> [__m256; 2] {
    // SAFETY: the caller's.
    unsafe {
        let blocks = _mm_setr_epi16(
            load(chunk, at),
            load(chunk, BYTES + at),
            load(chunk, 2 * BYTES + at),
            load(chunk, 3 * BYTES + at),
            load(chunk, 4 * BYTES + at),
            load(chunk, 5 * BYTES + at),
            load(chunk, 6 * BYTES + at),
            load(chunk, 7 * BYTES + at),
        );
        groups_of_blocks(_mm256_cvtph_ps(blocks))
    }
}

/// The scales of a symmetric format.
#[inline(always)]
unsafe fn scales<const BYTES: usize>(chunk: &[u8], zero_point: f32) -> Scales {
    // SAFETY: the caller's.
    unsafe { Scales::symmetric(halves::<BYTES>(chunk, 0), zero_point) }
}

/// The scales of a format with minima.
#[inline(always)]
unsafe fn scales_and_mins<const BYTES: usize>(chunk: &[u8]) -> Scales {
    // SAFETY: the caller's.
    unsafe {
        Scales {
            scales: halves::<BYTES>(chunk, 0),
            mins: halves::<BYTES>(chunk, 2),
        }
    }
}

/// The 4-bit quants of a block, with the fifth bits in front of them from `at` on.
#[inline(always)]
unsafe fn five_bits(chunk: &[u8], at: usize) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let low = low_then_high_nibbles(chunk, at + 4);
        let bits = _mm256_set1_epi32(load(chunk, at));
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
}

impl Format for Q4_0 {
    const CHUNK_BYTES: usize = 8 * 18;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales::<18>(chunk, 8.0) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 18 * j + 2) }
    }
}

impl Format for Q4_1 {
    const CHUNK_BYTES: usize = 8 * 20;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales_and_mins::<20>(chunk) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { low_then_high_nibbles(chunk, 20 * j + 4) }
    }
}

impl Format for Q5_0 {
    const CHUNK_BYTES: usize = 8 * 22;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales::<22>(chunk, 16.0) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 22 * j + 2) }
    }
}

impl Format for Q5_1 {
    const CHUNK_BYTES: usize = 8 * 24;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales_and_mins::<24>(chunk) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { five_bits(chunk, 24 * j + 4) }
    }
}

impl Format for Q8_0 {
    const CHUNK_BYTES: usize = 8 * 34;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales::<34>(chunk, 0.0) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { load(chunk, 34 * j + 2) }
    }
}

impl Format for Iq4Nl {
    const CHUNK_BYTES: usize = 8 * 18;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        // SAFETY: the caller's.
        unsafe { scales::<18>(chunk, 0.0) }
    }

    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        unsafe { iq4_values(low_then_high_nibbles(chunk, 18 * j + 2)) }
    }
}
