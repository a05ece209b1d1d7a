//! Products with what stands around them: values, and the bits of one operation after the other.

use minfer_gguf::TensorType;
use minfer_metal::arguments::{FusedMatMul as Arguments, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::FUSED_MATMUL;
use minfer_metal::ops::elementwise::{Binary, binary};
use minfer_metal::ops::fused_matmul::{FusedMatMul, fused_matmul};
use minfer_metal::ops::matvec::matvec;
use minfer_metal::ops::norm::{Normalization, rms_norm};
use minfer_metal::ops::{OpError, Rows};
use minfer_softmetal::SoftBuffer;

use crate::launch::{ABSENT, Launch, Operand};
use crate::refused::Encoding;
use crate::stage::{Stage, Value, Weight, in_every_mode, indices, normalized};
use crate::values::{WIDTHS, values};
use crate::weights::TYPES;

const EPS: f32 = 1e-5;
/// Of the sum of magnitudes: the products' own, and that of a normalized row, which all of its products share.
const TOLERANCE: f64 = 4e-6;

/// Parts that are there.
#[derive(Clone, Copy)]
pub struct Parts {
    pub norm: bool,
    pub bias: bool,
    pub residual: bool,
    pub gathered: bool,
}

const ALL: Parts = Parts {
    norm: true,
    bias: true,
    residual: true,
    gathered: true,
};

pub struct Case {
    weight: Weight,
    parts: Parts,
    /// Rows of the output.
    rows: usize,
    /// Words between rows.
    beyond: usize,
    x: Vec<f32>,
    gain: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
    picked: Vec<i32>,
}

impl Case {
    pub fn new(weight: Weight, parts: Parts, rows: usize, beyond: usize) -> Self {
        let [in_width, out_width] = weight.shape;
        // Every third row twice, and the last first.
        let picked: Vec<_> = (0..rows).rev().map(|row| (row - row % 3) as i32).collect();
        Case {
            weight,
            parts,
            rows,
            beyond,
            x: values(rows * in_width, 21),
            gain: values(in_width, 22),
            bias: values(out_width, 23),
            residual: values(rows * out_width, 24),
            picked,
        }
    }

    fn uploaded(&self, stage: &Stage) -> Uploaded<'_> {
        let [in_width, out_width] = self.weight.shape;
        Uploaded {
            case: self,
            y: stage.value(out_width, self.beyond, &vec![0.0; self.rows * out_width]),
            weight: stage.bytes(&self.weight.bytes),
            x: stage.value(in_width, self.beyond, &self.x),
            gain: stage.value(in_width, 0, &self.gain),
            bias: stage.value(out_width, 0, &self.bias),
            residual: stage.value(out_width, self.beyond, &self.residual),
            picked: stage.integers(&self.picked),
        }
    }

    pub fn fused(&self, stage: &mut Stage) -> Vec<u32> {
        self.fused_with(stage, |_, _| {}).unwrap()
    }

    /// The same with operands that `change` spoils.
    fn fused_with(
        &self,
        stage: &mut Stage,
        change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedMatMul<'_, SoftBuffer>),
    ) -> Result<Vec<u32>, OpError> {
        let uploaded = self.uploaded(stage);
        let (mut y, mut operands) = (uploaded.y.rows(), uploaded.operands());
        change(&mut y, &mut operands);
        stage.run(|encode| fused_matmul(encode, y, operands))?;
        Ok(uploaded.y.words())
    }

    /// Row of `x` that a row of the output is from.
    fn source(&self, row: usize) -> usize {
        match self.parts.gathered {
            true => self.picked[row] as usize,
            false => row,
        }
    }

    /// One operation after the other, and each row alone.
    fn unfused(&self, stage: &mut Stage) -> Vec<u32> {
        let uploaded = self.uploaded(stage);
        let operands = uploaded.operands();
        let normalized = stage.value(self.weight.shape[0], self.beyond, &self.x);
        for row in 0..self.rows {
            let (source, y) = (self.source(row), uploaded.y.row(row));
            let chain = |encode: &mut Encoding<'_>| {
                let mut input = uploaded.x.row(source);
                if let Some(norm) = operands.input_norm {
                    let y = normalized.row(row);
                    rms_norm(encode, y, input, norm.gain, norm.eps)?;
                    input = y;
                }
                matvec(encode, y, operands.weight, input)?;
                if let Some(bias) = operands.bias {
                    binary(encode, Binary::Add, y, y, bias)?;
                }
                match self.parts.residual {
                    true => binary(encode, Binary::Add, y, y, uploaded.residual.row(source)),
                    false => Ok(()),
                }
            };
            stage.run(chain).unwrap();
        }
        uploaded.y.words()
    }

    fn check_bits(&self, stage: &mut Stage) {
        let Parts {
            norm,
            bias,
            residual,
            gathered,
        } = self.parts;
        assert!(
            self.fused(stage) == self.unfused(stage),
            "{} of {:?}, {} rows, {} between, norm {norm}, bias {bias}, residual {residual}, gathered {gathered}",
            self.weight.ty.name,
            self.weight.shape,
            self.rows,
            self.beyond
        );
    }

    /// Compares with sums in double precision.
    fn check_values(&self) {
        let found = in_every_mode(|stage| self.fused(stage));
        let [in_width, out_width] = self.weight.shape;
        let rows = (0..self.rows).map(|row| &self.x[self.source(row) * in_width..][..in_width]);
        let x = rows.collect::<Vec<_>>().concat();
        let products = self.weight.products(&normalized(&x, &self.gain, EPS));
        for (i, ([sum, magnitude], found)) in products.into_iter().zip(found).enumerate() {
            let (row, output) = (i / out_width, i % out_width);
            let residual = self.residual[self.source(row) * out_width + output];
            let (bias, residual) = (f64::from(self.bias[output]), f64::from(residual));
            let expected = sum + bias + residual;
            let magnitude = magnitude + bias.abs() + residual.abs();
            let found = f32::from_bits(found);
            assert!(
                (f64::from(found) - expected).abs() <= TOLERANCE * magnitude,
                "{}: output {output} of row {row}: {found} for {expected}, of magnitude {magnitude}",
                self.weight.ty.name,
            );
        }
    }
}

