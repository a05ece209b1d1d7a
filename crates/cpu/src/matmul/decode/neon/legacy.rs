//! Blocks of 32 elements, eight to a chunk.

use super::intrinsics::*;
use super::{Format, bytes, centred, field, iq4_values};
use crate::matmul::decode::scalar::legacy::{Iq4Nl, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};

/// The low nibbles of 16 bytes, then the high ones.
#[inline(always)]
unsafe fn nibbles(chunk: &[u8], at: usize) -> [uint8x16_t; 2] {
    // SAFETY: the caller's.
    unsafe {
        let packed = bytes(chunk, at);
        [field(packed, 0, 0xf), field(packed, 4, 0xf)]
    }
}

/// Two bytes' bits as the fifth bits of sixteen quants.
#[inline(always)]
unsafe fn fifth_bits(first: u8, second: u8) -> uint8x16_t {
    const SELECT: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];
    // SAFETY: the caller's; the array has 16 bytes.
    unsafe {
        let bits = vcombine_u8(vdup_n_u8(first), vdup_n_u8(second));
        let set = vtstq_u8(bits, vld1q_u8(SELECT.as_ptr()));
        vandq_u8(set, vdupq_n_u8(16))
    }
}

/// The 4-bit quants of a block, with the fifth bits in front of them from `at` on.
#[inline(always)]
unsafe fn five_bits(chunk: &[u8], at: usize) -> [uint8x16_t; 2] {
    let bits = &chunk[at..at + 4];
    // SAFETY: the caller's.
    unsafe {
        let [low, high] = nibbles(chunk, at + 4);
        [
            vorrq_u8(low, fifth_bits(bits[0], bits[1])),
            vorrq_u8(high, fifth_bits(bits[2], bits[3])),
        ]
    }
}

impl Format for Q4_0 {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = nibbles(chunk, 18 * j + 2);
            [centred(low, 8), centred(high, 8)]
        }
    }
}

impl Format for Q4_1 {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = nibbles(chunk, 20 * j + 4);
            [vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)]
        }
    }
}

impl Format for Q5_0 {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = five_bits(chunk, 22 * j + 2);
            [centred(low, 16), centred(high, 16)]
        }
    }
}

impl Format for Q5_1 {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = five_bits(chunk, 24 * j + 4);
            [vreinterpretq_s8_u8(low), vreinterpretq_s8_u8(high)]
        }
    }
}

impl Format for Q8_0 {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            [
                vreinterpretq_s8_u8(bytes(chunk, 34 * j + 2)),
                vreinterpretq_s8_u8(bytes(chunk, 34 * j + 18)),
            ]
        }
    }
}

impl Format for Iq4Nl {
    #[inline(always)]
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2] {
        // SAFETY: the caller's.
        unsafe {
            let [low, high] = nibbles(chunk, 18 * j + 2);
            [iq4_values(low), iq4_values(high)]
        }
    }
}
