//! What an edit should leave behind, in f64.

use minfer_gguf::Tensor;
use minfer_gguf::quantize::dequantize;
use minfer_graph::{KeyRope, KvFormat, KvShape, RopeStyle, Rotation, RowEdit};

use super::EditCase;
use crate::accuracy::Worst;
use crate::check::Mismatch;
use crate::reference::attention::decode_cells;

/// Byte in the padding of keys, which a rotation must leave alone.
pub const PADDING: u8 = 0xa5;

/// Pairs of a rotation and what they turn by per position.
pub struct Frequencies {
    style: RopeStyle,
    /// Radians per position, per pair.
    rates: Vec<f64>,
}

impl Frequencies {
    /// Pair `i` turns by `freq_scale * freq_base^(-2i / n_rot) / factor_i`.
    pub fn new(rope: &KeyRope, factors: Option<&Tensor>) -> Self {
        let half = rope.n_rot / 2;
        let mut divisors = vec![1.0; half];
        if let Some(tensor) = factors {
            dequantize(tensor.ty, &tensor.bytes, &mut divisors).expect("f32 factors");
        }
        let rate = |i: usize| {
            let power = -2.0 * i as f64 / rope.n_rot as f64;
            let frequency = f64::from(rope.freq_base).powf(power);
            f64::from(rope.freq_scale) * frequency / f64::from(divisors[i])
        };
        Frequencies {
            style: rope.style,
            rates: (0..half).map(rate).collect(),
        }
    }

    /// Features of the pairs of a head.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let half = self.rates.len();
        (0..half).map(move |i| match self.style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Split => (i, i + half),
        })
    }

    /// A key moved by `positions`, which may be negative.
    pub fn rotate(&self, shape: &KvShape, key: &[f64], positions: f64) -> Vec<f64> {
        let mut turned = key.to_vec();
        for ((a, b), rate) in self.pairs().zip(&self.rates) {
            let (sin, cos) = (positions * rate).sin_cos();
            for head in (0..key.len()).step_by(shape.head_dim) {
                let (a, b) = (head + a, head + b);
                turned[a] = key[a] * cos - key[b] * sin;
                turned[b] = key[a] * sin + key[b] * cos;
            }
        }
        turned
    }

    /// Length of the longest pair of a key, or its largest feature.
    fn largest(&self, shape: &KvShape, key: &[f64]) -> f64 {
        let heads = key.chunks(shape.head_dim);
        let lengths = heads.flat_map(|head| self.pairs().map(|(a, b)| head[a].hypot(head[b])));
        let features = key.iter().map(|x| x.abs());
        lengths.chain(features).fold(0.0, f64::max)
    }
}

/// Compares keys and values after the edit with what they should be.
pub fn compare(case: &EditCase, after: &[Vec<u8>; 2]) -> Result<Worst, Mismatch> {
    let before = [&case.region.keys, &case.region.values];
    match case.edit {
        RowEdit::Copy(copy) => {
            let cell_bytes = before[0].len() / case.region.shape.cells;
            for which in [0, 1] {
                let cells = before[which].chunks(cell_bytes).collect::<Vec<_>>();
                let mut expected = cells.clone();
                for row in 0..copy.len {
                    expected[copy.to + row] = cells[copy.from + row];
                }
                same_bytes(&expected.concat(), &after[which], which, |_| true)?;
            }
            Ok(Worst::default())
        }
        RowEdit::Rotate(rotation) => {
            same_bytes(before[1], &after[1], 1, |_| true)?;
            untouched_keys(case, rotation, &after[0])?;
            rotated_keys(case, rotation, &after[0])
        }
    }
}

/// The first byte that differs where `compared`.
fn same_bytes(
    expected: &[u8],
    found: &[u8],
    which: usize,
    compared: impl Fn(usize) -> bool,
) -> Result<(), Mismatch> {
    let differs = |&byte: &usize| compared(byte) && expected[byte] != found[byte];
    match (0..expected.len()).find(differs) {
        None => Ok(()),
        Some(byte) => Err(Mismatch::Cells {
            byte,
            values: which == 1,
        }),
    }
}

