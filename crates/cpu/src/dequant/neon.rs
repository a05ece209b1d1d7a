//! [`Level`] with NEON, which every AArch64 processor has.
//!
//! The compiler vectorizes the portable loops; only half floats and table look-ups are spelled out.

use std::arch::aarch64::{vld1q_s8, vld1q_u8, vqtbl1q_s8, vst1q_s8};

use super::blocks::Half;
use super::formats::Level;
use super::portable::Portable;

/// NEON.
#[derive(Clone, Copy)]
pub struct Neon;

impl Level for Neon {
    type Bytes = [u8; 32];

    #[inline(always)]
    fn half(self, bits: Half) -> f32 {
        let value: f32;
        // SAFETY: the conversion is part of the base architecture; it only writes its result. (The
        // intrinsic is not in stable Rust.)
        unsafe {
            std::arch::asm!(
                "fcvt {value:s}, {bits:h}",
                value = lateout(vreg) value,
                bits = in(vreg) u32::from(u16::from_le_bytes(bits)),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        value
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 32]) -> [u8; 32] {
        Portable.load(bytes)
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [u8; 32] {
        Portable.nibbles(bytes)
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: [u8; 32], mask: u8) -> [u8; 32] {
        Portable.field::<SHIFT>(bytes, mask)
    }

    #[inline(always)]
    fn times_16(self, bytes: [u8; 32]) -> [u8; 32] {
        Portable.times_16(bytes)
    }

    #[inline(always)]
    fn spread(self, bits: u32, value: u8) -> [u8; 32] {
        Portable.spread(bits, value)
    }

    #[inline(always)]
    fn where_bit(self, bytes: [u8; 32], bit: u8, value: u8) -> [u8; 32] {
        Portable.where_bit(bytes, bit, value)
    }

    #[inline(always)]
    fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        Portable.or(a, b)
    }

    #[inline(always)]
    fn minus(self, bytes: [u8; 32], by: u8) -> [u8; 32] {
        Portable.minus(bytes, by)
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], bytes: [u8; 32]) -> [u8; 32] {
        let mut out = [0_u8; 32];
        // SAFETY: 16 bytes at offsets 0 and 16 of 32-byte arrays, and a table of 16.
        unsafe {
            let table = vld1q_s8(table.as_ptr());
            for half in [0, 16] {
                let values = vqtbl1q_s8(table, vld1q_u8(bytes.as_ptr().add(half)));
                vst1q_s8(out.as_mut_ptr().add(half).cast(), values);
            }
        }
        out
    }

    #[inline(always)]
    fn scaled(self, out: &mut [f32; 32], q: [u8; 32], scale: [f32; 2]) {
        Portable.scaled(out, q, scale);
    }

    #[inline(always)]
    fn affine(self, out: &mut [f32; 32], q: [u8; 32], scale: [f32; 2], offset: [f32; 2]) {
        Portable.affine(out, q, scale, offset);
    }
}
