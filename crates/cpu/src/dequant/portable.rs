//! [`Level`] in portable Rust.

use half::f16;

use super::blocks::Half;
use super::formats::Level;

/// Arrays and loops.
#[derive(Clone, Copy)]
pub struct Portable;

#[inline(always)]
fn each<T>(mut f: impl FnMut(usize) -> T) -> [T; 32]
where
    T: Copy + Default,
{
    let mut out = [T::default(); 32];
    for (i, out) in out.iter_mut().enumerate() {
        *out = f(i);
    }
    out
}

impl Level for Portable {
    type Bytes = [u8; 32];

    #[inline(always)]
    fn half(self, bits: Half) -> f32 {
        f16::from_le_bytes(bits).to_f32()
    }

    #[inline(always)]
    fn load(self, bytes: &[u8; 32]) -> [u8; 32] {
        *bytes
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [u8; 32] {
        each(|i| bytes[i % 16] >> (4 * (i / 16)) & 15)
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: [u8; 32], mask: u8) -> [u8; 32] {
        each(|i| bytes[i] >> SHIFT & mask)
    }

    #[inline(always)]
    fn times_16(self, bytes: [u8; 32]) -> [u8; 32] {
        each(|i| bytes[i] << 4)
    }

    #[inline(always)]
    fn spread(self, bits: u32, value: u8) -> [u8; 32] {
        each(|i| if bits >> i & 1 != 0 { value } else { 0 })
    }

    #[inline(always)]
    fn where_bit(self, bytes: [u8; 32], bit: u8, value: u8) -> [u8; 32] {
        each(|i| if bytes[i] & bit != 0 { value } else { 0 })
    }

    #[inline(always)]
    fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        each(|i| a[i] | b[i])
    }

    #[inline(always)]
    fn minus(self, bytes: [u8; 32], by: u8) -> [u8; 32] {
        each(|i| bytes[i].wrapping_sub(by))
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], bytes: [u8; 32]) -> [u8; 32] {
        each(|i| table[usize::from(bytes[i] & 15)] as u8)
    }

    #[inline(always)]
    fn scaled(self, out: &mut [f32; 32], q: [u8; 32], scale: [f32; 2]) {
        *out = each(|i| scale[i / 16] * f32::from(q[i] as i8));
    }

    #[inline(always)]
    fn affine(self, out: &mut [f32; 32], q: [u8; 32], scale: [f32; 2], offset: [f32; 2]) {
        *out = each(|i| scale[i / 16] * f32::from(q[i] as i8) + offset[i / 16]);
    }
}
