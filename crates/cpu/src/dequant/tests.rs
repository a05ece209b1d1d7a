use minfer_gguf::TensorType::{self, *};
use minfer_gguf::quantize::dequantize;

use super::{dequantize_row, dequantizer};
use crate::isa::Isa;

pub(crate) const TYPES: [TensorType; 15] = [
    F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS,
];

/// A stream of arbitrary bytes (SplitMix64).
pub(crate) fn bytes(mut seed: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some((z ^ z >> 31).to_le_bytes())
    })
    .flatten()
}

/// Any bytes are a valid row, so scales here include infinities, NaN and subnormal numbers.
#[test]
fn every_type_and_level_equals_the_reference_bit_for_bit() {
    for (i, ty) in TYPES.into_iter().enumerate() {
        let n = 64 * 256;
        let row: Vec<u8> = bytes(i as u64).take(ty.row_bytes(n).unwrap()).collect();
        let mut want = vec![0.0; n];
        dequantize(ty, &row, &mut want).unwrap();
        for isa in Isa::available() {
            let mut got = vec![f32::NAN; n];
            dequantize_row(isa, ty, &row, &mut got);
            for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{ty} on {isa}, element {at}: {got} instead of {want}"
                );
            }
        }
    }
}

#[test]
fn float_rows_have_any_length() {
    for ty in [F32, F16, BF16] {
        for n in [1, 7, 33, 100] {
            let row: Vec<u8> = bytes(n as u64).take(ty.row_bytes(n).unwrap()).collect();
            let mut want = vec![0.0; n];
            dequantize(ty, &row, &mut want).unwrap();
            for isa in Isa::available() {
                let mut got = vec![0.0; n];
                dequantize_row(isa, ty, &row, &mut got);
                let same = |(a, b): (&f32, &f32)| a == b || a.is_nan() && b.is_nan();
                assert!(
                    got.iter().zip(&want).all(same),
                    "{ty} on {isa}, {n} elements"
                );
            }
        }
    }
}

#[test]
fn other_types_have_no_kernel() {
    for isa in Isa::available() {
        assert!(dequantizer(isa, IQ2_XXS).is_none());
        assert!(dequantizer(isa, I32).is_none());
    }
}
