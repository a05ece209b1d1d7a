//! The gated half of feed-forward networks: values, and the bits of one operation after the other.

use minfer_gguf::TensorType;
use minfer_metal::arguments::{FusedFfn as Arguments, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::FUSED_FFN;
use minfer_metal::ops::elementwise::{Binary, binary};
use minfer_metal::ops::fused_ffn::{FusedFfn, fused_ffn};
use minfer_metal::ops::matvec::matvec;
use minfer_metal::ops::norm::{Normalization, rms_norm};
use minfer_metal::ops::{OpError, Rows};
use minfer_softmetal::SoftBuffer;

use crate::launch::{ABSENT, Launch, Operand};
use crate::refused::Encoding;
use crate::stage::{Stage, Value, Weight, in_every_mode, normalized};
use crate::values::{WIDTHS, values};
use crate::weights::TYPES;

const EPS: f32 = 1e-6;
/// Of the magnitudes of both sums, of which either may be off by as much as a product; the activation has a slope
/// of at most 1.1 and a few units in the last place of its own.
const TOLERANCE: f64 = 5e-6;

/// Types of gate and other weight that differ: in blocks, and in outputs that a simdgroup computes at once.
const MIXED: [[usize; 2]; 4] = [[3, 10], [8, 1], [7, 9], [0, 5]];

pub struct Case {
    weights: [Weight; 2],
    norm: bool,
    rows: usize,
    /// Words between rows.
    beyond: usize,
    x: Vec<f32>,
    gain: Vec<f32>,
}

impl Case {
    fn new(weights: [Weight; 2], norm: bool, rows: usize, beyond: usize) -> Self {
        let in_width = weights[0].shape[0];
        Case {
            weights,
            norm,
            rows,
            beyond,
            x: values(rows * in_width, 31),
            gain: values(in_width, 32),
        }
    }

    /// Random blocks of two types.
    pub fn random(
        types: [usize; 2],
        shape: [usize; 2],
        norm: bool,
        rows: usize,
        beyond: usize,
    ) -> Self {
        let [gate, up] = types.map(|i| &TYPES[i]);
        let weights = [(gate, 33), (up, 34)].map(|(ty, seed)| Weight::random(ty, shape, seed));
        Self::new(weights, norm, rows, beyond)
    }

    fn uploaded(&self, stage: &Stage) -> Uploaded<'_> {
        let [in_width, out_width] = self.weights[0].shape;
        let [gate, up] = [0, 1].map(|i| stage.bytes(&self.weights[i].bytes));
        Uploaded {
            case: self,
            y: stage.value(out_width, self.beyond, &vec![0.0; self.rows * out_width]),
            gate,
            up,
            x: stage.value(in_width, self.beyond, &self.x),
            gain: stage.value(in_width, 0, &self.gain),
        }
    }

    pub fn fused(&self, stage: &mut Stage) -> Vec<u32> {
        self.fused_with(stage, |_, _| {}).unwrap()
    }

    /// The same with operands that `change` spoils.
    fn fused_with(
        &self,
        stage: &mut Stage,
        change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedFfn<'_, SoftBuffer>),
    ) -> Result<Vec<u32>, OpError> {
        let uploaded = self.uploaded(stage);
        let (mut y, mut operands) = (uploaded.y.rows(), uploaded.operands());
        change(&mut y, &mut operands);
        stage.run(|encode| fused_ffn(encode, y, operands))?;
        Ok(uploaded.y.words())
    }

    /// One operation after the other, and each row alone.
    fn unfused(&self, stage: &mut Stage) -> Vec<u32> {
        let uploaded = self.uploaded(stage);
        let operands = uploaded.operands();
        let [in_width, out_width] = self.weights[0].shape;
        let normalized = stage.value(in_width, self.beyond, &self.x);
        let up = stage.value(out_width, self.beyond, &vec![0.0; self.rows * out_width]);
        for row in 0..self.rows {
            let chain = |encode: &mut Encoding<'_>| {
                let (y, up) = (uploaded.y.row(row), up.row(row));
                let mut input = uploaded.x.row(row);
                if let Some(norm) = operands.input_norm {
                    let y = normalized.row(row);
                    rms_norm(encode, y, input, norm.gain, norm.eps)?;
                    input = y;
                }
                matvec(encode, y, operands.gate, input)?;
                matvec(encode, up, operands.up, input)?;
                binary(encode, Binary::SwiGlu, y, y, up)
            };
            stage.run(chain).unwrap();
        }
        uploaded.y.words()
    }

    fn check_bits(&self, stage: &mut Stage) {
        let names = [0, 1].map(|i| self.weights[i].ty.name);
        assert!(
            self.fused(stage) == self.unfused(stage),
            "{names:?} of {:?}, {} rows, {} between, norm {}",
            self.weights[0].shape,
            self.rows,
            self.beyond,
            self.norm
        );
    }

    /// Compares with sums in double precision.
    fn check_values(&self) {
        let found = in_every_mode(|stage| self.fused(stage));
        let x = normalized(&self.x, &self.gain, EPS);
        let [gates, ups] = [0, 1].map(|i| self.weights[i].products(&x));
        for (i, ((gate, up), found)) in gates.into_iter().zip(ups).zip(found).enumerate() {
            let ([gate, of_gate], [up, of_up]) = (gate, up);
            let expected = gate / (1.0 + (-gate).exp()) * up;
            let error = (f64::from(f32::from_bits(found)) - expected).abs();
            let magnitude = of_gate * of_up;
            assert!(
                error <= TOLERANCE * magnitude,
                "{}, element {i}: off by {error} from {expected}, of magnitude {magnitude}",
                self.weights[0].ty.name,
            );
        }
    }
}

