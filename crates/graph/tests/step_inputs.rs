//! Every input of a step is checked before anything runs.

mod support;

use minfer_graph::{Executor, GraphParams, RowCount, StepInputs, WindowLayout};
use support::*;

fn executor(params: &GraphParams) -> Executor {
    let mut executor = Executor::new(vec![Mock::new("a").boxed()], kv_layout());
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    let catalog = executor.catalog().clone();
    executor
        .prepare(params, |params| transformer(&catalog, params))
        .unwrap();
    executor
}

fn valid() -> StepInputs<'static> {
    StepInputs {
        rows: rows(prompt(2), prompt(1)),
        tokens: &[1, 4],
        positions: &[0, 1],
        cells: &[0, 1],
        output_rows: &[1],
        ..StepInputs::default()
    }
}

fn refused(step: StepInputs<'_>) -> String {
    let mut executor = executor(&params(4));
    executor.run(&params(4), &valid()).unwrap();
    let error = executor.run(&params(4), &step).unwrap_err().to_string();
    executor.run(&params(4), &valid()).unwrap();
    error
}

#[test]
fn row_counts_stay_within_the_plan() {
    let rows_of = |tokens, outputs| StepInputs {
        rows: rows(prompt(tokens), prompt(outputs)),
        ..valid()
    };
    assert_eq!(
        refused(rows_of(0, 0)),
        "step has 0 token rows, its plan holds 1 to 4"
    );
    assert_eq!(
        refused(rows_of(5, 0)),
        "step has 5 token rows, its plan holds 1 to 4"
    );
    assert_eq!(
        refused(rows_of(2, 5)),
        "step has 5 output rows, its plan holds 0 to 4"
    );
    let mixed = RowCount {
        prompt: 3,
        generated: 2,
    };
    let error = refused(StepInputs {
        rows: rows(mixed, prompt(0)),
        ..valid()
    });
    assert_eq!(error, "step has 5 token rows, its plan holds 1 to 4");
}

#[test]
fn a_plan_for_generated_rows_takes_no_prompt_rows() {
    let alone = GraphParams {
        generated_only: true,
        ..params(4)
    };
    let mut executor = executor(&alone);
    let mut run = |rows| executor.run(&alone, &StepInputs { rows, ..valid() }).err();
    let mixed = RowCount {
        prompt: 1,
        generated: 1,
    };
    for (rows, found) in [
        (rows(prompt(2), prompt(1)), "2 token"),
        (rows(mixed, generated(1)), "1 token"),
        (rows(generated(2), prompt(1)), "1 output"),
    ] {
        let expected =
            format!("step has {found} rows of a prompt, its plan is for generated rows alone");
        assert_eq!(run(rows).unwrap().to_string(), expected);
    }
    assert!(run(rows(generated(2), generated(1))).is_none());
}

#[test]
fn slices_have_one_value_per_row() {
    let error = refused(StepInputs {
        tokens: &[1],
        ..valid()
    });
    assert_eq!(error, "step input tokens has 1 elements, expected 2");
    let error = refused(StepInputs {
        positions: &[],
        ..valid()
    });
    assert_eq!(error, "step input positions has 0 elements, expected 2");
    let error = refused(StepInputs {
        cells: &[0, 1, 2],
        ..valid()
    });
    assert_eq!(error, "step input cells has 3 elements, expected 2");
    let error = refused(StepInputs {
        output_rows: &[0, 1],
        ..valid()
    });
    assert_eq!(error, "step input output_rows has 2 elements, expected 1");
}

#[test]
fn values_are_in_range() {
    let error = refused(StepInputs {
        tokens: &[1, 5],
        ..valid()
    });
    assert_eq!(
        error,
        "step input tokens, row 1: 5 is outside the vocabulary of 5"
    );
    let error = refused(StepInputs {
        tokens: &[-1, 1],
        ..valid()
    });
    assert_eq!(
        error,
        "step input tokens, row 0: -1 is outside the vocabulary of 5"
    );
    let error = refused(StepInputs {
        positions: &[0, -2],
        ..valid()
    });
    assert_eq!(
        error,
        "step input positions, row 1: -2 is outside the 16 cells of a causal window"
    );
    let error = refused(StepInputs {
        positions: &[0, 16],
        ..valid()
    });
    assert_eq!(
        error,
        "step input positions, row 1: 16 is outside the 16 cells of a causal window"
    );
    let error = refused(StepInputs {
        cells: &[16, 1],
        ..valid()
    });
    assert_eq!(
        error,
        "step input cells, row 0: 16 is outside the KV region of 16 cells"
    );
    let error = refused(StepInputs {
        cells: &[1, 1],
        ..valid()
    });
    assert_eq!(error, "step input cells, row 1: 1 is stored to twice");
    let error = refused(StepInputs {
        output_rows: &[2],
        ..valid()
    });
    assert_eq!(
        error,
        "step input output_rows, row 0: 2 is not one of the step's 2 tokens"
    );
}

