//! How each block format turns into numbers.
//!
//! The loops run over arrays of fixed length without branches, so that the compiler turns each into
//! a few vector instructions of whatever level the caller is compiled for. What it cannot find by
//! itself is a method of [`Level`]. The multiplications and their order are those of the reference in
//! `minfer-gguf`; Rust never contracts them, so the results are equal bit for bit.

use super::blocks::{
    Half, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0,
};

/// Values of the 4-bit non-linear types; `kvalues_iq4nl` of ggml-common.h.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Instructions that loops do not compile to.
pub trait Level {
    /// The value of a half-precision number.
    fn half(bits: Half) -> f32;

    /// `table[i]` for each index, all below 16.
    fn look_up(table: &[i8; 16], indices: &[u8; 32]) -> [i8; 32];
}

/// A block format: how to write the `N` elements of a block.
pub trait Format<const N: usize>: super::blocks::Block {
    /// Writes the elements.
    fn decode<L: Level>(&self, out: &mut [f32; N]);
}

#[inline(always)]
fn scaled<const N: usize>(out: &mut [f32], q: &[i8; N], d: f32) {
    for (out, &q) in out.iter_mut().zip(q) {
        *out = d * f32::from(q);
    }
}

#[inline(always)]
fn affine<const N: usize>(out: &mut [f32], q: &[i8; N], d: f32, offset: f32) {
    for (out, &q) in out.iter_mut().zip(q) {
        *out = d * f32::from(q) + offset;
    }
}

/// Low nibbles, then high nibbles.
#[inline(always)]
fn nibbles(q: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    for i in 0..16 {
        out[i] = q[i] & 15;
        out[i + 16] = q[i] >> 4;
    }
    out
}

#[inline(always)]
fn shifted_down(q: [u8; 32], by: u8) -> [i8; 32] {
    q.map(|q| (q as i8).wrapping_sub(by as i8))
}

/// 16 for each bit of `high` that is set, else 0.
#[inline(always)]
fn fifth_bits(high: [u8; 4]) -> [u8; 32] {
    let high = u32::from_le_bytes(high);
    let mut out = [0; 32];
    for (i, out) in out.iter_mut().enumerate() {
        *out = if high & (1 << i) != 0 { 16 } else { 0 };
    }
    out
}

#[inline(always)]
fn five_bits(q: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let mut out = nibbles(q);
    for (out, high) in out.iter_mut().zip(fifth_bits(high)) {
        *out |= high;
    }
    out
}

impl Format<32> for Q4_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        scaled(out, &shifted_down(nibbles(&self.q), 8), L::half(self.d));
    }
}

impl Format<32> for Q4_1 {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        let q = shifted_down(nibbles(&self.q), 0);
        affine(out, &q, L::half(self.d), L::half(self.m));
    }
}

impl Format<32> for Q5_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        let q = shifted_down(five_bits(&self.q, self.high), 16);
        scaled(out, &q, L::half(self.d));
    }
}

impl Format<32> for Q5_1 {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        let q = shifted_down(five_bits(&self.q, self.high), 0);
        affine(out, &q, L::half(self.d), L::half(self.m));
    }
}

impl Format<32> for Q8_0 {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        scaled(out, &self.q.map(|q| q as i8), L::half(self.d));
    }
}

impl Format<32> for Iq4Nl {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 32]) {
        let q = L::look_up(&IQ4_VALUES, &nibbles(&self.q));
        scaled(out, &q, L::half(self.d));
    }
}

/// Elements `16 * i ..` of a 32-element group get the scale (and offset) `i`.
#[inline(always)]
fn halves(q: &[i8; 32]) -> [[i8; 16]; 2] {
    std::array::from_fn(|half| std::array::from_fn(|i| q[16 * half + i]))
}

