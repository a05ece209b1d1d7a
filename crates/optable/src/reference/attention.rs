//! What is read from a KV region.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::dequantize;
use minfer_graph::{Attention, KvFormat, KvShape, WindowLayout};

use super::{Matrix, integers};
use crate::case::{Case, Region};

/// The tensor type a format's cells are rows of.
pub fn cell_type(format: KvFormat) -> TensorType {
    match format {
        KvFormat::F32 => TensorType::F32,
        KvFormat::F16 => TensorType::F16,
        KvFormat::Q8_0 => TensorType::Q8_0,
    }
}

/// The cells of a region's keys or values.
pub fn decode_cells(shape: &KvShape, bytes: &[u8]) -> Matrix {
    let ty = cell_type(shape.format);
    let used = ty.row_bytes(shape.width).expect("a valid KV width");
    let mut data = Vec::new();
    for cell in bytes.chunks(bytes.len() / shape.cells) {
        let mut row = vec![0.0; shape.width];
        dequantize(ty, &cell[..used], &mut row).expect("a cell of this format");
        data.extend(row.into_iter().map(f64::from));
    }
    Matrix {
        width: shape.width,
        data,
    }
}

fn region(case: &Case) -> &Region {
    case.kv.as_ref().expect("the case has a KV region")
}

/// The first cells of keys or values.
pub fn load(case: &Case, values: bool) -> Matrix {
    let region = region(case);
    let bytes = if values { &region.values } else { &region.keys };
    let mut cells = decode_cells(&region.shape, bytes);
    cells.data.truncate(cells.width * case.count);
    cells
}

/// Softmax attention of every row over its window.
pub fn attend(case: &Case, attention: &Attention, q: &Matrix) -> Matrix {
    let region = region(case);
    let keys = decode_cells(&region.shape, &region.keys);
    let values = decode_cells(&region.shape, &region.values);
    let Attention {
        n_head,
        n_head_kv,
        head_dim,
        ..
    } = *attention;
    q.map_rows(|r, q| {
        let cells = window(case, attention.window, r);
        let mut y = Vec::new();
        for head in 0..n_head {
            let q = &q[head * head_dim..][..head_dim];
            let part = head / (n_head / n_head_kv) * head_dim;
            let score = |&cell: &usize| {
                let key = &keys.row(cell)[part..][..head_dim];
                let dot: f64 = q.iter().zip(key).map(|(q, k)| q * k).sum();
                dot * f64::from(attention.scale)
            };
            let scores: Vec<f64> = cells.iter().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let feature = |i: usize| {
                let value = |&cell: &usize| values.row(cell)[part + i];
                let terms = cells.iter().map(value).zip(&weights);
                terms.map(|(v, w)| v * w / total).sum::<f64>()
            };
            y.extend((0..head_dim).map(feature));
        }
        y
    })
}

/// Cells that row `r` attends to.
fn window(case: &Case, layout: WindowLayout, r: usize) -> Vec<usize> {
    let cells = |first: i32, end: i32| first as usize..end as usize;
    match layout {
        WindowLayout::Causal => (0..=integers(case, 1)[r] as usize).collect(),
        WindowLayout::Span => {
            let bounds = case.inputs[3].i32_row(r);
            cells(bounds[0], bounds[1]).collect()
        }
        WindowLayout::Map => {
            let runs = case.inputs[3].i32_row(r).chunks(2);
            runs.flat_map(|run| cells(run[0], run[0] + run[1]))
                .collect()
        }
    }
}
