//! Reproducible values.

use minfer_gguf::quantize::quantize;
use minfer_gguf::{Tensor, TensorBytes, TensorType};

/// A xorshift generator (Marsaglia 2003).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.bits();
        }
        random
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 / (1 << 24) as f32)
    }

    /// About normally distributed: a sum of uniform values.
    pub fn normal(&mut self) -> f32 {
        let sum: f32 = (0..6).map(|_| self.between(-1.0, 1.0)).sum();
        sum / std::f32::consts::SQRT_2
    }

    pub fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }

    /// An f32 vector between 0.5 and 1.5, like a gain.
    pub fn vector(&mut self, name: &str, len: usize) -> Tensor {
        let values: Vec<f32> = (0..len).map(|_| self.between(0.5, 1.5)).collect();
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        tensor(name, TensorType::F32, vec![len], bytes)
    }

    /// A weight `[in_dim, out_dim]`.
    pub fn matrix(&mut self, name: &str, ty: TensorType, in_dim: usize, out_dim: usize) -> Tensor {
        let bytes = match quantize(ty, &self.normals(in_dim * out_dim)) {
            Ok(bytes) => bytes,
            Err(_) => self.blocks(ty, in_dim / ty.block_len() * out_dim),
        };
        tensor(name, ty, vec![in_dim, out_dim], bytes)
    }

    /// Blocks with random quants and moderate scales, for types without a quantizer.
    fn blocks(&mut self, ty: TensorType, n: usize) -> Vec<u8> {
        let scales = match ty {
            TensorType::Q2_K => &[80, 82][..],
            TensorType::Q3_K => &[108],
            TensorType::Q4_K | TensorType::Q5_K => &[0, 2],
            TensorType::Q6_K => &[208],
            TensorType::IQ4_NL | TensorType::IQ4_XS => &[0],
            _ => panic!("no random blocks for {ty}"),
        };
        let mut bytes = Vec::with_capacity(n * ty.block_bytes());
        for _ in 0..n {
            let start = bytes.len();
            bytes.extend((0..ty.block_bytes()).map(|_| (self.bits() >> 56) as u8));
            for &offset in scales {
                // Half floats from 2^-7 to 2^-6: exponent field 8, any mantissa.
                let half = 8 << 10 | (self.bits() >> 54) as u16;
                bytes[start + offset..][..2].copy_from_slice(&half.to_le_bytes());
            }
        }
        bytes
    }
}

pub fn tensor(name: &str, ty: TensorType, shape: Vec<usize>, bytes: Vec<u8>) -> Tensor {
    Tensor {
        name: name.to_owned(),
        ty,
        shape,
        bytes: TensorBytes::from_vec(bytes),
    }
}
