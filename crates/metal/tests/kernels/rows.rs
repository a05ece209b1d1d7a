//! Rows by index.

use minfer_metal::arguments::{GetRows, KernelArguments};
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
