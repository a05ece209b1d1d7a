//! How each block format turns into numbers.
//!
//! Every format yields groups of 32 small integers, written as `scale * q` or `scale * q + offset`
//! through the vector operations of a [`Level`]. The multiplications and their order are those of the
//! reference in `minfer-gguf` and are never contracted, so the results are equal bit for bit.

use minfer_gguf::quantize::IQ4_NL_VALUES;

use super::blocks::{
    Block, Half, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0,
};

/// Operations on 32 bytes at once, in the instructions of one level.
///
/// A value of the type stands for the right to use the instructions: one that some machines lack is made
/// by an `unsafe` constructor only.
pub trait Level: Copy {
    /// 32 bytes, signed or not.
    type Bytes: Copy;

    /// The value of a half-precision number.
    fn half(self, bits: Half) -> f32;
    /// 32 bytes as they are.
    fn load(self, bytes: &[u8; 32]) -> Self::Bytes;
    /// The low nibbles of 16 bytes, then the high ones.
    fn nibbles(self, bytes: &[u8; 16]) -> Self::Bytes;
    /// `byte >> SHIFT & mask`.
    fn field<const SHIFT: i32>(self, bytes: Self::Bytes, mask: u8) -> Self::Bytes;
    /// `byte << 4` of bytes below 16.
    fn times_16(self, bytes: Self::Bytes) -> Self::Bytes;
    /// `value` in byte `i` if bit `i` of `bits` is set, else 0.
    fn spread(self, bits: u32, value: u8) -> Self::Bytes;
    /// `value` where a byte has the single bit `bit`, else 0.
    fn where_bit(self, bytes: Self::Bytes, bit: u8, value: u8) -> Self::Bytes;
    /// Bitwise or.
    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// `byte - by`, as signed bytes.
    fn minus(self, bytes: Self::Bytes, by: u8) -> Self::Bytes;
    /// `table[byte]` of bytes below 16.
    fn look_up(self, table: &[i8; 16], bytes: Self::Bytes) -> Self::Bytes;
    /// `scale * q` of signed bytes; each half of 16 has its scale.
    fn scaled(self, out: &mut [f32; 32], q: Self::Bytes, scale: [f32; 2]);
    /// `scale * q + offset` of signed bytes, with two roundings.
    fn affine(self, out: &mut [f32; 32], q: Self::Bytes, scale: [f32; 2], offset: [f32; 2]);
}

/// A block format: how to write the `32 * GROUPS` elements of a block.
pub trait Format<const GROUPS: usize>: Block {
    /// Writes the elements.
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; GROUPS]);
}

/// Bit 4 of each element from a bit field.
#[inline(always)]
fn fifth_bits<L: Level>(level: L, high: [u8; 4]) -> L::Bytes {
    level.spread(u32::from_le_bytes(high), 16)
}

impl Format<1> for Q4_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        let q = level.minus(level.nibbles(&self.q), 8);
        level.scaled(out, q, [level.half(self.d); 2]);
    }
}

impl Format<1> for Q4_1 {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        let q = level.nibbles(&self.q);
        level.affine(out, q, [level.half(self.d); 2], [level.half(self.m); 2]);
    }
}

impl Format<1> for Q5_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        let q = level.or(level.nibbles(&self.q), fifth_bits(level, self.high));
        level.scaled(out, level.minus(q, 16), [level.half(self.d); 2]);
    }
}

impl Format<1> for Q5_1 {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        let q = level.or(level.nibbles(&self.q), fifth_bits(level, self.high));
        level.affine(out, q, [level.half(self.d); 2], [level.half(self.m); 2]);
    }
}

impl Format<1> for Q8_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        level.scaled(out, level.load(&self.q), [level.half(self.d); 2]);
    }
}

impl Format<1> for Iq4Nl {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, [out]: &mut [[f32; 32]; 1]) {
        let q = level.look_up(&IQ4_NL_VALUES, level.nibbles(&self.q));
        level.scaled(out, q, [level.half(self.d); 2]);
    }
}

/// The two neighbouring scales of a group of 32 elements.
#[inline(always)]
fn pair(scales: &[f32; 16], group: usize) -> [f32; 2] {
    [scales[2 * group], scales[2 * group + 1]]
}

/// Four groups of two-bit numbers.
#[inline(always)]
fn two_bits<L: Level>(level: L, bytes: &[u8; 32]) -> [L::Bytes; 4] {
    let q = level.load(bytes);
    [
        level.field::<0>(q, 3),
        level.field::<2>(q, 3),
        level.field::<4>(q, 3),
        level.field::<6>(q, 3),
    ]
}

/// Two groups of four-bit numbers.
#[inline(always)]
fn four_bits<L: Level>(level: L, bytes: &[u8; 32]) -> [L::Bytes; 2] {
    let q = level.load(bytes);
    [level.field::<0>(q, 15), level.field::<4>(q, 15)]
}