/// A case in memory.
struct Uploaded<'a> {
    case: &'a Case,
    y: Value,
    weight: SoftBuffer,
    x: Value,
    gain: Value,
    bias: Value,
    residual: Value,
    picked: SoftBuffer,
}

impl Uploaded<'_> {
    fn operands(&self) -> FusedMatMul<'_, SoftBuffer> {
        let Parts {
            norm,
            bias,
            residual,
            gathered,
        } = self.case.parts;
        FusedMatMul {
            weight: self.case.weight.matrix(&self.weight),
            x: self.x.rows(),
            input_norm: norm.then(|| Normalization {
                gain: self.gain.rows(),
                eps: EPS,
            }),
            bias: bias.then(|| self.bias.rows()),
            residual: residual.then(|| self.residual.rows()),
            gathered: gathered.then(|| indices(&self.picked, &self.case.picked)),
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
            residual_stride: out_width,
            row_bytes: 4 * in_width,
            eps: EPS,
        };
        let flag = ConstantValue::Bool;
        let number = ConstantValue::U32;
        let constants = [
            flag(true),
            number(rows),
            flag(norm),
            number(4),
            flag(false),
            number(TensorType::F32.code()),
            flag(false),
            flag(false),
        ];
        let input = |width, height, seed| {
            Operand::input(width as usize, &values((width * height) as usize, seed))
        };
        Launch {
            file: FUSED_MATMUL,
            kernel: "fused_matmul".to_owned(),
            constants: (0..).zip(constants).collect(),
            arguments: args.as_bytes().to_vec(),
            operands: vec![
                Operand::output(out_width as usize, rows as usize),
                input(in_width, out_width, 1),
                input(in_width, rows, 2),
                input(in_width, 1, 3),
            ],
            bindings: vec![0, 1, 2, if norm { 3 } else { ABSENT }],
            grid: Grid::Threadgroups(Size([1, 1, 1])),
            threadgroup: [64, 1, 1],
        }
    };
    [false, true].map(launch).into()
}

#[test]
fn values_of_every_type() {
    for ty in &TYPES {
        Case::new(Weight::quantized(ty, [512, 9], 25), ALL, 3, 0).check_values();
    }
}

#[test]
fn every_type_has_the_bits_of_one_operation_after_the_other() {
    let mut stage = Stage::unchecked();
    for ty in &TYPES {
        // More than one step of a simdgroup, and a tail of one element where rows may end anywhere.
        let in_width = if ty.has(1281) { 1281 } else { 1280 };
        for rows in (1..=9).chain([17]) {
            let weight = Weight::random(ty, [in_width, 5], 26);
            Case::new(weight, ALL, rows, 3).check_bits(&mut stage);
        }
    }
}

#[test]
fn each_part_may_be_absent() {
    let mut stage = Stage::unchecked();
    for ty in [&TYPES[1], &TYPES[4], &TYPES[10]] {
        for parts in 0..16 {
            let has = |part: u32| parts >> part & 1 == 1;
            let parts = Parts {
                norm: has(0),
                bias: has(1),
                residual: has(2),
                gathered: has(3),
            };
            for (rows, beyond) in [(1, 0), (3, 4)] {
                let weight = Weight::random(ty, [512, 33], 27);
                Case::new(weight, parts, rows, beyond).check_bits(&mut stage);
            }
        }
    }
}

