//! The NEON intrinsics that the kernels use, in plain Rust, for tests on other machines.
//!
//! Source: the Arm intrinsics reference (ACLE). Like the real ones, they are unsafe to call.

#![allow(non_camel_case_types)]
// SAFETY: (all functions) only those that take pointers have a contract, the vector's length.

pub type uint8x8_t = [u8; 8];
pub type uint8x16_t = [u8; 16];
pub type int8x16_t = [i8; 16];
pub type int32x4_t = [i32; 4];
pub type float32x4_t = [f32; 4];

use std::array::from_fn;

pub unsafe fn vld1q_u8(from: *const u8) -> uint8x16_t {
    // SAFETY: the caller's.
    unsafe { from.cast::<uint8x16_t>().read_unaligned() }
}

pub unsafe fn vld1q_s8(from: *const i8) -> int8x16_t {
    // SAFETY: the caller's.
    unsafe { from.cast::<int8x16_t>().read_unaligned() }
}

pub unsafe fn vld1q_f32(from: *const f32) -> float32x4_t {
    // SAFETY: the caller's.
    unsafe { from.cast::<float32x4_t>().read_unaligned() }
}

pub unsafe fn vdup_n_u8(x: u8) -> uint8x8_t {
    [x; 8]
}

pub unsafe fn vdupq_n_u8(x: u8) -> uint8x16_t {
    [x; 16]
}

pub unsafe fn vdupq_n_s8(x: i8) -> int8x16_t {
    [x; 16]
}

pub unsafe fn vdupq_n_f32(x: f32) -> float32x4_t {
    [x; 4]
}

pub unsafe fn vcombine_u8(low: uint8x8_t, high: uint8x8_t) -> uint8x16_t {
    from_fn(|i| if i < 8 { low[i] } else { high[i - 8] })
}

pub unsafe fn vandq_u8(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    from_fn(|i| a[i] & b[i])
}

pub unsafe fn vorrq_u8(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    from_fn(|i| a[i] | b[i])
}

/// Shifts left, or right where the count is negative.
pub unsafe fn vshlq_u8(a: uint8x16_t, count: int8x16_t) -> uint8x16_t {
    from_fn(|i| {
        let by = u32::from(count[i].unsigned_abs());
        let shifted = if count[i] < 0 {
            a[i].checked_shr(by)
        } else {
            a[i].checked_shl(by)
        };
        shifted.unwrap_or(0)
    })
}

/// All ones where the operands have a set bit in common.
pub unsafe fn vtstq_u8(a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
    from_fn(|i| if a[i] & b[i] == 0 { 0 } else { 0xff })
}

pub unsafe fn vreinterpretq_s8_u8(a: uint8x16_t) -> int8x16_t {
    a.map(u8::cast_signed)
}

pub unsafe fn vsubq_s8(a: int8x16_t, b: int8x16_t) -> int8x16_t {
    from_fn(|i| a[i].wrapping_sub(b[i]))
}

/// Bytes of the table, 0 for an index outside it.
pub unsafe fn vqtbl1q_s8(table: int8x16_t, index: uint8x16_t) -> int8x16_t {
    index.map(|i| table.get(usize::from(i)).copied().unwrap_or(0))
}

pub unsafe fn vcvtq_f32_s32(a: int32x4_t) -> float32x4_t {
    a.map(|x| x as f32)
}

pub unsafe fn vaddq_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    from_fn(|i| a[i] + b[i])
}

/// `a + b * c`, rounded once.
pub unsafe fn vfmaq_f32(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
    from_fn(|i| b[i].mul_add(c[i], a[i]))
}

/// `a + b * c`, rounded once.
pub unsafe fn vfmaq_n_f32(a: float32x4_t, b: float32x4_t, c: f32) -> float32x4_t {
    from_fn(|i| b[i].mul_add(c, a[i]))
}

pub unsafe fn vaddvq_f32(a: float32x4_t) -> f32 {
    (a[0] + a[1]) + (a[2] + a[3])
}

/// The `sdot` instruction on a zero accumulator.
pub unsafe fn dot(a: int8x16_t, b: int8x16_t) -> int32x4_t {
    from_fn(|lane| {
        (4 * lane..4 * lane + 4)
            .map(|i| i32::from(a[i]) * i32::from(b[i]))
            .sum()
    })
}
