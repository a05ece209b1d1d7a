//! A region with queries and windows: the launch, and what it should give.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::{dequantize, quantize};
use minfer_metal::arguments::{Attention, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ATTENTION;

use crate::launch::{Launch, Operand};
use crate::values::{difference, values};

/// Elements beyond the width between rows of output and queries.
const BEYOND: [usize; 2] = [3, 6];
const SIMDGROUPS: u32 = 4;

/// Query heads, key and value heads, and features of each.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    pub query: usize,
    pub kv: usize,
    pub dim: usize,
}

/// What each row sees.
#[derive(Clone, Debug)]
pub enum Windows {
    /// Cells up to a position.
    Causal(Vec<i32>),
    /// First cell and end.
    Spans(Vec<[i32; 2]>),
    /// First cell and length of four runs.
    Maps(Vec<[i32; 8]>),
}

impl Windows {
    pub fn rows(&self) -> usize {
        match self {
            Windows::Causal(rows) => rows.len(),
            Windows::Spans(rows) => rows.len(),
            Windows::Maps(rows) => rows.len(),
        }
    }

    /// Cells of each row.
    pub fn cells(&self) -> Vec<Vec<usize>> {
        let range = |first: i32, end: i32| first as usize..end as usize;
        match self {
            Windows::Causal(rows) => rows.iter().map(|p| range(0, p + 1).collect()).collect(),
            Windows::Spans(rows) => rows.iter().map(|s| range(s[0], s[1]).collect()).collect(),
            Windows::Maps(rows) => {
                let runs = |row: &[i32; 8]| {
                    let runs = row.as_chunks().0.iter();
                    runs.flat_map(|[first, length]| range(*first, first + length))
                        .collect()
                };
                rows.iter().map(runs).collect()
            }
        }
    }

    /// Those of one row alone.
    pub fn row(&self, row: usize) -> Windows {
        match self {
            Windows::Causal(rows) => Windows::Causal(vec![rows[row]]),
            Windows::Spans(rows) => Windows::Spans(vec![rows[row]]),
            Windows::Maps(rows) => Windows::Maps(vec![rows[row]]),
        }
    }

    /// As the kernel reads them, with the integers per row.
    pub fn encoded(&self) -> (Vec<i32>, u32) {
        match self {
            Windows::Causal(rows) => (rows.clone(), 1),
            Windows::Spans(rows) => (rows.concat(), 2),
            Windows::Maps(rows) => (rows.concat(), 8),
        }
    }
}

#[derive(Clone)]
pub struct Case {
    pub ty: TensorType,
    pub heads: Heads,
    pub windows: Windows,
    pub simdgroups: u32,
    pub q: Vec<f32>,
    pub keys: Vec<u8>,
    pub values: Vec<u8>,
}

impl Case {
    /// Random queries, and a region of `cells` random keys and values.
    pub fn new(ty: TensorType, heads: Heads, cells: usize, windows: Windows) -> Self {
        let encode = |seed| -> Vec<u8> {
            let rows = values(cells * heads.kv * heads.dim, seed);
            let rows = rows.chunks(heads.kv * heads.dim);
            rows.flat_map(|row| cell_of(ty, row)).collect()
        };
        Case {
            ty,
            heads,
            simdgroups: SIMDGROUPS,
            q: values(windows.rows() * heads.query * heads.dim, 20),
            keys: encode(21),
            values: encode(22),
            windows,
        }
    }

    /// Features of an output row.
    pub fn width(&self) -> usize {
        self.heads.query * self.heads.dim
    }

    pub fn cell_bytes(&self) -> usize {
        cell_of(self.ty, &vec![0.0; self.heads.kv * self.heads.dim]).len()
    }

    pub fn scale(&self) -> f32 {
        1.0 / (self.heads.dim as f32).sqrt()
    }

    /// Row `row` alone.
    pub fn row(&self, row: usize) -> Case {
        Case {
            windows: self.windows.row(row),
            q: self.q[row * self.width()..][..self.width()].to_vec(),
            ..self.clone()
        }
    }

