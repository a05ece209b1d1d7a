use std::ops::Range;

use half::{bf16, f16};
use minfer_gguf::TensorType::{self, *};
use minfer_gguf::quantize::dequantize;

use super::{PackedRows, PrefillPrecision, TileScratch, Weight, gemm};
use crate::dequant::tests::{TYPES, bytes};
use crate::isa::Isa;
use crate::matmul::out_rows::OutRows;

/// Numbers in -1..1.
fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut bytes = bytes(seed);
    let mut next = || f32::from(bytes.next().unwrap());
    (0..n)
        .map(|_| (next() + next() / 256.0) / 128.0 - 1.0)
        .collect()
}

/// Offsets of the half-precision fields of a block.
fn half_fields(ty: TensorType) -> &'static [usize] {
    match ty {
        Q4_0 | Q5_0 | Q8_0 | IQ4_NL | IQ4_XS => &[0],
        Q4_1 | Q5_1 | Q4_K | Q5_K => &[0, 2],
        Q2_K => &[80, 82],
        Q3_K => &[108],
        Q6_K => &[208],
        _ => &[],
    }
}

/// `n` elements: arbitrary quants, scales of a sane magnitude.
fn weight_bytes(ty: TensorType, seed: u64, n: usize) -> Vec<u8> {
    let floats = numbers(seed, n);
    match ty {
        F32 => return floats.iter().flat_map(|x| x.to_le_bytes()).collect(),
        F16 => {
            return floats
                .iter()
                .flat_map(|&x| f16::from_f32(x).to_le_bytes())
                .collect();
        }
        BF16 => {
            return floats
                .iter()
                .flat_map(|&x| bf16::from_f32(x).to_le_bytes())
                .collect();
        }
        _ => {}
    }
    let mut out: Vec<u8> = bytes(seed).take(ty.row_bytes(n).unwrap()).collect();
    for (block, scale) in out.chunks_exact_mut(ty.block_bytes()).zip(floats) {
        for &at in half_fields(ty) {
            block[at..at + 2].copy_from_slice(&f16::from_f32(0.01 * scale).to_le_bytes());
        }
    }
    out
}

struct Case {
    ty: TensorType,
    width: usize,
    outputs: usize,
    rows: usize,
    weight: Vec<u8>,
    x: Vec<f32>,
}

impl Case {
    fn new(ty: TensorType, width: usize, outputs: usize, rows: usize) -> Self {
        let seed = (width * 1000 + outputs) as u64;
        Case {
            ty,
            width,
            outputs,
            rows,
            weight: weight_bytes(ty, seed, width * outputs),
            x: numbers(seed + 1, width * rows),
        }
    }

    /// The product of some rows, `[rows][outputs]`, computed in parts that `cuts` divide.
    fn product(
        &self,
        isa: Isa,
        rows: Range<usize>,
        cuts: &[usize],
        buffers: &mut (PackedRows, TileScratch),
    ) -> Vec<f32> {
        let (packed, scratch) = buffers;
        let x = &self.x[rows.start * self.width..rows.end * self.width];
        let packer = packed.packer(isa, x, self.width, rows.len(), self.width);
        // SAFETY: this is the only thread.
        unsafe { packer.pack(0..packer.groups()) }
        let stride = self.outputs + 3;
        let mut out = vec![f32::NAN; stride * rows.len()];
        let weight = Weight {
            ty: self.ty,
            bytes: &self.weight,
            width: self.width,
        };
        let target = OutRows::new(&mut out, self.outputs, rows.len(), stride);
        for part in cuts.windows(2) {
            // SAFETY: this is the only thread.
            unsafe { gemm(weight, part[0]..part[1], packed, target, scratch) }
        }
        let (values, padding): (Vec<_>, Vec<_>) = out
            .chunks_exact(stride)
            .map(|row| row.split_at(self.outputs))
            .unzip();
        assert!(
            padding.concat().iter().all(|x| x.is_nan()),
            "wrote past a row"
        );
        values.concat()
    }

    /// Exact products of the dequantized weights and the Euclidean norm of each sum's terms.
    fn reference(&self) -> Vec<(f64, f64)> {
        let mut weight = vec![0.0; self.width * self.outputs];
        dequantize(self.ty, &self.weight, &mut weight).unwrap();
        let dot = |x: &[f32], w: &[f32]| {
            let terms = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w));
            terms.fold((0.0, 0.0), |(sum, squares), t| (sum + t, squares + t * t))
        };
        let rows = self.x.chunks_exact(self.width);
        rows.flat_map(|x| weight.chunks_exact(self.width).map(move |w| dot(x, w)))
            .map(|(sum, squares)| (sum, squares.sqrt()))
            .collect()
    }
}

const PRECISIONS: [PrefillPrecision; 2] = [PrefillPrecision::Split, PrefillPrecision::Bf16];

fn buffers(precision: PrefillPrecision) -> (PackedRows, TileScratch) {
    (PackedRows::new(precision), TileScratch::default())
}

