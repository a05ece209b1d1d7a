//! [`Level`] with AVX2 and F16C, and with AVX-512.
//!
//! Every method is inlined into a function compiled for these instructions; see `dequantizer`.

use std::arch::x86_64::*;

use super::blocks::Half;
use super::formats::Level;

/// AVX2 and F16C; with `WIDE` also AVX-512 F, BW and VL, used where elements are 4 bytes wide.
#[derive(Clone, Copy)]
pub struct X86<const WIDE: bool>(());

impl<const WIDE: bool> X86<WIDE> {
    /// The right to use the instructions.
    ///
    /// # Safety
    /// The machine has them, and the value is used only where they are enabled.
    pub unsafe fn enabled() -> Self {
        X86(())
    }
}

/// Bytes `16 * half ..`, sign-extended to 16 numbers.
#[inline(always)]
unsafe fn wide(q: __m256i, half: usize) -> __m512 {
    // SAFETY: the caller has AVX-512.
    unsafe {
        let q = if half == 0 {
            _mm256_castsi256_si128(q)
        } else {
            _mm256_extracti128_si256::<1>(q)
        };
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q))
    }
}

/// Bytes `8 * quarter ..`, sign-extended to 8 numbers.
#[inline(always)]
unsafe fn narrow(q: __m256i, quarter: usize) -> __m256 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let half = if quarter < 2 {
            _mm256_castsi256_si128(q)
        } else {
            _mm256_extracti128_si256::<1>(q)
        };
        let q = if quarter.is_multiple_of(2) {
            half
        } else {
            _mm_unpackhi_epi64(half, half)
        };
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q))
    }
}

// SAFETY of the blocks below: a value of `X86` exists only where the features are enabled, and memory is
// reached only through arrays of the vectors' sizes.
impl<const WIDE: bool> Level for X86<WIDE> {
    type Bytes = __m256i;

    #[inline(always)]
    fn half(self, bits: Half) -> f32 {
        // SAFETY: F16C is enabled.
        unsafe {
            let half = _mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bits)));
            _mm_cvtss_f32(_mm_cvtph_ps(half))
        }
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 32]) -> __m256i {
        // SAFETY: AVX2 is enabled; the load is within the array.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: AVX2 is enabled; the load is within the array.
        unsafe {
            let low = _mm_loadu_si128(bytes.as_ptr().cast());
            let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
            _mm256_and_si256(both, _mm256_set1_epi8(15))
        }
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: __m256i, mask: u8) -> __m256i {
        // SAFETY: AVX2 is enabled. The mask drops what the shift brought in from the neighbour.
        unsafe {
            let shifted = _mm256_srli_epi16::<SHIFT>(bytes);
            _mm256_and_si256(shifted, _mm256_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn times_16(self, bytes: __m256i) -> __m256i {
        // SAFETY: AVX2 is enabled. Nothing reaches the neighbour: the bytes are below 16.
        unsafe { _mm256_slli_epi16::<4>(bytes) }
    }

    #[inline(always)]
    fn spread(self, bits: u32, value: u8) -> __m256i {
        // SAFETY: the features are enabled.
        unsafe {
            if WIDE {
                return _mm256_maskz_set1_epi8(bits, value as i8);
            }
            let byte_of_lane = _mm256_set_epi64x(
                0x0303_0303_0303_0303,
                0x0202_0202_0202_0202,
                0x0101_0101_0101_0101,
                0,
            );
            let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), byte_of_lane);
            let bit_of_lane = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_lane), bit_of_lane);
            _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
        }
    }

    #[inline(always)]
    fn where_bit(self, bytes: __m256i, bit: u8, value: u8) -> __m256i {
        // SAFETY: the features are enabled.
        unsafe {
            let bit = _mm256_set1_epi8(bit as i8);
            if WIDE {
                let set = _mm256_test_epi8_mask(bytes, bit);
                return _mm256_maskz_set1_epi8(set, value as i8);
            }
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
            _mm256_and_si256(set, _mm256_set1_epi8(value as i8))
        }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 is enabled.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn minus(self, bytes: __m256i, by: u8) -> __m256i {
        // SAFETY: AVX2 is enabled.
        unsafe { _mm256_sub_epi8(bytes, _mm256_set1_epi8(by as i8)) }
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], bytes: __m256i) -> __m256i {
        // SAFETY: AVX2 is enabled; the load is within the table.
        unsafe {
            let table = _mm_loadu_si128(table.as_ptr().cast());
            _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), bytes)
        }
    }

    #[inline(always)]
    fn scaled(self, out: &mut [f32; 32], q: __m256i, scale: [f32; 2]) {
        // SAFETY: the features are enabled; the stores are within chunks of their size.
        unsafe {
            if WIDE {
                for (half, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    let y = _mm512_mul_ps(_mm512_set1_ps(scale[half]), wide(q, half));
                    _mm512_storeu_ps(out.as_mut_ptr(), y);
                }
            } else {
                for (quarter, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let scale = _mm256_set1_ps(scale[quarter / 2]);
                    let y = _mm256_mul_ps(scale, narrow(q, quarter));
                    _mm256_storeu_ps(out.as_mut_ptr(), y);
                }
            }
        }
    }

    #[inline(always)]
    fn affine(self, out: &mut [f32; 32], q: __m256i, scale: [f32; 2], offset: [f32; 2]) {
        // SAFETY: the features are enabled; the stores are within chunks of their size.
        unsafe {
            if WIDE {
                for (half, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                    let y = _mm512_mul_ps(_mm512_set1_ps(scale[half]), wide(q, half));
                    let y = _mm512_add_ps(y, _mm512_set1_ps(offset[half]));
                    _mm512_storeu_ps(out.as_mut_ptr(), y);
                }
            } else {
                for (quarter, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let scale = _mm256_set1_ps(scale[quarter / 2]);
                    let y = _mm256_mul_ps(scale, narrow(q, quarter));
                    let y = _mm256_add_ps(y, _mm256_set1_ps(offset[quarter / 2]));
                    _mm256_storeu_ps(out.as_mut_ptr(), y);
                }
            }
        }
    }
}