/// Other cells, the padding, and blocks without a rotated feature keep their bytes.
fn untouched_keys(case: &EditCase, rotation: Rotation, after: &[u8]) -> Result<(), Mismatch> {
    let KvShape {
        cells,
        width,
        head_dim,
        format,
    } = case.region.shape;
    let (block_len, block_bytes) = match format {
        KvFormat::F32 => (1, 4),
        KvFormat::F16 => (1, 2),
        KvFormat::Q8_0 => (32, 34),
    };
    let cell_bytes = after.len() / cells;
    let turned = rotation.cell..rotation.cell + rotation.len;
    let compared = |byte: usize| {
        let feature = byte % cell_bytes / block_bytes * block_len;
        let rotated = feature < width && feature % head_dim < case.rope.n_rot;
        !(turned.contains(&(byte / cell_bytes)) && rotated)
    };
    same_bytes(&case.region.keys, after, 0, compared)
}

/// Turned keys are the stored ones turned back, and the original ones turned to where they now are.
fn rotated_keys(case: &EditCase, rotation: Rotation, after: &[u8]) -> Result<Worst, Mismatch> {
    let mut worst = Worst::default();
    let shape = case.region.shape;
    let origin = case.origin.as_ref().expect("keys of a rotation");
    let frequencies = Frequencies::new(&case.rope, case.factors.as_ref());
    let stored = decode_cells(&shape, &case.region.keys);
    let found = decode_cells(&shape, after);
    for cell in rotation.cell..rotation.cell + rotation.len {
        let (stored, found) = (stored.row(cell), found.row(cell));
        let back = frequencies.rotate(&shape, stored, -(rotation.by as f64));
        let original = &origin.keys[cell * shape.width..][..shape.width];
        let position = origin.positions[cell] - rotation.by;
        let moved = frequencies.rotate(&shape, original, position as f64);
        let largest = frequencies.largest(&shape, original);
        for feature in 0..shape.width {
            let rounding = ROUNDING * largest;
            let once = encoding(shape.format, largest);
            let place = |from| format!("cell {cell} feature {feature} against {from}");
            let (found, back, moved) = (found[feature], back[feature], moved[feature]);
            let limit = rounding + once;
            let error = within(place("the stored key"), found, back, limit)?;
            worst = worst.max(Worst::of(error, largest, limit));
            // Both features of a pair were encoded, and their errors have turned.
            let twice = once * (1.0 + std::f64::consts::SQRT_2);
            within(
                place("the key stored there"),
                found,
                moved,
                rounding + twice,
            )?;
        }
    }
    Ok(worst)
}

/// The error, if it is no larger than the limit.
fn within(place: String, found: f64, expected: f64, limit: f64) -> Result<f64, Mismatch> {
    let error = (found - expected).abs();
    // A NaN is never within the limit.
    if error <= limit {
        return Ok(error);
    }
    Err(Mismatch::Value {
        place,
        found,
        expected,
        limit,
        reason: "encodings of the stored and of the turned key, and f32 products",
    })
}

/// Two f32 products of cosine and sine rounded to f32, added: at most five roundings of 2^-24.
const ROUNDING: f64 = 3e-7;

/// What encoding a feature of a row costs that has no larger one, however it is rotated.
fn encoding(format: KvFormat, largest: f64) -> f64 {
    match format {
        KvFormat::F32 => largest * 2f64.powi(-24),
        KvFormat::F16 => largest * 2f64.powi(-11) + 2f64.powi(-25),
        // Half a step of the largest magnitude over 127, and 127 times the f16 rounding of the step.
        KvFormat::Q8_0 => largest * (0.5 / 127.0 + 2f64.powi(-11)) * 1.001,
    }
}