/// Largest error in units of the norm of a sum's terms.
///
/// A term is off by at most `unit` of itself, about uniformly and independently of the others: the
/// error of a sum has the standard deviation `unit / √3 · norm` or less, and none of the sums tested
/// here should be six times as far off. A missing term shows: it is about `1 / √width` of the norm.
fn tolerance(isa: Isa, ty: TensorType, precision: PrefillPrecision, width: usize) -> f64 {
    let unit = match (isa, precision) {
        // bf16 has 8 significant bits: half a unit of the last is 2⁻⁸ of the number at most. √2 where
        // both factors are rounded.
        (Isa::Amx, PrefillPrecision::Bf16) if ty == BF16 => 2_f64.powi(-8),
        (Isa::Amx, PrefillPrecision::Bf16) => 2_f64.powi(-8) * 2_f64.sqrt(),
        // Two terms leave 2⁻¹⁶ of the number; √3 for both factors and the product of second terms.
        (Isa::Amx, PrefillPrecision::Split) if ty == BF16 => 2_f64.powi(-16),
        (Isa::Amx, PrefillPrecision::Split) => 2_f64.powi(-16) * 3_f64.sqrt(),
        _ => 0.0,
    };
    // Every partial sum is rounded to 2⁻²⁴, and is no larger than a few norms.
    6.0 / 3_f64.sqrt() * (unit + 4.0 * (width as f64).sqrt() * 2_f64.powi(-24))
}

/// Shapes with one slice and several, whole and broken steps, panels and blocks.
fn shapes(ty: TensorType) -> [(usize, usize); 4] {
    match ty.block_len() {
        1 => [(1, 1), (33, 16), (300, 33), (775, 70)],
        32 => [(32, 1), (96, 16), (576, 33), (672, 70)],
        _ => [(256, 1), (512, 16), (768, 33), (1280, 70)],
    }
}

fn check_against_reference(precision: PrefillPrecision) {
    let isas = Isa::available();
    // Shared by all cases: what an earlier one left must not matter.
    let mut buffers = buffers(precision);
    for ty in TYPES {
        for (width, outputs) in shapes(ty) {
            let case = Case::new(ty, width, outputs, 70);
            let want = case.reference();
            for &isa in &isas {
                let limit = tolerance(isa, ty, precision, width);
                for rows in [1, 2, 15, 16, 17, 33, 70] {
                    let got = case.product(isa, 0..rows, &[0, outputs], &mut buffers);
                    assert_eq!(got.len(), rows * outputs);
                    for (i, (got, &(want, norm))) in got.iter().zip(&want).enumerate() {
                        let error = (f64::from(*got) - want).abs();
                        assert!(
                            error <= limit * norm,
                            "{ty} {width}x{outputs} on {isa} {precision:?}, {rows} rows, output {} of row {}: \
                             {got} instead of {want}, {} of the limit",
                            i % outputs,
                            i / outputs,
                            error / (limit * norm),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn products_match_the_reference() {
    check_against_reference(PrefillPrecision::Split);
}

#[test]
fn rounded_products_match_the_reference() {
    check_against_reference(PrefillPrecision::Bf16);
}

/// The levels of this machine, with each precision where that makes a difference.
fn arithmetics() -> Vec<(Isa, PrefillPrecision)> {
    let all = Isa::available().into_iter();
    all.flat_map(|isa| PRECISIONS.map(|precision| (isa, precision)))
        .filter(|&(isa, precision)| isa == Isa::Amx || precision == PrefillPrecision::default())
        .collect()
}

#[test]
fn a_row_does_not_depend_on_its_companions() {
    // More rows than a pass, several slices, a broken last step.
    for case in [
        Case::new(F32, 33, 20, 1050),
        Case::new(BF16, 1100, 70, 70),
        Case::new(Q5_0, 896, 70, 70),
        Case::new(Q4_K, 1280, 70, 70),
    ] {
        let all = [0, case.outputs];
        for (isa, precision) in arithmetics() {
            let mut buffers = buffers(precision);
            let together = case.product(isa, 0..case.rows, &all, &mut buffers);
            let same = |rows: Range<usize>, alone: Vec<f32>| {
                let want = &together[rows.start * case.outputs..rows.end * case.outputs];
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(
                    bits(want) == bits(&alone),
                    "{} on {isa} {precision:?}, rows {rows:?}",
                    case.ty
                );
            };
            let last = case.rows - 1;
            for r in [0, 15, 16, 31, 32, 47, last] {
                same(r..r + 1, case.product(isa, r..r + 1, &all, &mut buffers));
            }
            for rows in [0..33, 33..case.rows] {
                same(rows.clone(), case.product(isa, rows, &all, &mut buffers));
            }
            let cuts = [0, 1, 18, case.outputs];
            let split = case.product(isa, 0..case.rows, &cuts, &mut buffers);
            same(0..case.rows, split);
        }
    }
}

#[test]
fn threads_pack_groups_in_any_order() {
    let case = Case::new(F32, 100, 40, 70);
    for (isa, precision) in arithmetics() {
        let want = case.product(isa, 0..70, &[0, 40], &mut buffers(precision));
        let (mut packed, mut scratch) = buffers(precision);
        let packer = packed.packer(isa, &case.x, 100, 70, 100);
        assert_eq!(packer.groups(), 5);
        std::thread::scope(|scope| {
            for groups in [3..5, 0..1, 1..3] {
                let packer = &packer;
                // SAFETY: the ranges are disjoint.
                scope.spawn(move || unsafe { packer.pack(groups) });
            }
        });
        let mut out = vec![0.0; 40 * 70];
        let weight = Weight {
            ty: F32,
            bytes: &case.weight,
            width: 100,
        };
        let target = OutRows::new(&mut out, 40, 70, 40);
        // SAFETY: this is the only thread.
        unsafe { gemm(weight, 0..40, &packed, target, &mut scratch) }
        assert_eq!(out, want, "{isa} {precision:?}");
    }
}

#[test]
#[should_panic(expected = "activations")]
fn activations_must_cover_the_rows() {
    PackedRows::new(PrefillPrecision::Split).packer(Isa::Scalar, &[0.0; 63], 32, 2, 32);
}