    pub fn launch(&self) -> Launch {
        let (width, rows) = (self.width(), self.windows.rows());
        let [y_stride, q_stride] = BEYOND.map(|beyond| width + beyond);
        let args = Attention {
            group: (self.heads.query / self.heads.kv) as u32,
            y_stride: y_stride as u32,
            q_stride: q_stride as u32,
            cell_bytes: self.cell_bytes() as u32,
            scale: self.scale(),
        };
        let (windows, window_width) = self.windows.encoded();
        Launch {
            file: ATTENTION,
            kernel: format!("attention_{}", self.ty).to_lowercase(),
            constants: vec![
                (0, ConstantValue::U32(self.heads.dim as u32)),
                (1, ConstantValue::U32(window_width)),
            ],
            arguments: args.as_bytes().to_vec(),
            operands: vec![
                Operand::output(width, rows).strided(y_stride),
                Operand::input(width, &self.q).strided(q_stride),
                Operand::bytes(&self.keys),
                Operand::bytes(&self.values),
                Operand::integers(&windows),
            ],
            bindings: vec![0, 1, 2, 3, 4],
            grid: Grid::Threadgroups(Size([self.heads.query as u32, rows as u32, 1])),
            threadgroup: [32 * self.simdgroups, 1, 1],
        }
    }

    pub fn run(&self) -> Vec<f32> {
        self.launch().run_floats()
    }

    /// Largest difference from the definition, relative to the largest output.
    pub fn difference(&self) -> f64 {
        difference(&self.run(), &self.expected())
    }

    /// The definition.
    pub fn expected(&self) -> Vec<f64> {
        let Heads { query, kv, dim } = self.heads;
        let decode = |bytes: &[u8]| -> Vec<Vec<f32>> {
            let cells = bytes.chunks(self.cell_bytes());
            cells.map(|cell| row_of(self.ty, kv * dim, cell)).collect()
        };
        let (keys, values) = (decode(&self.keys), decode(&self.values));
        let mut y = Vec::new();
        for (row, cells) in self.windows.cells().iter().enumerate() {
            for head in 0..query {
                let q = &self.q[row * query * dim + head * dim..][..dim];
                let part = head / (query / kv) * dim;
                let score = |&cell: &usize| {
                    let key = &keys[cell][part..][..dim];
                    let products = q
                        .iter()
                        .zip(key)
                        .map(|(q, k)| f64::from(*q) * f64::from(*k));
                    products.sum::<f64>() * f64::from(self.scale())
                };
                let scores: Vec<f64> = cells.iter().map(score).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<_> = scores.iter().map(|s| (s - largest).exp()).collect();
                let total: f64 = weights.iter().sum();
                y.extend((part..part + dim).map(|feature| {
                    let weighted = cells
                        .iter()
                        .zip(&weights)
                        .map(|(&cell, weight)| weight / total * f64::from(values[cell][feature]));
                    weighted.sum::<f64>()
                }));
            }
        }
        y
    }
}

/// A row as a cell holds it.
pub fn cell_of(ty: TensorType, row: &[f32]) -> Vec<u8> {
    let mut bytes = quantize(ty, row).unwrap();
    bytes.resize(bytes.len().next_multiple_of(4), 0xa5);
    bytes
}

fn row_of(ty: TensorType, width: usize, cell: &[u8]) -> Vec<f32> {
    let mut row = vec![0.0; width];
    dequantize(ty, &cell[..ty.row_bytes(width).unwrap()], &mut row).unwrap();
    row
}

pub fn heads(query: usize, kv: usize, dim: usize) -> Heads {
    Heads { query, kv, dim }
}

pub fn causal(keys: &[i32]) -> Windows {
    Windows::Causal(keys.iter().map(|keys| keys - 1).collect())
}

/// Windows anywhere in the region, and an empty one.
pub fn spans(keys: &[i32]) -> Windows {
    let mut spans: Vec<_> = (3..).zip(keys).map(|(i, keys)| [i, i + keys]).collect();
    spans.insert(1, [7, 7]);
    Windows::Spans(spans)
}

/// Runs with gaps in any order of cells, one empty, and a window of empty ones.
pub fn maps(keys: &[i32]) -> Windows {
    let map = |&keys: &i32| {
        let third = keys / 3;
        let rest = keys - 2 * third;
        [rest + 9, third, 9, 0, 4, rest, rest + third + 12, third]
    };
    let mut maps: Vec<_> = keys.iter().map(map).collect();
    maps.insert(1, [9, 0, 0, 0, 70, 0, 4, 0]);
    Windows::Maps(maps)
}
