//! Queries, keys and values of some rows, fused and one operation after the other.

use minfer_graph::{KvFormat, KvShape, Rope, RopeStyle};
use minfer_metal::ops::Encode;
use minfer_metal::ops::OpError;
use minfer_metal::ops::elementwise::{Binary, binary};
use minfer_metal::ops::fused_qkv::{FusedQkv, fused_qkv};
use minfer_metal::ops::kv::{Cells, store};
use minfer_metal::ops::matvec::matvec;
use minfer_metal::ops::norm::{Normalization, rms_norm};
use minfer_metal::ops::rope::{Turns, rope};
use minfer_metal::ops::{Indices, Rows};
use minfer_softmetal::{SoftBuffer, SoftDevice};

use crate::stage::{Stage, Value, Weight, indices, list, words};
use crate::values::values;
use crate::weights::TYPES;

pub const EPS: f32 = 1e-5;
/// Of the heads of queries and of keys.
pub const HEAD_EPS: [f32; 2] = [1e-6, 1e-3];
/// A prime, so that steps through the region meet each cell once.
pub const CELLS: usize = 19;

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Of queries, keys and values, by their place in [`TYPES`].
    pub types: [usize; 3],
    pub in_width: usize,
    /// Of queries, and of keys.
    pub heads: [usize; 2],
    pub head_dim: usize,
    pub n_rot: usize,
    pub style: RopeStyle,
    pub format: KvFormat,
    pub norm: bool,
    pub biases: bool,
    pub head_norms: bool,
    pub rows: usize,
    /// Words between rows.
    pub beyond: usize,
}

pub struct Case {
    pub shape: Shape,
    pub weights: [Weight; 3],
    pub x: Vec<f32>,
    pub gain: Vec<f32>,
    pub biases: [Vec<f32>; 3],
    pub head_gains: [Vec<f32>; 2],
    pub positions: Vec<i32>,
    pub cells: Vec<i32>,
    pub rope: Rope,
    pub turns: Turns,
}

impl Shape {
    /// Widths of queries, keys and values.
    pub fn widths(&self) -> [usize; 3] {
        let [q, kv] = self.heads;
        [q, kv, kv].map(|heads| heads * self.head_dim)
    }

    pub fn rope(&self) -> Rope {
        Rope {
            style: self.style,
            head_dim: self.head_dim,
            n_rot: self.n_rot,
            freq_base: 1e4,
            freq_scale: 0.5,
            factors: None,
        }
    }

    pub fn region(&self) -> KvShape {
        KvShape {
            cells: CELLS,
            width: self.widths()[1],
            head_dim: self.head_dim,
            format: self.format,
        }
    }
}

impl Case {
    /// Random blocks.
    pub fn random(shape: Shape) -> Self {
        Self::new(shape, Weight::random)
    }

    pub fn new(
        shape: Shape,
        weight: fn(&'static crate::weights::WeightType, [usize; 2], u32) -> Weight,
    ) -> Self {
        let widths = shape.widths();
        let weights = [0, 1, 2].map(|i| {
            let ty = &TYPES[shape.types[i]];
            weight(ty, [shape.in_width, widths[i]], 40 + i as u32)
        });
        Case {
            weights,
            x: values(shape.rows * shape.in_width, 43),
            gain: values(shape.in_width, 44),
            biases: [0, 1, 2].map(|i| values(widths[i], 45 + i as u32)),
            head_gains: [48, 49].map(|seed| values(shape.head_dim, seed)),
            positions: (0..shape.rows)
                .map(|row| (row * row * 977 + 3) as i32)
                .collect(),
            cells: (0..shape.rows)
                .map(|row| ((5 * row + 3) % CELLS) as i32)
                .collect(),
            rope: shape.rope(),
            turns: Turns::new(&shape.rope(), None).unwrap(),
            shape,
        }
    }

    fn uploaded(&self, stage: &Stage) -> Uploaded<'_> {
        let Shape {
            in_width, beyond, ..
        } = self.shape;
        let width = self.shape.widths()[0];
        let region = self.shape.region();
        let bytes = CELLS * region.cell_bytes().unwrap();
        let row = |values: &Vec<f32>| stage.value(values.len(), 0, values);
        Uploaded {
            case: self,
            y: stage.value(width, beyond, &vec![0.0; self.shape.rows * width]),
            weights: [0, 1, 2].map(|i| stage.bytes(&self.weights[i].bytes)),
            x: stage.value(in_width, beyond, &self.x),
            gain: row(&self.gain),
            biases: [0, 1, 2].map(|i| row(&self.biases[i])),
            head_gains: [0, 1].map(|i| row(&self.head_gains[i])),
            positions: stage.integers(&self.positions),
            cells: stage.integers(&self.cells),
            region: [0, 1].map(|_| stage.bytes(&vec![0; bytes])),
        }
    }

