//! Super-blocks of 256 elements, one to a chunk.

use std::arch::x86_64::*;

use super::{
    Format, Unpacked, centred, half, iq4_values, load_128, load_256, load_512, quarters, raised,
};
use crate::matmul::decode::block_scales::{self, half_word, word, words};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

/// Right shifts of the two halves, for 16-bit lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(low: i16, high: i16) -> __m512i {
    let low = _mm512_castsi256_si512(_mm256_set1_epi16(low));
    _mm512_inserti64x4::<1>(low, _mm256_set1_epi16(high))
}

/// One bit of each byte per half: bit `2 j` in the low, `2 j + 1` in the high.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bits_of_blocks(bits: __m512i, j: usize) -> __mmask64 {
    let low = _mm512_castsi256_si512(_mm256_set1_epi8(1 << (2 * j)));
    let select = _mm512_inserti64x4::<1>(low, _mm256_set1_epi8((2_u8 << (2 * j)) as i8));
    _mm512_test_epi8_mask(bits, select)
}

/// A byte per block of 32, as a float in the lanes of both its groups.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn per_block(bytes: u64) -> __m512 {
    let bytes = _mm_cvtsi64_si128(bytes.cast_signed());
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(bytes, bytes)))
}

/// Scales and minima of Q4_K and Q5_K.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn q4_k_scales(bytes: &[u8]) -> (__m512, __m512) {
    let (scales, mins) = block_scales::q4_k(words(&bytes[4..]));
    (
        _mm512_mul_ps(half(half_word(bytes)), per_block(scales)),
        // Minima are subtracted: the sign bit of the half float is flipped.
        _mm512_mul_ps(half(half_word(&bytes[2..]) ^ 0x8000), per_block(mins)),
    )
}

/// The 4-bit quants of blocks `2 j` and `2 j + 1` of Q4_K and Q5_K.
///
/// # Safety
/// `bytes` holds 128 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibbles(bytes: &[u8], at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    let both = _mm512_broadcast_i64x4(unsafe { load_256(bytes, at + 32 * j) });
    let quants = _mm512_srlv_epi16(both, halves(0, 4));
    _mm512_and_si512(quants, _mm512_set1_epi8(0xf))
}

/// The 2-bit quants of blocks `2 j` and `2 j + 1` of Q2_K and Q3_K.
///
/// # Safety
/// `bytes` holds 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn two_bits(bytes: &[u8], at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    let both = _mm512_broadcast_i64x4(unsafe { load_256(bytes, at + j / 2 * 32) });
    let shifts = if j.is_multiple_of(2) {
        halves(0, 2)
    } else {
        halves(4, 6)
    };
    _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(3))
}

impl Format for Q2K {
    const CHUNK_BYTES: usize = 84;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let packed = _mm512_cvtepu8_epi32(load_128(bytes, 0));
            let scales = _mm512_and_si512(packed, _mm512_set1_epi32(0xf));
            let mins = _mm512_srli_epi32::<4>(packed);
            let scale = half(half_word(&bytes[80..]));
            let min = half(half_word(&bytes[82..]) ^ 0x8000);
            Unpacked {
                quants: quarters!(j => two_bits(bytes, 16, j)),
                scales: _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales)),
                mins: _mm512_mul_ps(min, _mm512_cvtepi32_ps(mins)),
            }
        }
    }
}

impl Format for Q3K {
    const CHUNK_BYTES: usize = 110;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let high = _mm512_broadcast_i64x4(load_256(bytes, 0));
            let quants = quarters!(j => {
                let low = two_bits(bytes, 32, j);
                let mask = bits_of_blocks(high, j);
                _mm512_mask_add_epi8(low, mask, low, _mm512_set1_epi8(4))
            });
            let [first, second] = block_scales::q3_k(words(&bytes[96..]));
            let packed = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
            let scales = _mm_sub_epi8(packed, _mm_set1_epi8(32));
            let scale = half(half_word(&bytes[108..]));
            let scales = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)));
            centred(quants, 4.0, scales)
        }
    }
}

impl Format for Q4K {
    const CHUNK_BYTES: usize = 144;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        let (scales, mins) = q4_k_scales(bytes);
        Unpacked {
            // SAFETY: the caller's.
            quants: quarters!(j => unsafe { nibbles(bytes, 16, j) }),
            scales,
            mins,
        }
    }
}

impl Format for Q5K {
    const CHUNK_BYTES: usize = 176;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let high = _mm512_broadcast_i64x4(load_256(bytes, 16));
            let quants = quarters!(j => {
                let low = nibbles(bytes, 48, j);
                let mask = bits_of_blocks(high, j);
                _mm512_mask_add_epi8(low, mask, low, _mm512_set1_epi8(16))
            });
            let (scales, mins) = q4_k_scales(bytes);
            Unpacked {
                quants,
                scales,
                mins,
            }
        }
    }
}

impl Format for Q6K {
    const CHUNK_BYTES: usize = 210;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        let low = _mm512_set1_epi8(0xf);
        // Nibbles stay in the low bits; the upper two bits of each quant are brought to bits 4 and 5.
        let join = |nibbles, high| {
            let quants = _mm512_ternarylogic_epi32::<0xca>(low, nibbles, high);
            _mm512_and_si512(quants, _mm512_set1_epi8(0x3f))
        };
        // SAFETY: the caller's.
        let half_block = |n: usize| unsafe {
            let nibbles = load_512(bytes, 64 * n);
            let high = _mm512_broadcast_i64x4(load_256(bytes, 128 + 32 * n));
            [
                join(nibbles, _mm512_sllv_epi16(high, halves(4, 2))),
                join(
                    _mm512_srli_epi16::<4>(nibbles),
                    _mm512_srlv_epi16(high, halves(0, 2)),
                ),
            ]
        };
        let ([a, b], [c, d]) = (half_block(0), half_block(1));
        // SAFETY: the caller's.
        let scales = unsafe { _mm512_cvtepi8_epi32(load_128(bytes, 192)) };
        let scale = half(half_word(&bytes[208..]));
        let scales = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales));
        centred([a, b, c, d], 32.0, scales)
    }
}

impl Format for Iq4Xs {
    const CHUNK_BYTES: usize = 136;
    const RAISED: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        let quants = quarters!(j => {
            // SAFETY: the caller's.
            let (first, second) = unsafe {
                (
                    load_128(bytes, 8 + 32 * j),
                    load_128(bytes, 24 + 32 * j),
                )
            };
            let both = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(first), 0xff00, second);
            let quarters = 0x4_0004_0004_0004;
            let shifts = _mm512_setr_epi64(0, 0, quarters, quarters, 0, 0, quarters, quarters);
            let codes = _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(0xf));
            iq4_values(codes)
        });
        let nibble = _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28);
        let pair = _mm512_srli_epi32::<1>(nibble);
        let low = _mm512_set1_epi32(word(&bytes[4..]).cast_signed());
        let high = _mm512_set1_epi32(i32::from(half_word(&bytes[2..])));
        let low = _mm512_and_si512(_mm512_srlv_epi32(low, nibble), _mm512_set1_epi32(0xf));
        let high = _mm512_and_si512(_mm512_srlv_epi32(high, pair), _mm512_set1_epi32(3));
        let scales = _mm512_or_si512(low, _mm512_slli_epi32::<4>(high));
        let scales = _mm512_sub_epi32(scales, _mm512_set1_epi32(32));
        let scale = half(half_word(bytes));
        raised(quants, _mm512_mul_ps(scale, _mm512_cvtepi32_ps(scales)))
    }
}
