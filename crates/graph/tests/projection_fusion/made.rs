//! Nodes that are made, with values worked out by hand.

use super::*;

#[test]
fn a_norm_goes_into_the_projection_that_reads_it() {
    let planned = plan(|b, x, _| {
        let x = b.rms_norm(x, "norm", EPS)?;
        b.matmul(x, "w")
    });
    assert_eq!(planned.nodes(), ["FusedMatMul w(activations.0)"]);
    assert_eq!(planned.weights("w"), ["w.weight", "norm.weight"]);
    // The rows are divided by 5, then multiplied: 6 and 3, -6 and 3, 6 and -3.
    let expected = [12.0, 30.0, 48.0, 0.0, -6.0, -12.0, 0.0, 6.0, 12.0];
    assert_eq!(planned.values, expected);
}

#[test]
fn bias_and_residual_go_into_the_projection() {
    let planned = plan(|b, x, r| {
        let y = b.matmul(x, "w")?;
        let y = b.add_bias(y, "w")?;
        b.add(y, r, "sum")
    });
    assert_eq!(
        planned.nodes(),
        ["FusedMatMul sum(activations.0 activations.1)"]
    );
    assert_eq!(planned.weights("sum"), ["w.weight", "w.bias"]);
    // The products are 9, 21, 33; 3, 3, 3; -3, -3, -3.
    let expected = [
        119.0, 241.0, 363.0, 413.0, 523.0, 633.0, 707.0, 817.0, 927.0,
    ];
    assert_eq!(planned.values, expected);
}

#[test]
fn the_residual_may_be_the_first_summand_and_there_need_be_no_bias() {
    let planned = plan(|b, x, r| {
        let y = b.matmul(x, "w")?;
        b.add(r, y, "sum")
    });
    assert_eq!(
        planned.nodes(),
        ["FusedMatMul sum(activations.0 activations.1)"]
    );
    let expected = [
        109.0, 221.0, 333.0, 403.0, 503.0, 603.0, 697.0, 797.0, 897.0,
    ];
    assert_eq!(planned.values, expected);
}

#[test]
fn of_two_projections_the_first_takes_the_other_as_its_residual() {
    let planned = plan(|b, x, _| {
        let (w, v) = (b.matmul(x, "w")?, b.matmul(x, "v")?);
        b.add(w, v, "sum")
    });
    let expected = [
        "MatMul v(activations.0)",
        "FusedMatMul sum(activations.0 v)",
    ];
    assert_eq!(planned.nodes(), expected);
    let expected = [12.0, 24.0, 39.0, 6.0, 0.0, 3.0, -6.0, 0.0, -3.0];
    assert_eq!(planned.values, expected);
}

#[test]
fn rows_of_the_same_numbers_are_picked_by_the_projection() {
    let planned = plan(picked);
    assert_eq!(
        planned.nodes(),
        ["FusedMatMul sum(activations.0 activations.1 output_rows)"]
    );
    let expected = [707.0, 817.0, 927.0, 119.0, 241.0, 363.0];
    assert_eq!(planned.values, expected);
}

#[test]
fn a_norm_before_the_picked_rows_goes_in_too() {
    let planned = plan(|b, x, r| {
        let x = b.rms_norm(x, "norm", EPS)?;
        picked(b, x, r)
    });
    assert_eq!(
        planned.nodes(),
        ["FusedMatMul sum(activations.0 activations.1 output_rows)"]
    );
    let all = ["w.weight", "w.bias", "norm.weight"];
    assert_eq!(planned.weights("sum"), all);
    let expected = [710.0, 826.0, 942.0, 122.0, 250.0, 378.0];
    assert_eq!(planned.values, expected);
}

#[test]
fn a_norm_goes_into_gate_and_up_together() {
    let planned = plan(|b, x, _| {
        let x = b.rms_norm(x, "norm", EPS)?;
        let (gate, up) = (b.matmul(x, "w")?, b.matmul(x, "v")?);
        let gate = b.silu(gate)?;
        b.mul(gate, up, "act")
    });
    assert_eq!(planned.nodes(), ["FusedFfn act(activations.0)"]);
    let all = ["w.weight", "v.weight", "norm.weight"];
    assert_eq!(planned.weights("act"), all);
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let expected = [
        [3.0 * silu(12.0), 6.0 * silu(30.0), 9.0 * silu(48.0)],
        [0.0, -6.0 * silu(-6.0), -3.0 * silu(-12.0)],
        [0.0, 6.0 * silu(6.0), 3.0 * silu(12.0)],
    ];
    assert_eq!(planned.values, expected.concat());
}