    /// Words of the queries, and of the region's keys and values.
    pub fn fused(&self, stage: &mut Stage) -> [Vec<u32>; 3] {
        self.fused_with(stage, |_, _| {}).unwrap()
    }

    /// The same with operands that `change` spoils.
    pub fn fused_with(
        &self,
        stage: &mut Stage,
        change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedQkv<'_, SoftBuffer>),
    ) -> Result<[Vec<u32>; 3], OpError> {
        let uploaded = self.uploaded(stage);
        let (mut y, mut operands) = (uploaded.y.rows(), uploaded.operands());
        change(&mut y, &mut operands);
        stage.run(|encode| fused_qkv(encode, y, operands))?;
        Ok(uploaded.words())
    }

    /// One operation after the other, and each row alone.
    pub fn unfused(&self, stage: &mut Stage) -> [Vec<u32>; 3] {
        let uploaded = self.uploaded(stage);
        let [_, width, _] = self.shape.widths();
        let stored = || {
            stage.value(
                width,
                self.shape.beyond,
                &vec![0.0; self.shape.rows * width],
            )
        };
        let scratch = Scratch {
            x: stage.value(self.shape.in_width, self.shape.beyond, &self.x),
            stored: [stored(), stored()],
        };
        for row in 0..self.shape.rows {
            stage
                .run(|encode| uploaded.chain(encode, &scratch, row))
                .unwrap();
        }
        uploaded.words()
    }

    pub fn check_bits(&self, stage: &mut Stage) {
        assert!(self.fused(stage) == self.unfused(stage), "{:?}", self.shape);
    }
}

/// Values that the fused operation does not need.
struct Scratch {
    x: Value,
    /// Keys and values.
    stored: [Value; 2],
}

/// A case in memory.
struct Uploaded<'a> {
    case: &'a Case,
    y: Value,
    weights: [SoftBuffer; 3],
    x: Value,
    gain: Value,
    biases: [Value; 3],
    head_gains: [Value; 2],
    positions: SoftBuffer,
    cells: SoftBuffer,
    /// Keys and values.
    region: [SoftBuffer; 2],
}

impl Uploaded<'_> {
    fn words(&self) -> [Vec<u32>; 3] {
        let [keys, values] = &self.region;
        [self.y.words(), words(keys), words(values)]
    }

    fn operands(&self) -> FusedQkv<'_, SoftBuffer> {
        let Shape {
            norm,
            biases,
            head_norms,
            rows,
            ..
        } = self.case.shape;
        let cells = |i: usize| Cells {
            buffer: &self.region[i],
            shape: self.case.shape.region(),
        };
        FusedQkv {
            weights: [0, 1, 2].map(|i| self.case.weights[i].matrix(&self.weights[i])),
            x: self.x.rows(),
            input_norm: norm.then(|| normalization(&self.gain, EPS)),
            biases: biases.then(|| [0, 1, 2].map(|i| self.biases[i].rows())),
            head_norms: head_norms
                .then(|| [0, 1].map(|i| normalization(&self.head_gains[i], HEAD_EPS[i]))),
            rope: &self.case.rope,
            turns: &self.case.turns,
            positions: list(&self.positions, rows),
            keys: cells(0),
            values: cells(1),
            cells: indices(&self.cells, &self.case.cells),
        }
    }

    fn chain(
        &self,
        encode: &mut Encode<'_, SoftDevice>,
        scratch: &Scratch,
        row: usize,
    ) -> Result<(), OpError> {
        let operands = self.operands();
        let at = |buffer| Rows {
            offset: row,
            ..list(buffer, 1)
        };
        let mut x = self.x.row(row);
        if let Some(norm) = operands.input_norm {
            let y = scratch.x.row(row);
            rms_norm(encode, y, x, norm.gain, norm.eps)?;
            x = y;
        }
        let [k, v] = &scratch.stored;
        for (i, y) in [&self.y, k, v]
            .map(|value| value.row(row))
            .into_iter()
            .enumerate()
        {
            matvec(encode, y, operands.weights[i], x)?;
            if let Some(biases) = operands.biases {
                binary(encode, Binary::Add, y, y, biases[i])?;
            }
            if i < 2 {
                if let Some(norms) = operands.head_norms {
                    rms_norm(encode, y, y, norms[i].gain, norms[i].eps)?;
                }
                rope(
                    encode,
                    operands.rope,
                    y,
                    y,
                    at(&self.positions),
                    operands.turns,
                )?;
            }
            if i > 0 {
                let region = [operands.keys, operands.values][i - 1];
                let cell = Indices {
                    rows: at(&self.cells),
                    values: &self.case.cells[row..=row],
                };
                store(encode, region, y, cell)?;
            }
        }
        Ok(())
    }
}

fn normalization(gain: &Value, eps: f32) -> Normalization<'_, SoftBuffer> {
    Normalization {
        gain: gain.rows(),
        eps,
    }
}
