//! 8x8 matrices of a simdgroup.

use minfer_softmetal::Mode;

use crate::run::{Case, check, device, library};

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

/// An element of a matrix by row and column.
type Element = fn(usize, usize) -> f64;

/// A case per stored matrix `r[n]`, given its elements.
fn cases(elements: &[Element]) -> Vec<(String, Element)> {
    let name = |n| format!("r[{n}][2 * lane] + 3.0f * float(r[{n}][2 * lane + 1])");
    elements
        .iter()
        .enumerate()
        .map(|(n, &element)| (name(n), element))
        .collect()
}

fn check_matrices(name: &str, before: &str, elements: &[Element]) {
    let cases = cases(elements);
    let cases: Vec<_> = cases
        .iter()
        .map(|(msl, matrix)| Case {
            msl,
            expected: Box::new(move |lane| pair(lane, matrix)),
        })
        .collect();
    // All values and sums are integers that their type holds.
    check(name, before, &cases, 0.0);
}

#[test]
fn loads_stores_and_products() {
    // Every result is stored, and read back by other lanes than those that hold its elements.
    let before = "
        threadgroup float m[64], wide[96], r[7][64];
        for (int i = 0; i < 2; i++) m[2 * lane + i] = float(2 * lane + i);
        for (int i = 0; i < 3; i++) wide[3 * lane + i] = float(3 * lane + i);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 a, t, w, sum, twice, d = simdgroup_float8x8(3.0f);
        simdgroup_load(a, m);
        simdgroup_load(t, m, 8, ulong2(0, 0), true);
        simdgroup_load(w, wide, 12, ulong2(4, 0));
        simdgroup_half8x8 h, two = simdgroup_half8x8(2.0h);
        h.thread_elements() = half2(a.thread_elements());
        simdgroup_multiply_accumulate(sum, a, h, d);
        simdgroup_multiply(twice, two, a);
        simdgroup_store(a * a, r[0]);
        simdgroup_store(t, r[1]);
        simdgroup_store(w, r[2]);
        simdgroup_store(sum, r[3]);
        simdgroup_store(a, r[4], 8, ulong2(0, 0), true);
        simdgroup_store(make_filled_simdgroup_matrix<float, 8, 8>(7.0f), r[5]);
        simdgroup_store(twice, r[6]);
        threadgroup_barrier(mem_flags::mem_threadgroup);";
    check_matrices(
        "matrices8x8.metal",
        before,
        &[
            product,
            |row, column| element(column, row),
            |row, column| (12 * row + column + 4) as f64,
            |row, column| product(row, column) + if row == column { 3.0 } else { 0.0 },
            |row, column| element(column, row),
            |_, _| 7.0,
            |row, column| 2.0 * element(row, column),
        ],
    );
}

#[test]
fn of_half_and_bfloat() {
    let before = |ty: &str| {
        format!(
            "threadgroup {ty} m[64], r[3][64];
             for (int i = 0; i < 2; i++) m[2 * lane + i] = {ty}((2 * lane + i) % 7);
             threadgroup_barrier(mem_flags::mem_threadgroup);
             simdgroup_matrix<{ty}, 8, 8> a, b, c = make_filled_simdgroup_matrix<{ty}, 8, 8>({ty}(1));
             simdgroup_matrix<{ty}, 8, 8> five = simdgroup_matrix<{ty}, 8, 8>({ty}(5));
             simdgroup_load(a, m, 8);
             simdgroup_multiply_accumulate(b, a, a, c);
             simdgroup_store(b, r[0], 8);
             simdgroup_store(a, r[1], 8);
             simdgroup_multiply(b, a, five);
             simdgroup_store(b, r[2]);
             threadgroup_barrier(mem_flags::mem_threadgroup);"
        )
    };
    fn small(row: usize, column: usize) -> f64 {
        ((8 * row + column) % 7) as f64
    }
    let elements: [Element; 3] = [
        // At most 229, which bfloat holds.
        |row, column| {
            1.0 + (0..8)
                .map(|k| small(row, k) * small(k, column))
                .sum::<f64>()
        },
        small,
        |row, column| 5.0 * small(row, column),
    ];
    for ty in ["half", "bfloat"] {
        check_matrices(&format!("{ty}8x8.metal"), &before(ty), &elements);
    }
}

#[test]
fn operands_of_products_are_not_constant() {
    let compiles = |name: &str, operand: &str| {
        let text = format!(
            "#include <metal_stdlib>\nusing namespace metal;\n\
             inline void add(thread simdgroup_float8x8& sum, {operand} a) {{\n\
             simdgroup_multiply_accumulate(sum, a, a, sum);\n}}\n\
             kernel void k(device float* y [[buffer(0)]]) {{ y[0] = 0.0f; }}\n"
        );
        library(&device(Mode::Unchecked), name, &text).is_ok()
    };
    assert!(compiles("operand8x8.metal", "thread simdgroup_float8x8&"));
    assert!(!compiles(
        "constant8x8.metal",
        "thread const simdgroup_float8x8&"
    ));
}
