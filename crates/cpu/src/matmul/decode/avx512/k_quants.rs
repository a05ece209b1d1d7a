//! Super-blocks of 256 elements, one to a chunk.

use std::arch::x86_64::*;

use super::{Format, Unpacked, centred, iq4_values, low_then_high_nibbles, quarters, raised};
use crate::matmul::decode::{block_scales, load};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

/// `low` in every 16-bit lane of the low half, `high` in those of the high half.
#[inline(always)]
unsafe fn halves(low: i16, high: i16) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let low = _mm512_castsi256_si512(_mm256_set1_epi16(low));
        _mm512_inserti64x4::<1>(low, _mm256_set1_epi16(high))
    }
}

/// 32 bytes in both halves.
#[inline(always)]
unsafe fn twice(chunk: &[u8], at: usize) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_broadcast_i64x4(load(chunk, at)) }
}

/// One bit of each byte: `2 j` in the low half, `2 j + 1` in the high.
#[inline(always)]
unsafe fn bits_of_blocks(bits: __m512i, j: usize) -> __mmask64 {
    let (low, high) = (0x0101 << (2 * j), 0x0202 << (2 * j));
    // SAFETY: the caller's.
    unsafe { _mm512_test_epi8_mask(bits, halves(low, high as i16)) }
}

/// A half float in every lane.
#[inline(always)]
unsafe fn half(bits: u16) -> __m512 {
    // SAFETY: the caller's.
    unsafe { _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}

/// A byte per block of 32, as a float in the lanes of both its groups.
#[inline(always)]
unsafe fn per_block(bytes: u64) -> __m512 {
    // SAFETY: the caller's.
    unsafe {
        let bytes = _mm_cvtsi64_si128(bytes.cast_signed());
        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)))
    }
}

/// Scales and minima of Q4_K and Q5_K.
#[inline(always)]
unsafe fn q4_k_scales(chunk: &[u8]) -> (__m512, __m512) {
    // SAFETY: the caller's.
    unsafe {
        let (scales, mins) = block_scales::q4_k(load(chunk, 4));
        let scale = half(load(chunk, 0));
        // Minima are subtracted: the sign bit of the half float is flipped.
        let min = half(load::<u16>(chunk, 2) ^ 0x8000);
        (
            _mm512_mul_ps(scale, per_block(scales)),
            _mm512_mul_ps(min, per_block(mins)),
        )
    }
}

/// The 4-bit quants of blocks `2 j` and `2 j + 1` of Q4_K and Q5_K.
#[inline(always)]
unsafe fn nibbles(chunk: &[u8], at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let quants = _mm512_srlv_epi16(twice(chunk, at + 32 * j), halves(0, 4));
        _mm512_and_si512(quants, _mm512_set1_epi8(0xf))
    }
}

/// The 2-bit quants of blocks `2 j` and `2 j + 1` of Q2_K and Q3_K.
#[inline(always)]
unsafe fn two_bits(chunk: &[u8], at: usize, j: usize) -> __m512i {
    let low = 4 * (j % 2) as i16;
    // SAFETY: the caller's.
    unsafe {
        let quants = _mm512_srlv_epi16(twice(chunk, at + j / 2 * 32), halves(low, low + 2));
        _mm512_and_si512(quants, _mm512_set1_epi8(3))
    }
}

/// Quants with `value` added to those of the mask.
#[inline(always)]
unsafe fn add_where(mask: __mmask64, quants: __m512i, value: i8) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_mask_add_epi8(quants, mask, quants, _mm512_set1_epi8(value)) }
}

impl Format for Q2K {
    const CHUNK_BYTES: usize = 84;
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let packed = _mm512_cvtepu8_epi32(load(chunk, 0));
            let scales = _mm512_and_si512(packed, _mm512_set1_epi32(0xf));
            let mins = _mm512_srli_epi32::<4>(packed);
            let scale = half(load(chunk, 80));
            let min = half(load::<u16>(chunk, 82) ^ 0x8000);
            Unpacked {
                quants: quarters!(wide, j => two_bits(chunk, 16, j)),
                scales: _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales)),
                mins: _mm512_mul_ps(min, _mm512_cvtepi32_ps(mins)),
            }
        }
    }
}