impl Format<256> for Q2K {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (L::half(self.d), L::half(self.dmin));
        let scale: [f32; 16] = self.scales.map(|s| d * f32::from(s & 15));
        let min: [f32; 16] = self.scales.map(|s| dmin * f32::from(s >> 4));
        for group in 0..8 {
            let (from, shift) = (32 * (group / 4), 2 * (group % 4));
            let q = std::array::from_fn(|i| (self.q[from + i] >> shift & 3) as i8);
            for (half, q) in halves(&q).iter().enumerate() {
                let g = 2 * group + half;
                affine(&mut out[16 * g..16 * g + 16], q, scale[g], -min[g]);
            }
        }
    }
}

/// The 6-bit scales of a [`Q3K`] block, as signed numbers.
#[inline(always)]
fn q3_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = packed[i % 8] >> (4 * (i / 8)) & 15;
        let high = packed[8 + i % 4] >> (2 * (i / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

impl Format<256> for Q3K {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let d = L::half(self.d);
        let scale = q3_scales(&self.scales).map(|s| d * f32::from(s));
        for group in 0..8 {
            let (from, shift) = (32 * (group / 4), 2 * (group % 4));
            let q = std::array::from_fn(|i| {
                let high = (self.high[i] >> group & 1) << 2;
                ((self.q[from + i] >> shift & 3) | high) as i8 - 4
            });
            for (half, q) in halves(&q).iter().enumerate() {
                let g = 2 * group + half;
                scaled(&mut out[16 * g..16 * g + 16], q, scale[g]);
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

impl Format<256> for Q4K {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (L::half(self.d), L::half(self.dmin));
        let (scales, minima) = k_scales(&self.scales);
        let scale = scales.map(|s| d * f32::from(s));
        let min = minima.map(|m| dmin * f32::from(m));
        for group in 0..8 {
            let (from, shift) = (32 * (group / 2), 4 * (group % 2));
            let q: [i8; 32] = std::array::from_fn(|i| (self.q[from + i] >> shift & 15) as i8);
            let out = &mut out[32 * group..32 * group + 32];
            affine(out, &q, scale[group], -min[group]);
        }
    }
}

impl Format<256> for Q5K {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (L::half(self.d), L::half(self.dmin));
        let (scales, minima) = k_scales(&self.scales);
        let scale = scales.map(|s| d * f32::from(s));
        let min = minima.map(|m| dmin * f32::from(m));
        for group in 0..8 {
            let (from, shift) = (32 * (group / 2), 4 * (group % 2));
            let q: [i8; 32] = std::array::from_fn(|i| {
                let high = (self.high[i] >> group & 1) << 4;
                (self.q[from + i] >> shift & 15 | high) as i8
            });
            let out = &mut out[32 * group..32 * group + 32];
            affine(out, &q, scale[group], -min[group]);
        }
    }
}

impl Format<256> for Q6K {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let d = L::half(self.d);
        let scale = self.scales.map(|s| d * f32::from(s as i8));
        for group in 0..8 {
            let (part, quarter) = (group / 4, group % 4);
            let low = 64 * part + 32 * (quarter % 2);
            let (low_shift, high_shift) = (4 * (quarter / 2), 2 * quarter);
            let q = std::array::from_fn(|i| {
                let high = (self.high[32 * part + i] >> high_shift & 3) << 4;
                (self.low[low + i] >> low_shift & 15 | high) as i8 - 32
            });
            for (half, q) in halves(&q).iter().enumerate() {
                let g = 2 * group + half;
                scaled(&mut out[16 * g..16 * g + 16], q, scale[g]);
            }
        }
    }
}

impl Format<256> for Iq4Xs {
    #[inline(always)]
    fn decode<L: Level>(&self, out: &mut [f32; 256]) {
        let d = L::half(self.d);
        let high = u16::from_le_bytes(self.scales_high);
        for group in 0..8 {
            let low = self.scales_low[group / 2] >> (4 * (group % 2)) & 15;
            let scale = (low | ((high >> (2 * group) & 3) << 4) as u8) as i8 - 32;
            let q = L::look_up(&IQ4_VALUES, &nibbles(&self.q[16 * group..16 * group + 16]));
            let out = &mut out[32 * group..32 * group + 32];
            scaled(out, &q, d * f32::from(scale));
        }
    }
}