#[test]
fn an_output_row_has_the_role_of_its_token() {
    // Tokens 0 and 1 of a prompt, token 2 generated.
    let tokens = RowCount {
        prompt: 2,
        generated: 1,
    };
    let outputs = RowCount {
        prompt: 1,
        generated: 1,
    };
    let step = |outputs, output_rows| StepInputs {
        rows: rows(tokens, outputs),
        tokens: &[1, 4, 2],
        positions: &[0, 1, 2],
        cells: &[0, 1, 2],
        output_rows,
        ..StepInputs::default()
    };
    assert_eq!(
        refused(step(outputs, &[2, 2])),
        "step input output_rows, row 0: 2 is not among tokens 0..2, but the row is a prompt one"
    );
    assert_eq!(
        refused(step(outputs, &[1, 1])),
        "step input output_rows, row 1: 1 is not among tokens 2..3, but the row is a generated one"
    );
    assert_eq!(
        refused(step(generated(2), &[0, 2])),
        "step input output_rows, row 0: 0 is not among tokens 2..3, but the row is a generated one"
    );
    let mut executor = executor(&params(4));
    executor.run(&params(4), &step(outputs, &[1, 2])).unwrap();
}

fn window_error(layout: WindowLayout, window: &[i32]) -> Option<String> {
    let params = GraphParams {
        window: layout,
        ..params(4)
    };
    let mut executor = executor(&params);
    // Positions within a sequence may exceed the cells when the window says where the cells are.
    let step = StepInputs {
        window,
        positions: &[40, 41],
        ..valid()
    };
    executor
        .run(&params, &step)
        .err()
        .map(|error| error.to_string())
}

#[test]
fn spans_are_ranges_of_cells() {
    assert_eq!(window_error(WindowLayout::Span, &[0, 1, 0, 16]), None);
    for (span, row) in [
        ([0, 1, 3, 3], 1),
        ([0, 1, 4, 3], 1),
        ([-1, 1, 0, 1], 0),
        ([0, 1, 0, 17], 1),
    ] {
        let error = window_error(WindowLayout::Span, &span).unwrap();
        let value = &span[2 * row..2 * row + 2];
        let expected =
            format!("step input window, row {row}: {value:?} is not a range within 16 cells");
        assert_eq!(error, expected);
    }
    assert!(window_error(WindowLayout::Span, &[i32::MIN, i32::MAX, 0, 1]).is_some());
}

#[test]
fn maps_have_runs_of_cells() {
    let first = [0, 1, 0, 0, 0, 0, 0, 0];
    let with = |second: [i32; 8]| window_error(WindowLayout::Map, [first, second].as_flattened());
    assert_eq!(with([15, 1, 0, 2, 0, 0, 0, 0]), None);
    for bad in [
        [0; 8],
        [15, 2, 0, 0, 0, 0, 0, 0],
        [0, 1, -1, 1, 0, 0, 0, 0],
        [0, -1, 0, 1, 0, 0, 0, 0],
    ] {
        let error = with(bad).unwrap();
        assert!(
            error.ends_with("is not 1 to 4 runs within 16 cells"),
            "{error}"
        );
    }
}

#[test]
fn a_fifth_run_is_refused_not_dropped() {
    let five = [0, 1, 2, 1, 4, 1, 6, 1, 8, 1];
    let four = [0, 1, 2, 1, 4, 1, 6, 1];
    assert_eq!(
        window_error(WindowLayout::Map, [four, four].as_flattened()),
        None
    );
    assert_eq!(
        window_error(WindowLayout::Map, [five, five].as_flattened()).unwrap(),
        "step input window has 20 elements, expected 16"
    );
}
