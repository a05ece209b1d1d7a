//! Weights of every type.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::{dequantize, quantize};

use crate::values::values;

/// A type with kernels.
pub struct WeightType {
    pub ty: TensorType,
    /// How names of its kernels end.
    pub name: &'static str,
    /// Where a block has f16 fields, or f16 elements.
    halves: &'static [usize],
}

pub const TYPES: [WeightType; 11] = [
    of(TensorType::F32, "f32", &[]),
    of(TensorType::F16, "f16", &[0]),
    of(TensorType::BF16, "bf16", &[]),
    of(TensorType::Q4_0, "q4_0", &[0]),
    of(TensorType::Q4_1, "q4_1", &[0, 2]),
    of(TensorType::Q5_0, "q5_0", &[0]),
    of(TensorType::Q5_1, "q5_1", &[0, 2]),
    of(TensorType::Q8_0, "q8_0", &[0]),
    of(TensorType::Q4_K, "q4_k", &[0, 2]),
    of(TensorType::Q5_K, "q5_k", &[0, 2]),
    of(TensorType::Q6_K, "q6_k", &[208]),
];

const fn of(ty: TensorType, name: &'static str, halves: &'static [usize]) -> WeightType {
    WeightType { ty, name, halves }
}

/// The largest f16, the smallest, the smallest of full precision, negative ones, zero, and one.
const EXTREMES: [u16; 7] = [0x7bff, 0x0001, 0x0400, 0xfbff, 0x8001, 0x0000, 0x3c00];

impl WeightType {
    /// Whether rows may be so wide.
    pub fn has(&self, width: usize) -> bool {
        self.ty.row_bytes(width).is_some()
    }

    /// Elements as a model would have them.
    pub fn quantized(&self, elements: usize, seed: u32) -> Vec<u8> {
        quantize(self.ty, &values(elements, seed)).unwrap()
    }

    /// Blocks of random bits. Floats have no exponent that makes them infinite or not a number.
    pub fn random(&self, elements: usize, seed: u32) -> Vec<u8> {
        let count = self.ty.row_bytes(elements).unwrap();
        let words = values(count.div_ceil(2), seed);
        let bytes = |value: &f32| [value.to_bits() as u8, (value.to_bits() >> 8) as u8];
        let mut bytes: Vec<_> = words.iter().flat_map(bytes).collect();
        bytes.truncate(count);
        for block in bytes.chunks_mut(self.ty.block_bytes()) {
            for &at in self.halves {
                block[at + 1] &= 0xbf;
            }
            if let TensorType::F32 | TensorType::BF16 = self.ty {
                block[block.len() - 1] &= 0xbf;
            }
        }
        bytes
    }

    /// The same with scales at the ends of their range.
    pub fn extreme(&self, elements: usize, seed: u32) -> Vec<u8> {
        let mut bytes = self.random(elements, seed);
        let blocks = bytes.chunks_mut(self.ty.block_bytes());
        for (i, block) in blocks.enumerate() {
            for (j, &at) in self.halves.iter().enumerate() {
                let half = EXTREMES[(i + 2 * j) % EXTREMES.len()];
                block[at..at + 2].copy_from_slice(&half.to_le_bytes());
            }
        }
        bytes
    }

    /// The elements, as the reference of the file format decodes them.
    pub fn decode(&self, bytes: &[u8]) -> Vec<f32> {
        let elements = bytes.len() / self.ty.block_bytes() * self.ty.block_len();
        let mut out = vec![0.0; elements];
        dequantize(self.ty, bytes, &mut out).unwrap();
        out
    }
    /// Compares `found[r, o]` with the products of rows of the weight and of `x`, summed in double precision.
    /// `tolerance` is relative to the sum of magnitudes.
    pub fn check_products(
        &self,
        bytes: &[u8],
        x: &[f32],
        in_width: usize,
        found: &[f32],
        tolerance: f64,
    ) {
        let decoded = self.decode(bytes);
        let pairs = x
            .chunks(in_width)
            .flat_map(|x| decoded.chunks(in_width).map(move |row| (row, x)));
        assert_eq!(pairs.clone().count(), found.len());
        for (i, ((row, x), found)) in pairs.zip(found).enumerate() {
            let products = row
                .iter()
                .zip(x)
                .map(|(w, x)| f64::from(*w) * f64::from(*x));
            let expected: f64 = products.clone().sum();
            let magnitude: f64 = products.map(f64::abs).sum();
            let error = (f64::from(*found) - expected).abs();
            assert!(
                error <= tolerance * magnitude,
                "{} of {in_width}, output {i}: {found} for {expected}, of magnitude {magnitude}",
                self.name,
            );
        }
    }
}
