use minfer_gguf::TensorType;
use minfer_gguf::quantize::dequantize;

use super::activations::QuantizedChunk;
use super::*;
use crate::matmul::out_rows::OutRows;

mod random;
mod speed;
use random::Random;

const TYPES: [TensorType; 15] = [
    TensorType::Q4_0,
    TensorType::Q4_1,
    TensorType::Q5_0,
    TensorType::Q5_1,
    TensorType::Q8_0,
    TensorType::IQ4_NL,
    TensorType::Q2_K,
    TensorType::Q3_K,
    TensorType::Q4_K,
    TensorType::Q5_K,
    TensorType::Q6_K,
    TensorType::IQ4_XS,
    TensorType::F32,
    TensorType::F16,
    TensorType::BF16,
];

/// Input widths that the type can have: whole chunks, and one to seven blocks after them.
fn widths(ty: TensorType) -> &'static [usize] {
    match ty.block_len() {
        256 => &[256, 512, 1536],
        32 => &[32, 64, 256, 352, 480, 576, 896],
        _ => &[1, 31, 64, 65, 200, 896],
    }
}

/// What the kernels should see of a row: quantized to int8 by the formula of the documentation.
fn quantized(x: &[f32]) -> Vec<f64> {
    x.chunks(32)
        .flat_map(|block| {
            let largest = block.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            block.iter().map(move |x| {
                let quant = (x * inverse).round_ties_even();
                f64::from(quant) * f64::from(largest / 127.0)
            })
        })
        .collect()
}

/// The levels of this machine, and NEON, which other machines run on a model of its instructions.
fn levels() -> Vec<Isa> {
    let mut levels = Isa::available();
    if !levels.contains(&Isa::Neon) {
        levels.push(Isa::Neon);
    }
    levels
}

struct Case {
    ty: TensorType,
    width: usize,
    weights: Vec<u8>,
    x: Vec<f32>,
}

const OUT: usize = 5;

impl Case {
    fn new(ty: TensorType, width: usize, rows: usize) -> Self {
        let mut random = Random::new(width as u64 * 100 + ty as u64);
        Case {
            ty,
            width,
            weights: random.weights(ty, width * OUT),
            x: (0..width * rows).map(|_| random.normal()).collect(),
        }
    }

    /// The outputs `range` of the first `rows` rows, by the kernels of `isa`.
    fn run(&self, isa: Isa, rows: usize, range: std::ops::Range<usize>) -> Vec<f32> {
        let mut out = vec![f32::NAN; OUT * rows];
        let all = OutRows::new(&mut out, OUT, rows, OUT);
        // SAFETY: the only part.
        let mut part = unsafe { OutPart::new(all, range) };
        let weights = Weights::new(self.ty, &self.weights, self.width).unwrap();
        let x = MatRef::new(&self.x, self.width, rows);
        let mut int8 = QuantizedRows::default();
        let x = match ActivationKind::of(self.ty) {
            Some(ActivationKind::Int8) => {
                int8.quantize(Isa::detect(), x);
                Activations::Int8(&int8)
            }
            _ => Activations::F32(x),
        };
        // SAFETY: one of `levels`.
        unsafe { product(isa, weights, x, &mut part) }.unwrap();
        out
    }

    /// Outputs in f64, and how far off a sum of rounded f32 terms may be.
    fn expected(&self) -> Vec<(f64, f64)> {
        let mut weights = vec![0.0; self.width * OUT];
        dequantize(self.ty, &self.weights, &mut weights).unwrap();
        let mut expected = Vec::new();
        for x in self.x.chunks(self.width) {
            let x = match ActivationKind::of(self.ty) {
                Some(ActivationKind::Int8) => quantized(x),
                _ => x.iter().map(|&x| f64::from(x)).collect(),
            };
            for weights in weights.chunks(self.width) {
                let terms = std::iter::zip(weights, &x).map(|(&w, &x)| f64::from(w) * x);
                let sum = terms.sum();
                // A symmetric format is computed as unsigned quants less their zero point, whose
                // terms are up to twice the block's largest weight.
                let largest = weights.chunks(16).flat_map(|group| {
                    let m = group.iter().fold(0.0, |m: f32, w: &f32| m.max(w.abs()));
                    std::iter::repeat_n(3.0 * f64::from(m), group.len())
                });
                let magnitude: f64 = std::iter::zip(largest, &x).map(|(w, x)| w * x.abs()).sum();
                // Each of the partial sums of a lane rounds by half a unit in the last place.
                expected.push((sum, magnitude * f64::from(f32::EPSILON)));
            }
        }
        expected
    }
}

