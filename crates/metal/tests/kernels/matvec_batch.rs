//! Products of weights and several generated rows, which have the bits of each row alone.

use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::MATVEC_BATCH;
use minfer_metal::ops;
use minfer_metal::ops::matvec::{SIMDGROUPS, outputs_per_threadgroup, rows_per_threadgroup};

use crate::launch::{Launch, options};
use crate::matvec::{self, Shape, TOLERANCE};
use crate::refused::{Encoding, Work, encoded};
use crate::values::{WIDTHS, values};
use crate::weights::{TYPES, WeightType};

/// As `ops::matvec` does it for two rows and more.
fn launch(weight: &WeightType, bytes: &[u8], x: &[f32], shape: &Shape) -> Launch {
    let batch = rows_per_threadgroup(shape.rows);
    let mut launch = matvec::launch(weight, bytes, x, shape);
    launch.file = MATVEC_BATCH;
    launch.kernel = format!("matvec_batch_{}", weight.name);
    launch.constants.push((1, ConstantValue::U32(batch as u32)));
    let outputs = outputs_per_threadgroup(weight.ty).unwrap();
    launch.grid = Grid::Threadgroups(Size([
        shape.out_width.div_ceil(outputs) as u32,
        shape.rows.div_ceil(batch) as u32,
        1,
    ]));
    launch
}

/// A launch of every kernel.
pub fn launches() -> Vec<Launch> {
    let shape = Shape {
        in_width: 256,
        out_width: 5,
        rows: 3,
        beyond: [0, 0],
    };
    let x = values(shape.rows * shape.in_width, 12);
    let launch = |weight: &WeightType| {
        let bytes = weight.quantized(shape.out_width * shape.in_width, 13);
        launch(weight, &bytes, &x, &shape)
    };
    TYPES.iter().map(launch).collect()
}

fn check(weight: &WeightType, shape: &Shape) {
    let bytes = weight.quantized(shape.out_width * shape.in_width, 13);
    let x = values(shape.rows * shape.in_width, 12);
    let found = launch(weight, &bytes, &x, shape).run_floats();
    weight.check_products(&bytes, &x, shape.in_width, &found, TOLERANCE);
}

#[test]
fn rows_are_grouped_evenly() {
    for (rows, batch) in [(1, 1), (2, 2), (8, 8), (9, 5), (16, 8), (17, 6), (0, 1)] {
        assert_eq!(rows_per_threadgroup(rows), batch, "{rows}");
    }
}

#[test]
fn the_number_of_rows_chooses_the_kernel() {
    for weight in &TYPES {
        for (rows, kernel) in [(1, "matvec"), (2, "matvec_batch"), (9, "matvec_batch")] {
            let product = |encode: &mut Encoding<'_>, work: Work<'_>| {
                let matrix = work.matrix(weight.ty, 256, work.width);
                ops::matvec::matvec(encode, work.output(), matrix, work.value(work.x, 256))
            };
            let kernels = encoded(5, rows, product).unwrap();
            let names: Vec<_> = kernels.iter().map(|kernel| &kernel.kernel).collect();
            assert_eq!(names, [&format!("{kernel}_{}", weight.name)], "{rows} rows");
            assert_eq!(kernels[0].dispatches, 1);
        }
    }
}

#[test]
fn inputs_and_outputs_of_every_tail() {
    for weight in &TYPES {
        for in_width in WIDTHS.into_iter().filter(|width| weight.has(*width)) {
            let beyond = if in_width % 2 == 0 { [0, 4] } else { [3, 1] };
            // Nine rows are groups of five and four.
            for (out_width, rows) in [(1, 9), (5, 2)] {
                let shape = Shape {
                    in_width,
                    out_width,
                    rows,
                    beyond,
                };
                check(weight, &shape);
            }
        }
    }
}

/// The same for rows beside others that are not numbers.
#[test]
fn rows_have_the_bits_of_a_row_alone() {
    for weight in &TYPES {
        // More than one step of a simdgroup for every type, and a tail of one element where rows may end anywhere.
        let in_width = if weight.has(1281) { 1281 } else { 1280 };
        let out_width = 5;
        let bytes = weight.random(out_width * in_width, 18);
        for rows in (2..=9).chain([17]) {
            let shape = Shape {
                in_width,
                out_width,
                rows,
                beyond: [1, 3],
            };
            let x = values(rows * in_width, 19);
            let alone = matvec::launch(weight, &bytes, &x, &shape).words(options());
            for own in 0..2 {
                let mut x = x.clone();
                for other in x.chunks_mut(in_width).skip(1 - own).step_by(2) {
                    other.fill(f32::NAN);
                }
                let found = launch(weight, &bytes, &x, &shape).words(options());
                let pairs = found.chunks(out_width).zip(alone.chunks(out_width));
                for (row, (found, alone)) in pairs.enumerate() {
                    if row % 2 == own {
                        assert!(found == alone, "{}: row {row} of {rows}", weight.name);
                    } else {
                        let is_nan = |word: &u32| f32::from_bits(*word).is_nan();
                        assert!(found.iter().all(is_nan), "{}: row {row}", weight.name);
                    }
                }
            }
        }
    }
}

#[test]
fn weights_are_read_once_for_eight_rows() {
    let [in_width, out_width] = [512, 5];
    for weight in &TYPES {
        let bytes = weight.quantized(in_width * out_width, 17);
        // Every output's simdgroup reads the activations.
        let outputs = outputs_per_threadgroup(weight.ty).unwrap() / SIMDGROUPS;
        let of_weight = |launch: Launch, rows: usize| {
            let found = launch.run_with(options()).statistics;
            let distinct = bytes.len() + 4 * in_width * rows;
            assert_eq!(found.distinct_bytes_read, distinct as u64);
            let of_x = out_width.div_ceil(outputs) * rows * 4 * in_width;
            found.counters.bytes_read - of_x as u64
        };
        let run = |launch: fn(&WeightType, &[u8], &[f32], &Shape) -> Launch, rows| {
            let shape = Shape {
                in_width,
                out_width,
                rows,
                beyond: [0, 0],
            };
            let x = values(rows * in_width, 16);
            of_weight(launch(weight, &bytes, &x, &shape), rows)
        };
        let once = run(matvec::launch, 1);
        for (rows, groups) in [(2, 1), (3, 1), (5, 1), (8, 1), (9, 2), (17, 3)] {
            assert_eq!(run(launch, rows), groups * once, "{}: {rows}", weight.name);
        }
    }
}
