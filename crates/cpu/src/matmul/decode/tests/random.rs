//! Random weights in every block format.

use half::f16;
use minfer_gguf::TensorType;

/// xorshift64* (Vigna 2016).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in `0 .. 1`.
    fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// Nearly normal: the sum of uniform values.
    pub fn normal(&mut self) -> f32 {
        (0..4).map(|_| self.uniform() - 0.5).sum::<f32>() * 1.7
    }

    /// `n` elements: random bytes, with scales of an ordinary size.
    pub fn weights(&mut self, ty: TensorType, n: usize) -> Vec<u8> {
        let len = ty.row_bytes(n).expect("whole blocks");
        match ty {
            TensorType::F32 => (0..n).flat_map(|_| self.normal().to_le_bytes()).collect(),
            TensorType::F16 => (0..n)
                .flat_map(|_| f16::from_f32(self.normal()).to_le_bytes())
                .collect(),
            TensorType::BF16 => (0..n)
                .flat_map(|_| half::bf16::from_f32(self.normal()).to_le_bytes())
                .collect(),
            _ => {
                let mut bytes: Vec<u8> = (0..len).map(|_| self.next() as u8).collect();
                for block in bytes.chunks_mut(ty.block_bytes()) {
                    for &at in half_floats(ty) {
                        let scale = f16::from_f32(self.normal() * 0.1);
                        block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
                    }
                }
                bytes
            }
        }
    }
}

/// Where the half floats of a block are.
fn half_floats(ty: TensorType) -> &'static [usize] {
    match ty {
        TensorType::Q4_0 | TensorType::Q5_0 | TensorType::Q8_0 => &[0],
        TensorType::IQ4_NL | TensorType::IQ4_XS => &[0],
        TensorType::Q4_1 | TensorType::Q5_1 | TensorType::Q4_K | TensorType::Q5_K => &[0, 2],
        TensorType::Q2_K => &[80, 82],
        TensorType::Q3_K => &[108],
        TensorType::Q6_K => &[208],
        _ => &[],
    }
}

/// Sets every byte of the blocks but those of their half floats; leaves float types alone.
pub fn fill_quants(ty: TensorType, bytes: &mut [u8], fill: u8) {
    if ty.block_len() == 1 {
        return;
    }
    for block in bytes.chunks_mut(ty.block_bytes()) {
        for (at, byte) in block.iter_mut().enumerate() {
            let in_half = half_floats(ty).iter().any(|&h| (h..h + 2).contains(&at));
            if !in_half {
                *byte = fill;
            }
        }
    }
}
