//! 8x8 matrices of a simdgroup.

use crate::run::{Case, check};

/// Element `(row, column)` of the test matrix.
fn element(row: usize, column: usize) -> f64 {
    (row * 8 + column) as f64
}

/// What a lane makes of a stored matrix: elements `2 * lane` and `2 * lane + 1`, in one number.
fn pair(lane: usize, matrix: impl Fn(usize, usize) -> f64) -> f64 {
    let at = |index: usize| matrix(index / 8, index % 8);
    at(2 * lane) + 3.0 * at(2 * lane + 1)
}

fn product(row: usize, column: usize) -> f64 {
    (0..8).map(|k| element(row, k) * element(k, column)).sum()
}

#[test]
fn loads_stores_and_products() {
    // Every result is stored, and read back by other lanes than those that hold its elements.
    let before = "
        threadgroup float m[64], wide[96], r[6][64];
        for (int i = 0; i < 2; i++) m[2 * lane + i] = float(2 * lane + i);
        for (int i = 0; i < 3; i++) wide[3 * lane + i] = float(3 * lane + i);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 a, t, w, sum, d = simdgroup_float8x8(3.0f);
        simdgroup_load(a, m);
        simdgroup_load(t, m, 8, ulong2(0, 0), true);
        simdgroup_load(w, wide, 12, ulong2(4, 0));
        simdgroup_half8x8 h;
        h.thread_elements() = half2(a.thread_elements());
        simdgroup_multiply_accumulate(sum, a, h, d);
        simdgroup_store(a * a, r[0]);
        simdgroup_store(t, r[1]);
        simdgroup_store(w, r[2]);
        simdgroup_store(sum, r[3]);
        simdgroup_store(a, r[4], 8, ulong2(0, 0), true);
        simdgroup_store(make_filled_simdgroup_matrix<float, 8, 8>(7.0f), r[5]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #define PAIR(n) (r[n][2 * lane] + 3.0f * r[n][2 * lane + 1])";
    let cases = [
        Case {
            msl: "PAIR(0)",
            expected: |lane| pair(lane, product),
        },
        Case {
            msl: "PAIR(1)",
            expected: |lane| pair(lane, |row, column| element(column, row)),
        },
        Case {
            msl: "PAIR(2)",
            expected: |lane| pair(lane, |row, column| (12 * row + column + 4) as f64),
        },
        Case {
            msl: "PAIR(3)",
            expected: |lane| {
                pair(lane, |row, column| {
                    product(row, column) + if row == column { 3.0 } else { 0.0 }
                })
            },
        },
        Case {
            msl: "PAIR(4)",
            expected: |lane| pair(lane, |row, column| element(column, row)),
        },
        Case {
            msl: "PAIR(5)",
            expected: |_| 28.0,
        },
    ];
    // All values and sums are integers below 2^24.
    check("matrices8x8.metal", before, &cases, 0.0);
}