#[test]
fn products_are_those_of_the_dequantized_values() {
    for ty in TYPES {
        for &width in widths(ty) {
            for rows in [1, 2, 3, 8, 16] {
                let case = Case::new(ty, width, rows);
                let expected = case.expected();
                for isa in levels() {
                    let got = case.run(isa, rows, 0..OUT);
                    for (i, (got, (want, tolerance))) in got.iter().zip(&expected).enumerate() {
                        let error = (f64::from(*got) - want).abs();
                        assert!(
                            error <= *tolerance,
                            "{ty} {isa} width {width} rows {rows} element {i}: {got}, not {want}; \
                             error {error:e} above {tolerance:e}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_is_the_same_in_any_company_and_any_split() {
    for ty in TYPES {
        for &width in widths(ty) {
            let case = Case::new(ty, width, 16);
            for isa in levels() {
                let together = case.run(isa, 16, 0..OUT);
                for rows in [1, 2, 3, 4, 5, 8] {
                    assert_eq!(case.run(isa, rows, 0..OUT), together[..rows * OUT]);
                }
                let last = Case {
                    x: case.x[15 * width..].to_vec(),
                    weights: case.weights.clone(),
                    ..case
                };
                for (o, want) in together[15 * OUT..].iter().enumerate() {
                    let got = last.run(isa, 1, o..o + 1);
                    assert_eq!(got[o].to_bits(), want.to_bits(), "{ty} {isa} output {o}");
                    assert_eq!(got.iter().filter(|x| !x.is_nan()).count(), 1);
                }
            }
        }
    }
}

#[test]
fn largest_quants_do_not_overflow() {
    // Every quant at its extreme against every activation at its extreme, with equal signs.
    for ty in TYPES {
        for fill in [0x00, 0x7f, 0x80, 0xff] {
            let width = if ty.block_len() == 256 { 512 } else { 288 };
            let mut case = Case::new(ty, width, 2);
            random::fill_quants(ty, &mut case.weights, fill);
            case.x[..width].fill(-3.0);
            case.x[width..].fill(3.0);
            for isa in levels() {
                let got = case.run(isa, 2, 0..OUT);
                for (got, (want, tolerance)) in got.iter().zip(case.expected()) {
                    let error = (f64::from(*got) - want).abs();
                    assert!(
                        error <= tolerance,
                        "{ty} {isa} filled with {fill:#x}: {got}, not {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn mismatched_arguments_are_refused() {
    let bytes = vec![0; 18 * 4];
    assert!(matches!(
        Weights::new(TensorType::Q4_0, &bytes, 33),
        Err(MatvecError::Weights { in_dim: 33, .. })
    ));
    assert!(matches!(
        Weights::new(TensorType::Q4_0, &bytes[1..], 32),
        Err(MatvecError::Weights { bytes: 71, .. })
    ));
    assert_eq!(
        Weights::new(TensorType::I8, &bytes, 32).unwrap_err(),
        MatvecError::Type(TensorType::I8)
    );
    let weights = Weights::new(TensorType::Q4_0, &bytes, 32).unwrap();
    assert_eq!(weights.out_dim(), 4);

    let values = vec![0.0; 64 * 17];
    let run = |width, rows, out_dim: usize| {
        let mut out = vec![0.0; out_dim * rows];
        let all = OutRows::new(&mut out, out_dim, rows, out_dim);
        // SAFETY: the only part.
        let mut part = unsafe { OutPart::new(all, 0..out_dim) };
        let mut x = QuantizedRows::default();
        x.quantize(Isa::Scalar, MatRef::new(&values, width, rows));
        matvec(Isa::Scalar, weights, Activations::Int8(&x), &mut part)
    };
    assert_eq!(run(32, 16, 4), Ok(()));
    assert_eq!(run(32, 17, 4), Err(MatvecError::Rows(17)));
    assert!(matches!(run(64, 1, 4), Err(MatvecError::Shape { .. })));
    assert!(matches!(run(32, 1, 5), Err(MatvecError::Shape { .. })));
}

#[test]
fn activations_are_quantized_alike_everywhere_and_closely() {
    let mut random = Random::new(7);
    for width in [32, 64, 288, 896, 4864] {
        let mut x: Vec<f32> = (0..3 * width).map(|_| random.normal()).collect();
        // Halves that round to even, an empty block, and extremes.
        for (i, x) in x[..32].iter_mut().enumerate() {
            *x = (i as f32 - 16.5) * 2.0;
        }
        x[31] = 127.0;
        x[width..width + 32].fill(0.0);
        x[2 * width..2 * width + 16].fill(1e38);
        x[2 * width + 16..2 * width + 32].fill(-1e-38);
        let mut reference: Vec<QuantizedChunk> = Vec::new();
        for isa in Isa::available() {
            let mut rows = QuantizedRows::default();
            // A wider use before must leave nothing behind in the padding.
            rows.quantize(isa, MatRef::new(&[9.0; 8192], 8192, 1));
            rows.quantize(isa, MatRef::new(&x, width, 3));
            if reference.is_empty() {
                reference = rows.chunks().to_vec();
                check_quantized(&rows, &x);
            }
            assert_eq!(rows.chunks(), reference, "{isa} width {width}");
        }
    }
}

fn check_quantized(rows: &QuantizedRows, x: &[f32]) {
    for (r, x) in x.chunks(rows.width()).enumerate() {
        let chunks = &rows.chunks()[r * rows.chunks_per_row()..][..rows.chunks_per_row()];
        for (b, block) in x.chunks(32).enumerate() {
            let (chunk, at) = (&chunks[b / 8], b % 8 * 32);
            let scale = chunk.scales[at / 16];
            let largest = block.iter().fold(0.0, |m: f32, x| m.max(x.abs()));
            assert!((scale - largest / 127.0).abs() <= largest * f32::EPSILON);
            assert_eq!(scale, chunk.scales[at / 16 + 1]);
            for (x, &q) in block.iter().zip(&chunk.quants[at..]) {
                // Half a step, and what the product with a rounded reciprocal may add to it.
                let error = (x - scale * f32::from(q)).abs();
                assert!(error <= scale * 0.5001, "{x} as {q} times {scale}");
            }
            for g in [at / 16, at / 16 + 1] {
                let quants = &chunk.quants[16 * g..][..16];
                let sum: i32 = quants.iter().map(|&q| i32::from(q)).sum();
                assert_eq!(chunk.sums[g], scale * sum as f32);
                let offsets: i32 = chunk.offsets[4 * g..][..4].iter().sum();
                assert_eq!(offsets, -128 * sum);
            }
        }
        let padding = x.len() % CHUNK;
        if padding > 0 {
            let last = &chunks[chunks.len() - 1];
            assert!(last.quants[padding..].iter().all(|&q| q == 0));
            assert!(last.scales[padding / 16..].iter().all(|&s| s == 0.0));
        }
    }
    if rows.width() >= 32 {
        // (i - 16.5) * 2 with scale 1: 31 odd integers and 127.
        assert_eq!(rows.chunks()[0].quants[..3], [-33, -31, -29]);
    }
}

#[test]
fn what_is_not_finite_shows_in_every_product() {
    for ty in TYPES {
        for (bad, at) in [(f32::NAN, 3), (f32::INFINITY, 255), (f32::NEG_INFINITY, 40)] {
            let mut case = Case::new(ty, 256, 2);
            case.x[at] = bad;
            for isa in levels() {
                let got = case.run(isa, 2, 0..OUT);
                assert!(
                    got[..OUT].iter().all(|x| !x.is_finite()),
                    "{ty} {isa} {bad}"
                );
                assert!(got[OUT..].iter().all(|x| x.is_finite()), "{ty} {isa} {bad}");
            }
        }
    }
}
