//! Super-blocks of 256 elements.

use std::arch::x86_64::*;

use super::{
    Format, Scales, field, groups_of_blocks, iq4_values, load_128, load_256, low_then_high_nibbles,
};
use crate::matmul::decode::block_scales::{self, half_word, word, words};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;
pub(super) struct Iq4Xs;

/// A half float in every lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn half(bits: u16) -> __m256 {
    _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// `scale` times each of sixteen signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn times_bytes(scale: __m256, bytes: __m128i) -> [__m256; 2] {
    let times = |bytes| _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
    [times(bytes), times(_mm_srli_si128::<8>(bytes))]
}

/// `scale` times each of eight bytes, for both groups of a block.
#[inline]
#[target_feature(enable = "avx2")]
fn times_block_bytes(scale: __m256, bytes: u64) -> [__m256; 2] {
    let bytes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes.cast_signed()));
    groups_of_blocks(_mm256_mul_ps(scale, _mm256_cvtepi32_ps(bytes)))
}

/// Scales and minima of Q4_K and Q5_K.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn q4_k_scales(chunk: &[u8]) -> Scales {
    let (scales, mins) = block_scales::q4_k(words(&chunk[4..]));
    Scales {
        scales: times_block_bytes(half(half_word(chunk)), scales),
        // Minima are subtracted: the sign bit of the half float is flipped.
        mins: times_block_bytes(half(half_word(&chunk[2..]) ^ 0x8000), mins),
    }
}

/// Bit `j` of each byte, as `value` where it is set.
#[inline]
#[target_feature(enable = "avx2")]
fn bit(bytes: __m256i, j: usize, value: i8) -> __m256i {
    let select = _mm256_set1_epi8((1_u8 << j).cast_signed());
    let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
    _mm256_and_si256(set, _mm256_set1_epi8(value))
}

impl Format for Q2K {
    const CHUNK_BYTES: usize = 84;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        // SAFETY: the caller's.
        let packed = unsafe { load_128(chunk, 0) };
        let low = _mm_set1_epi8(0xf);
        let mins = _mm_and_si128(_mm_srli_epi16::<4>(packed), low);
        let min = half(half_word(&chunk[82..]) ^ 0x8000);
        Scales {
            scales: times_bytes(half(half_word(&chunk[80..])), _mm_and_si128(packed, low)),
            mins: times_bytes(min, mins),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let packed = unsafe { load_256(chunk, 16 + j / 4 * 32) };
        field(packed, 2 * (j % 4), 3)
    }
}

impl Format for Q3K {
    const CHUNK_BYTES: usize = 110;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        let [first, second] = block_scales::q3_k(words(&chunk[96..]));
        let packed = _mm_set_epi64x(second.cast_signed(), first.cast_signed());
        let scales = _mm_sub_epi8(packed, _mm_set1_epi8(32));
        Scales::symmetric(times_bytes(half(half_word(&chunk[108..])), scales), 4.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let (packed, high) = unsafe { (load_256(chunk, 32 + j / 4 * 32), load_256(chunk, 0)) };
        _mm256_or_si256(field(packed, 2 * (j % 4), 3), bit(high, j, 4))
    }
}

impl Format for Q4K {
    const CHUNK_BYTES: usize = 144;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        q4_k_scales(chunk)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let packed = unsafe { load_256(chunk, 16 + j / 2 * 32) };
        field(packed, 4 * (j % 2), 0xf)
    }
}

impl Format for Q5K {
    const CHUNK_BYTES: usize = 176;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        q4_k_scales(chunk)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        let (packed, high) = unsafe { (load_256(chunk, 48 + j / 2 * 32), load_256(chunk, 16)) };
        _mm256_or_si256(field(packed, 4 * (j % 2), 0xf), bit(high, j, 16))
    }
}

impl Format for Q6K {
    const CHUNK_BYTES: usize = 210;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        // SAFETY: the caller's.
        let scales = unsafe { load_128(chunk, 192) };
        Scales::symmetric(times_bytes(half(half_word(&chunk[208..])), scales), 32.0)
    }

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
    const CHUNK_BYTES: usize = 136;
    const SIGNED: bool = true;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn scales(chunk: &[u8]) -> Scales {
        assert_eq!(chunk.len(), Self::CHUNK_BYTES);
        let nibble = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        let pair = _mm256_srli_epi32::<1>(nibble);
        let low = _mm256_set1_epi32(word(&chunk[4..]).cast_signed());
        let high = _mm256_set1_epi32(i32::from(half_word(&chunk[2..])));
        let low = _mm256_and_si256(_mm256_srlv_epi32(low, nibble), _mm256_set1_epi32(0xf));
        let high = _mm256_and_si256(_mm256_srlv_epi32(high, pair), _mm256_set1_epi32(3));
        let scales = _mm256_or_si256(low, _mm256_slli_epi32::<4>(high));
        let scales = _mm256_sub_epi32(scales, _mm256_set1_epi32(32));
        let scales = _mm256_mul_ps(half(half_word(chunk)), _mm256_cvtepi32_ps(scales));
        Scales::symmetric(groups_of_blocks(scales), 0.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i {
        // SAFETY: the caller's.
        iq4_values(unsafe { low_then_high_nibbles(chunk, 8 + 16 * j) })
    }
}