impl Format<8> for Q2K {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let (d, dmin) = (level.half(self.d), level.half(self.dmin));
        let scale = self.scales.map(|s| d * f32::from(s & 15));
        let offset = self.scales.map(|s| -(dmin * f32::from(s >> 4)));
        for (part, bytes) in self.q.as_chunks().0.iter().enumerate() {
            for (i, q) in two_bits(level, bytes).into_iter().enumerate() {
                let group = 4 * part + i;
                level.affine(
                    &mut out[group],
                    q,
                    pair(&scale, group),
                    pair(&offset, group),
                );
            }
        }
    }
}

/// The 6-bit scales of a [`Q3K`] block, 32 too large.
#[inline(always)]
fn q3_scales(packed: &[u8; 12]) -> [u8; 16] {
    let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| packed[4 * i + b]));
    let (a, b, c) = (word(0), word(1), word(2));
    let (low4, low2) = (0x0f0f_0f0f, 0x0303_0303);
    let words = [
        a & low4 | (c & low2) << 4,
        b & low4 | (c >> 2 & low2) << 4,
        a >> 4 & low4 | (c >> 4 & low2) << 4,
        b >> 4 & low4 | (c >> 6 & low2) << 4,
    ];
    let mut out = [0; 16];
    for (out, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
        *out = word.to_le_bytes();
    }
    out
}

impl Format<8> for Q3K {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let d = level.half(self.d);
        let scale = q3_scales(&self.scales).map(|s| d * f32::from(s as i8 - 32));
        let high = level.load(&self.high);
        for (part, bytes) in self.q.as_chunks().0.iter().enumerate() {
            for (i, q) in two_bits(level, bytes).into_iter().enumerate() {
                let group = 4 * part + i;
                let q = level.or(q, level.where_bit(high, 1 << group, 4));
                level.scaled(&mut out[group], level.minus(q, 4), pair(&scale, group));
            }
        }
    }
}

/// The 6-bit scales and minima of a [`Q4K`] or [`Q5K`] block.
#[inline(always)]
fn k_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let word = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| packed[4 * i + b]));
    let (a, b, c) = (word(0), word(1), word(2));
    let (low6, low4, low2) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x0303_0303);
    let join = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    let scales = join(a & low6, c & low4 | (a >> 6 & low2) << 4);
    let minima = join(b & low6, c >> 4 & low4 | (b >> 6 & low2) << 4);
    (scales.to_le_bytes(), minima.to_le_bytes())
}

/// Scales and offsets of the groups of a [`Q4K`] or [`Q5K`] block.
#[inline(always)]
fn k_affine<L: Level>(level: L, d: Half, dmin: Half, packed: &[u8; 12]) -> ([f32; 8], [f32; 8]) {
    let (d, dmin) = (level.half(d), level.half(dmin));
    let (scales, minima) = k_scales(packed);
    let scale = scales.map(|s| d * f32::from(s));
    let offset = minima.map(|m| -(dmin * f32::from(m)));
    (scale, offset)
}

impl Format<8> for Q4K {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let (scale, offset) = k_affine(level, self.d, self.dmin, &self.scales);
        for (part, bytes) in self.q.as_chunks().0.iter().enumerate() {
            for (i, q) in four_bits(level, bytes).into_iter().enumerate() {
                let group = 2 * part + i;
                level.affine(&mut out[group], q, [scale[group]; 2], [offset[group]; 2]);
            }
        }
    }
}

impl Format<8> for Q5K {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let (scale, offset) = k_affine(level, self.d, self.dmin, &self.scales);
        let high = level.load(&self.high);
        for (part, bytes) in self.q.as_chunks().0.iter().enumerate() {
            for (i, q) in four_bits(level, bytes).into_iter().enumerate() {
                let group = 2 * part + i;
                let q = level.or(q, level.where_bit(high, 1 << group, 16));
                level.affine(&mut out[group], q, [scale[group]; 2], [offset[group]; 2]);
            }
        }
    }
}

impl Format<8> for Q6K {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let d = level.half(self.d);
        let scale = self.scales.map(|s| d * f32::from(s as i8));
        let low = self.low.as_chunks::<32>().0.as_chunks::<2>().0;
        for (part, (low, high)) in low.iter().zip(self.high.as_chunks().0).enumerate() {
            let [a, b] = low.each_ref().map(|low| four_bits(level, low));
            let low = [a[0], b[0], a[1], b[1]];
            for (i, (low, high)) in low.into_iter().zip(two_bits(level, high)).enumerate() {
                let group = 4 * part + i;
                let q = level.minus(level.or(low, level.times_16(high)), 32);
                level.scaled(&mut out[group], q, pair(&scale, group));
            }
        }
    }
}

impl Format<8> for Iq4Xs {
    #[inline(always)]
    fn decode<L: Level>(&self, level: L, out: &mut [[f32; 32]; 8]) {
        let d = level.half(self.d);
        let high = u16::from_le_bytes(self.scales_high);
        for (group, q) in self.q.as_chunks().0.iter().enumerate() {
            let low = self.scales_low[group / 2] >> (4 * (group % 2)) & 15;
            let scale = (low | ((high >> (2 * group) & 3) << 4) as u8) as i8 - 32;
            let q = level.look_up(&IQ4_NL_VALUES, level.nibbles(q));
            level.scaled(&mut out[group], q, [d * f32::from(scale); 2]);
        }
    }
}