impl Format for Q3K {
    const CHUNK_BYTES: usize = 110;
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let high = twice(chunk, 0);
            let quants =
                quarters!(wide, j => add_where(bits_of_blocks(high, j), two_bits(chunk, 32, j), 4));
            let [first, second] = block_scales::q3_k(load(chunk, 96));
            let packed = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
            let scales = _mm512_cvtepi8_epi32(_mm_sub_epi8(packed, _mm_set1_epi8(32)));
            let scale = half(load(chunk, 108));
            centred(
                quants,
                4.0,
                _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales)),
            )
        }
    }
}

impl Format for Q4K {
    const CHUNK_BYTES: usize = 144;
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let (scales, mins) = q4_k_scales(chunk);
            Unpacked {
                quants: quarters!(wide, j => nibbles(chunk, 16, j)),
                scales,
                mins,
            }
        }
    }
}

impl Format for Q5K {
    const CHUNK_BYTES: usize = 176;
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let high = twice(chunk, 16);
            let (scales, mins) = q4_k_scales(chunk);
            Unpacked {
                quants: quarters!(wide, j => {
                    add_where(bits_of_blocks(high, j), nibbles(chunk, 48, j), 16)
                }),
                scales,
                mins,
            }
        }
    }
}

/// Low nibbles joined with bits 4 and 5 of `high`.
#[inline(always)]
unsafe fn six_bits(nibbles: __m512i, high: __m512i) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        // 0xca selects the second operand where the first has ones, else the third.
        let low = _mm512_set1_epi8(0xf);
        let quants = _mm512_ternarylogic_epi32::<0xca>(low, nibbles, high);
        _mm512_and_si512(quants, _mm512_set1_epi8(0x3f))
    }
}

/// Elements `128 n ..` of Q6_K.
#[inline(always)]
unsafe fn half_of_q6_k(chunk: &[u8], n: usize) -> [__m512i; 2] {
    // SAFETY: the caller's.
    unsafe {
        let packed: __m512i = load(chunk, 64 * n);
        let high = twice(chunk, 128 + 32 * n);
        [
            six_bits(packed, _mm512_sllv_epi16(high, halves(4, 2))),
            six_bits(
                _mm512_srli_epi16::<4>(packed),
                _mm512_srlv_epi16(high, halves(0, 2)),
            ),
        ]
    }
}

impl Format for Q6K {
    const CHUNK_BYTES: usize = 210;
    const BLOCKS: usize = 1;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], _wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let [a, b] = half_of_q6_k(chunk, 0);
            let [c, d] = half_of_q6_k(chunk, 1);
            let scales = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load(chunk, 192)));
            let scales = _mm512_mul_ps(half(load(chunk, 208)), scales);
            centred([a, b, c, d], 32.0, scales)
        }
    }
}

impl Format for Iq4Xs {
    const CHUNK_BYTES: usize = 136;
    const BLOCKS: usize = 1;
    const RAISED: bool = true;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(wide, j => {
                iq4_values(low_then_high_nibbles(chunk, 8 + 32 * j, 24 + 32 * j))
            });
            let nibble =
                _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
            let pair = _mm512_srli_epi32::<1>(nibble);
            let low = _mm512_srlv_epi32(_mm512_set1_epi32(load(chunk, 4)), nibble);
            let high = _mm512_set1_epi32(i32::from(load::<u16>(chunk, 2)));
            let high = _mm512_slli_epi32::<4>(_mm512_srlv_epi32(high, pair));
            let low = _mm512_and_si512(low, _mm512_set1_epi32(0xf));
            let high = _mm512_and_si512(high, _mm512_set1_epi32(0x30));
            let scales = _mm512_sub_epi32(_mm512_or_si512(low, high), _mm512_set1_epi32(32));
            let scale = half(load(chunk, 0));
            raised(quants, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales)))
        }
    }
}
