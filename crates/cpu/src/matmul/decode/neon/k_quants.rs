//! Super-blocks of 256 elements, one to a chunk.

use super::intrinsics::*;
use super::{Format, bytes, centred, field, iq4_values};
use crate::matmul::decode::scalar::k_quants::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};

/// Bit `j` of each byte, as `value` where it is set.
#[inline(always)]
unsafe fn bit(bytes: uint8x16_t, j: usize, value: u8) -> uint8x16_t {
    // SAFETY: the caller's.
    unsafe { vandq_u8(vtstq_u8(bytes, vdupq_n_u8(1 << j)), vdupq_n_u8(value)) }
}

/// `of(0)` and `of(16)`: the halves of a block whose bytes lie side by side.
macro_rules! halves {
    ($at:ident => $quants:expr) => {
        [
            {
                let $at = 0;
                $quants
            },
            {
                let $at = 16;
                $quants
            },
        ]
    };
}

impl Format for Q2K {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            halves!(at => {
                let packed = bytes(chunk, 16 + j / 4 * 32 + at);
                vreinterpretq_s8_u8(field(packed, 2 * (j % 4), 3))
            })
        }
    }
}

impl Format for Q3K {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            halves!(at => {
                let low = field(bytes(chunk, 32 + j / 4 * 32 + at), 2 * (j % 4), 3);
                centred(vorrq_u8(low, bit(bytes(chunk, at), j, 4)), 4)
            })
        }
    }
}

impl Format for Q4K {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            halves!(at => {
                let packed = bytes(chunk, 16 + j / 2 * 32 + at);
                vreinterpretq_s8_u8(field(packed, 4 * (j % 2), 0xf))
            })
        }
    }
}

impl Format for Q5K {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            halves!(at => {
                let low = field(bytes(chunk, 48 + j / 2 * 32 + at), 4 * (j % 2), 0xf);
                vreinterpretq_s8_u8(vorrq_u8(low, bit(bytes(chunk, 16 + at), j, 16)))
            })
        }
    }
}

impl Format for Q6K {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        let (n, k) = (j / 4, j % 4);
        // SAFETY: the caller's.
        unsafe {
            halves!(at => {
                let low = field(bytes(chunk, 64 * n + k % 2 * 32 + at), k / 2 * 4, 0xf);
                let high = field(bytes(chunk, 128 + 32 * n + at), 2 * k, 3);
                centred(vorrq_u8(low, vshlq_u8(high, vdupq_n_s8(4))), 32)
            })
        }
    }
}

impl Format for Iq4Xs {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let packed = bytes(chunk, 8 + 16 * j);
            [
                iq4_values(field(packed, 0, 0xf)),
                iq4_values(field(packed, 4, 0xf)),
            ]
        }
    }
}
