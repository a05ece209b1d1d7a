//! Rows by index, of activations and of weights.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::dequantize;
use minfer_metal::arguments::{Embed, GetRows, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ROWS;

use crate::launch::{Launch, Operand, WIDTHS, values};

const INDICES: [i32; 4] = [2, 0, 2, 4];
const SOURCE_ROWS: usize = 5;

fn check(width: usize, beyond: [usize; 2]) {
    let strides = beyond.map(|beyond| width + beyond);
    let x = values(SOURCE_ROWS * width, 7);
    let args = GetRows {
        width: width as u32,
        y_stride: strides[0] as u32,
        x_stride: strides[1] as u32,
    };
    let launch = Launch {
        file: ROWS,
        kernel: "get_rows",
        constants: &[(
            0,
            ConstantValue::Bool(strides.iter().all(|stride| stride % 4 == 0)),
        )],
        arguments: args.as_bytes(),
        operands: vec![
            Operand::output(width, INDICES.len()).strided(strides[0]),
            Operand::input(width, &x).strided(strides[1]),
            Operand::integers(&INDICES),
        ],
        bindings: &[0, 1, 2],
        grid: Grid::Threads(Size([width.div_ceil(4) as u32, INDICES.len() as u32, 1])),
        threadgroup: [64, 1, 1],
    };
    let expected: Vec<_> = INDICES
        .iter()
        .flat_map(|&index| x[index as usize * width..][..width].to_vec())
        .collect();
    assert_eq!(launch.run_floats(), expected, "width {width}");
}

#[test]
fn rows_of_every_tail() {
    for width in WIDTHS {
        check(width, [0, 0]);
        check(width, [4, 12]);
    }
}

/// A type, the name of its kernel's ending, and where a block has f16 fields.
const TYPES: [(TensorType, &str, &[usize]); 11] = [
    (TensorType::F32, "f32", &[]),
    (TensorType::F16, "f16", &[0]),
    (TensorType::BF16, "bf16", &[]),
    (TensorType::Q4_0, "q4_0", &[0]),
    (TensorType::Q4_1, "q4_1", &[0, 2]),
    (TensorType::Q5_0, "q5_0", &[0]),
    (TensorType::Q5_1, "q5_1", &[0, 2]),
    (TensorType::Q8_0, "q8_0", &[0]),
    (TensorType::Q4_K, "q4_k", &[0, 2]),
    (TensorType::Q5_K, "q5_k", &[0, 2]),
    (TensorType::Q6_K, "q6_k", &[208]),
];

/// Rows of random blocks. Floats have no exponent that makes them infinite or not a number.
fn random_rows(ty: TensorType, halves: &[usize], width: usize) -> Vec<u8> {
    let bytes = SOURCE_ROWS * ty.row_bytes(width).unwrap();
    let words = values(bytes.div_ceil(2), 8);
    let mut rows: Vec<u8> = words
        .iter()
        .flat_map(|value| [value.to_bits() as u8, (value.to_bits() >> 8) as u8])
        .collect();
    rows.truncate(bytes);
    for block in rows.chunks_mut(ty.block_bytes()) {
        for &at in halves {
            block[at + 1] &= 0xbf;
        }
    }
    if let TensorType::F32 | TensorType::BF16 = ty {
        rows.chunks_mut(ty.block_bytes())
            .for_each(|value| value[value.len() - 1] &= 0xbf);
    }
    rows
}

#[test]
fn embeddings_of_every_type() {
    for (ty, name, halves) in TYPES {
        // The last block of a row and the last row are read to their ends.
        let width = 512;
        let row_bytes = ty.row_bytes(width).unwrap();
        let table = random_rows(ty, halves, width);
        let args = Embed {
            width: width as u32,
            y_stride: width as u32 + 3,
            row_bytes: row_bytes as u32,
        };
        let launch = Launch {
            file: ROWS,
            kernel: &format!("embed_{name}"),
            constants: &[(0, ConstantValue::Bool(false))],
            arguments: args.as_bytes(),
            operands: vec![
                Operand::output(width, INDICES.len()).strided(width + 3),
                Operand::bytes(&table),
                Operand::integers(&INDICES),
            ],
            bindings: &[0, 1, 2],
            grid: Grid::Threads(Size([width as u32, INDICES.len() as u32, 1])),
            threadgroup: [256, 1, 1],
        };
        let mut expected = vec![0.0; SOURCE_ROWS * width];
        dequantize(ty, &table, &mut expected).unwrap();
        let expected = INDICES
            .iter()
            .flat_map(|&index| expected[index as usize * width..][..width].to_vec());
        let bits = |value: f32| value.to_bits();
        let expected: Vec<_> = expected.map(bits).collect();
        assert!(launch.run() == expected, "{name}");
    }
}