#[test]
fn inputs_and_outputs_of_every_tail() {
    let mut stage = Stage::unchecked();
    for ty in &TYPES {
        for in_width in WIDTHS.into_iter().filter(|width| ty.has(*width)) {
            for (out_width, rows, beyond) in [(1, 2, 1), (33, 1, 4)] {
                let weight = Weight::random(ty, [in_width, out_width], 28);
                Case::new(weight, ALL, rows, beyond).check_bits(&mut stage);
            }
        }
        let in_width = ty.ty.block_len().max(4);
        for out_width in WIDTHS {
            let weight = Weight::random(ty, [in_width, out_width], 29);
            Case::new(weight, ALL, 2, 0).check_bits(&mut stage);
        }
    }
}

/// The checker sees that no element is read after it was written.
#[test]
fn the_output_may_be_the_residual() {
    let parts = Parts {
        gathered: false,
        ..ALL
    };
    let case = Case::new(Weight::random(&TYPES[8], [512, 9], 30), parts, 3, 2);
    let expected = case.unfused(&mut Stage::unchecked());
    let found = in_every_mode(|stage| {
        let uploaded = case.uploaded(stage);
        let y = uploaded.residual.rows();
        stage
            .run(|encode| fused_matmul(encode, y, uploaded.operands()))
            .unwrap();
        uploaded.residual.words()
    });
    assert!(found == expected);
}

#[test]
fn no_rows_or_outputs_are_no_work() {
    let case = Case::new(Weight::random(&TYPES[8], [512, 9], 30), ALL, 3, 2);
    let mut stage = Stage::unchecked();
    let no_rows = case.fused_with(&mut stage, |y, operands| {
        y.rows = 0;
        operands.gathered.as_mut().unwrap().rows.rows = 0;
        operands.gathered.as_mut().unwrap().values = &[];
    });
    let no_outputs = case.fused_with(&mut stage, |y, operands| {
        y.width = 0;
        operands.weight.out_width = 0;
        operands.bias.as_mut().unwrap().width = 0;
        operands.residual.as_mut().unwrap().width = 0;
    });
    for words in [no_rows, no_outputs] {
        assert!(words.unwrap().iter().all(|word| *word == 0));
    }
    assert_eq!(stage.device.statistics().len(), 0);
}

/// The message about operands that `change` spoils.
fn refusal(
    change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedMatMul<'_, SoftBuffer>),
) -> String {
    let case = Case::new(Weight::random(&TYPES[8], [512, 9], 30), ALL, 3, 2);
    let result = case.fused_with(&mut Stage::unchecked(), change);
    result.unwrap_err().to_string()
}

#[test]
fn what_does_not_fit_is_refused() {
    for (found, expected) in [
        (
            refusal(|_, operands| operands.weight.ty = TensorType::Q2_K),
            "no kernel reads weights of type Q2_K",
        ),
        (
            refusal(|_, operands| operands.weight.offset = 8),
            "the first byte of a weight is 8, a multiple of 16 is needed",
        ),
        (
            refusal(|_, operands| operands.weight.in_width = 256),
            "the width of the input is 512, 256 is needed",
        ),
        (
            refusal(|y, _| y.width = 8),
            "the width of the output is 8, 9 is needed",
        ),
        (
            refusal(|y, operands| (y.rows, operands.gathered) = (2, None)),
            "the rows of the input is 3, 2 is needed",
        ),
        (refusal(|y, _| y.rows = 2), "row is 3, 2 is needed"),
        (
            refusal(|_, operands| operands.gathered.as_mut().unwrap().values = &[0, 3, 1]),
            "row 3 of row 1 is not one of 3",
        ),
        (
            refusal(|_, operands| operands.input_norm.as_mut().unwrap().gain.width = 511),
            "the width of a gain is 511, 512 is needed",
        ),
        (
            refusal(|_, operands| operands.input_norm.as_mut().unwrap().gain.rows = 2),
            "the rows of a gain is 2, 1 is needed",
        ),
        (
            refusal(|_, operands| operands.bias.as_mut().unwrap().width = 8),
            "the width of a bias is 8, 9 is needed",
        ),
        (
            refusal(|_, operands| operands.bias.as_mut().unwrap().rows = 3),
            "the rows of a bias is 3, 1 is needed",
        ),
        (
            refusal(|_, operands| operands.residual.as_mut().unwrap().width = 8),
            "the width of the residual is 8, 9 is needed",
        ),
        (
            refusal(|_, operands| operands.residual.as_mut().unwrap().rows = 2),
            "the rows of the residual is 2, 3 is needed",
        ),
    ] {
        assert_eq!(found, format!("fused_matmul: {expected}"));
    }
}