/// A case in memory.
struct Uploaded<'a> {
    case: &'a Case,
    y: Value,
    gate: SoftBuffer,
    up: SoftBuffer,
    x: Value,
    gain: Value,
}

impl Uploaded<'_> {
    fn operands(&self) -> FusedFfn<'_, SoftBuffer> {
        let [gate, up] = &self.case.weights;
        FusedFfn {
            gate: gate.matrix(&self.gate),
            up: up.matrix(&self.up),
            x: self.x.rows(),
            input_norm: self.case.norm.then(|| Normalization {
                gain: self.gain.rows(),
                eps: EPS,
            }),
        }
    }
}

/// Launches with and without a normalization.
pub fn launches() -> Vec<Launch> {
    let launch = |norm: bool| {
        let [in_width, out_width, rows] = [300, 5, 3];
        let args = Arguments {
            in_width,
            out_width,
            rows,
            x_stride: in_width,
            y_stride: out_width,
            gate_row_bytes: 4 * in_width,
            up_row_bytes: 4 * in_width,
            eps: EPS,
        };
        let constants = [
            ConstantValue::Bool(true),
            ConstantValue::U32(rows),
            ConstantValue::Bool(norm),
            ConstantValue::U32(4),
            ConstantValue::Bool(false),
            ConstantValue::U32(TensorType::F32.code()),
            ConstantValue::U32(TensorType::F32.code()),
        ];
        let input = |width, height, seed| {
            Operand::input(width as usize, &values((width * height) as usize, seed))
        };
        Launch {
            file: FUSED_FFN,
            kernel: "fused_ffn".to_owned(),
            constants: (0..).zip(constants).collect(),
            arguments: args.as_bytes().to_vec(),
            operands: vec![
                Operand::output(out_width as usize, rows as usize),
                input(in_width, out_width, 1),
                input(in_width, out_width, 2),
                input(in_width, rows, 3),
                input(in_width, 1, 4),
            ],
            bindings: vec![0, 1, 2, 3, if norm { 4 } else { ABSENT }],
            grid: Grid::Threadgroups(Size([1, 1, 1])),
            threadgroup: [64, 1, 1],
        }
    };
    [false, true].map(launch).into()
}

#[test]
fn values_of_every_type() {
    for ty in &TYPES {
        let weights = [35, 36].map(|seed| Weight::quantized(ty, [512, 9], seed));
        Case::new(weights, true, 3, 0).check_values();
    }
}

#[test]
fn every_type_has_the_bits_of_one_operation_after_the_other() {
    let mut stage = Stage::unchecked();
    let same = (0..TYPES.len()).map(|ty| [ty, ty]);
    for types in same.chain(MIXED) {
        // More than one step of a simdgroup, and a tail of one element where rows may end anywhere.
        let has_tail = types.iter().all(|ty| TYPES[*ty].has(1281));
        let in_width = if has_tail { 1281 } else { 1280 };
        for rows in (1..=9).chain([17]) {
            let norm = rows != 2;
            Case::random(types, [in_width, 7], norm, rows, 3).check_bits(&mut stage);
        }
    }
}

#[test]
fn inputs_and_outputs_of_every_tail() {
    let mut stage = Stage::unchecked();
    for (ty, weight) in TYPES.iter().enumerate() {
        for in_width in WIDTHS.into_iter().filter(|width| weight.has(*width)) {
            for (out_width, rows, beyond) in [(1, 2, 1), (33, 1, 4)] {
                Case::random([ty, ty], [in_width, out_width], true, rows, beyond)
                    .check_bits(&mut stage);
            }
        }
        for out_width in WIDTHS {
            Case::random([ty, 9], [256, out_width], out_width % 2 == 0, 2, 0)
                .check_bits(&mut stage);
        }
    }
}

#[test]
fn no_rows_or_outputs_are_no_work() {
    let case = Case::random([8, 10], [512, 9], true, 3, 2);
    let mut stage = Stage::unchecked();
    let no_rows = case.fused_with(&mut stage, |y, operands| {
        (y.rows, operands.x.rows) = (0, 0);
    });
    let no_outputs = case.fused_with(&mut stage, |y, operands| {
        (y.width, operands.gate.out_width, operands.up.out_width) = (0, 0, 0);
    });
    for words in [no_rows, no_outputs] {
        assert!(words.unwrap().iter().all(|word| *word == 0));
    }
    assert_eq!(stage.device.statistics().len(), 0);
}

/// The message about operands that `change` spoils.
fn refusal(
    change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedFfn<'_, SoftBuffer>),
) -> String {
    let case = Case::random([8, 10], [512, 9], true, 3, 2);
    let result = case.fused_with(&mut Stage::unchecked(), change);
    result.unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused() {
    for (found, expected) in [
        (
            refusal(|_, operands| operands.up.ty = TensorType::Q2_K),
            "no kernel reads weights of type Q2_K",
        ),
        (
            refusal(|_, operands| operands.up.offset = 8),
            "the first byte of a weight is 8, a multiple of 16 is needed",
        ),
        (
            refusal(|_, operands| operands.gate.in_width = 256),
            "the width of the input is 512, 256 is needed",
        ),
        (
            refusal(|_, operands| operands.up.out_width = 8),
            "the width of the output is 9, 8 is needed",
        ),
        (
            refusal(|y, _| y.rows = 2),
            "the rows of the input is 3, 2 is needed",
        ),
        (
            refusal(|_, operands| operands.input_norm.as_mut().unwrap().gain.width = 511),
            "the width of a gain is 511, 512 is needed",
        ),
    ] {
        assert_eq!(found, format!("fused_ffn: {expected}"));
    }
}
