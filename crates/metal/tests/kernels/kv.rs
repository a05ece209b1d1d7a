//! Stores into KV regions, byte for byte.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::quantize;
use minfer_metal::arguments::{KernelArguments, KvStore};
use minfer_metal::device::{Grid, Size};
use minfer_metal::kernels::KV;

use crate::launch::{Launch, Operand};
use crate::values::{WIDTHS, values};

const CELLS: [i32; 3] = [5, 0, 3];
const REGION: usize = 7;

fn cell_bytes(ty: TensorType, width: usize) -> usize {
    ty.row_bytes(width).unwrap().next_multiple_of(4)
}

fn launch(kernel: &str, ty: TensorType, x: &[f32]) -> Launch {
    let width = x.len() / CELLS.len();
    let cell_bytes = cell_bytes(ty, width);
    // Blocks take whole simdgroups, no more.
    let beyond = if ty == TensorType::Q8_0 { 0 } else { 40 };
    let args = KvStore {
        width: width as u32,
        x_stride: width as u32 + 2,
        cell_bytes: cell_bytes as u32,
    };
    Launch {
        file: KV,
        kernel: kernel.to_owned(),
        constants: vec![],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(REGION * cell_bytes / 4, 1),
            Operand::input(width, x).strided(width + 2),
            Operand::integers(&CELLS),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threads(Size([(width + beyond) as u32, CELLS.len() as u32, 1])),
        threadgroup: [64, 1, 1],
    }
}

/// Stores rows and compares the whole region with the encoded rows in their cells.
fn check(kernel: &str, ty: TensorType, x: &[f32]) {
    let width = x.len() / CELLS.len();
    let row_bytes = ty.row_bytes(width).unwrap();
    let cell_bytes = cell_bytes(ty, width);
    let mut expected = vec![0; REGION * cell_bytes];
    for (row, cell) in x.chunks(width).zip(CELLS) {
        let bytes = quantize(ty, row).unwrap();
        expected[cell as usize * cell_bytes..][..row_bytes].copy_from_slice(&bytes);
    }
    let found: Vec<_> = launch(kernel, ty, x)
        .run()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    assert!(found == expected, "{kernel} of width {width}");
}

/// A launch of every format.
pub fn launches() -> Vec<Launch> {
    let x = values(CELLS.len() * 64, 9);
    [
        ("kv_store_f32", TensorType::F32),
        ("kv_store_f16", TensorType::F16),
        ("kv_store_q8_0", TensorType::Q8_0),
    ]
    .map(|(kernel, ty)| launch(kernel, ty, &x))
    .into()
}

#[test]
fn floats_of_every_tail() {
    for width in WIDTHS {
        let x = values(CELLS.len() * width, 9);
        check("kv_store_f32", TensorType::F32, &x);
        check("kv_store_f16", TensorType::F16, &x);
    }
}

#[test]
fn blocks_are_those_of_the_reference_quantizer() {
    for width in [32, 64, 96, 256, 896, 1536] {
        let mut x = values(CELLS.len() * width, 10);
        // A block of zeros, one with a single large value, one of tiny values, and halves that round away from zero.
        x[..32].fill(0.0);
        x[width..width + 32].fill(1e-3);
        x[width] = -254.0;
        x[width + 1] = 1.0;
        x[width + 2] = -3.0;
        x[2 * width..2 * width + 32]
            .iter_mut()
            .for_each(|value| *value *= 1e-30);
        if width > 32 {
            // The scale has no inverse.
            x[32..64].fill(-1e-42);
        }
        check("kv_store_q8_0", TensorType::Q8_0, &x);
    }
}
