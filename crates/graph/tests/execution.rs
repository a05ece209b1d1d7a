//! Values of small graphs, worked out by hand, through the whole pipeline.

mod support;

use minfer_graph::{
    Executor, Graph, GraphBuilder, GraphError, GraphParams, Input, KvFormat, KvLayout, KvShape,
    NodeId, RowCount, Rows, StepInputs, WindowLayout,
};
use support::*;

/// `2 * (W x + b)`: with `W = [[1, 2], [3, 4], [5, 6]]` and `b = [10, 20, 30]`.
fn linear(executor: &Executor, params: &GraphParams) -> Result<Graph, GraphError> {
    let layout = KvLayout::default();
    let mut b = GraphBuilder::new(executor.catalog(), *params, &layout);
    let x = b.activations(0, 2, Rows::Tokens)?;
    let y = b.matmul(x, "w")?;
    let y = b.add_bias(y, "w")?;
    let y = b.scale(y, 2.0, "twice")?;
    b.output(y)?;
    Ok(b.finish())
}

fn linear_executor(backends: Vec<Mock>) -> Executor {
    let backends = backends.into_iter().map(Mock::boxed).collect();
    let mut executor = Executor::new(backends, KvLayout::default());
    let w = tensor("w.weight", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = tensor("w.bias", &[3], &[10.0, 20.0, 30.0]);
    for tensor in [w, b] {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

const X: [f32; 4] = [1.0, 1.0, 2.0, -1.0];
const Y: [f32; 6] = [26.0, 54.0, 82.0, 20.0, 44.0, 68.0];

fn run_linear(executor: &mut Executor) -> Result<Vec<f32>, GraphError> {
    let graph = linear(executor, &params(4))?;
    executor.prepare(&params(4), |_| Ok::<_, GraphError>(graph))?;
    let step = StepInputs {
        rows: rows(prompt(1), RowCount::default()),
        activations: &[&X[..2]],
        ..StepInputs::default()
    };
    executor.run(&params(4), &step)?;
    let step = StepInputs {
        rows: rows(prompt(2), RowCount::default()),
        activations: &[&X],
        ..StepInputs::default()
    };
    Ok(executor.run(&params(4), &step)?.values(0).to_vec())
}

#[test]
fn one_backend_runs_in_one_buffer() {
    let mut executor = linear_executor(vec![Mock::new("a")]);
    assert_eq!(run_linear(&mut executor).unwrap(), Y);
    let plan = executor.dump(&params(4)).unwrap().to_json();
    let buffers: Vec<_> = (1..4).map(|i| plan["nodes"][i]["buffer"].clone()).collect();
    assert_eq!(
        buffers,
        [buffers[0].clone(), buffers[0].clone(), buffers[0].clone()]
    );
    assert_ne!(plan["nodes"][0]["buffer"], buffers[0]);
}

#[test]
fn a_split_in_the_middle_copies_there_and_back() {
    let (a, ran_on_a) = Mock::logging("a");
    let (b, ran_on_b) = Mock::logging("b");
    let mut executor = linear_executor(vec![a, b]);
    executor.set_preference(Some(Box::new(|_, node| {
        (node.name == "w.bias").then_some(1)
    })));
    assert_eq!(run_linear(&mut executor).unwrap(), Y);
    assert_eq!(*ran_on_a.lock().unwrap(), ["w", "twice", "w", "twice"]);
    assert_eq!(*ran_on_b.lock().unwrap(), ["w.bias", "w.bias"]);
    let plan = executor.dump(&params(4)).unwrap().to_json();
    let splits = plan["splits"].as_array().unwrap();
    let backends: Vec<_> = splits.iter().map(|split| &split["backend"]).collect();
    assert_eq!(backends, ["a", "b", "a"]);
    let copies: Vec<_> = splits
        .iter()
        .map(|split| split["copies"].to_string())
        .collect();
    assert_eq!(copies, ["[]", "[1]", "[2]"]);
}

#[test]
fn views_keep_their_stride_through_a_copy_and_as_output() {
    let mut executor = linear_executor(vec![Mock::new("a"), Mock::new("b")]);
    executor.set_preference(Some(Box::new(|_, node| {
        (node.name == "tenfold").then_some(1)
    })));
    let layout = KvLayout::default();
    let mut b = GraphBuilder::new(executor.catalog(), params(4), &layout);
    let x = b.activations(0, 2, Rows::Tokens).unwrap();
    let y = b.matmul(x, "w").unwrap();
    let tail = b.view(y, 1, 2, "tail").unwrap();
    let last = b.view(tail, 1, 1, "last").unwrap();
    let scaled = b.scale(last, 10.0, "tenfold").unwrap();
    b.output(scaled).unwrap();
    b.output(tail).unwrap();
    let graph = b.finish();
    executor
        .prepare(&params(4), |_| Ok::<_, GraphError>(graph))
        .unwrap();
    let step = StepInputs {
        rows: rows(prompt(2), RowCount::default()),
        activations: &[&X],
        ..StepInputs::default()
    };
    let outputs = executor.run(&params(4), &step).unwrap();
    // W x is (3, 7, 11) and (0, 2, 4).
    assert_eq!(outputs.values(0), [110.0, 40.0]);
    assert_eq!(outputs.values(1), [7.0, 11.0, 2.0, 4.0]);
    assert_eq!(outputs.row(1, 1), Some(&[2.0, 4.0][..]));
    assert_eq!(outputs.row(1, 2), None);
}

#[test]
fn an_input_reaches_every_backend_that_reads_it() {
    let mut executor = linear_executor(vec![Mock::new("a"), Mock::new("b")]);
    executor.set_preference(Some(Box::new(|_, node| (node.name == "on_b").then_some(1))));
    let layout = KvLayout::default();
    let mut b = GraphBuilder::new(executor.catalog(), params(4), &layout);
    let x = b.activations(0, 2, Rows::Tokens).unwrap();
    let first = b.scale(x, 2.0, "on_a").unwrap();
    let second = b.scale(x, 3.0, "on_b").unwrap();
    let sum = b.add(first, second, "sum").unwrap();
    b.output(sum).unwrap();
    b.output(x).unwrap();
    let graph = b.finish();
    executor
        .prepare(&params(4), |_| Ok::<_, GraphError>(graph))
        .unwrap();
    let step = StepInputs {
        rows: rows(generated(2), RowCount::default()),
        activations: &[&X],
        ..StepInputs::default()
    };
    let outputs = executor.run(&params(4), &step).unwrap();
    assert_eq!(outputs.values(0), [5.0, 5.0, 10.0, -5.0]);
    assert_eq!(outputs.values(1), X);
}

/// Attention of one head over keys that are all zero: the mean of the values `(t, 10 t)` in the window.
fn mean_of_values(b: &mut GraphBuilder<'_>) -> Result<NodeId, GraphError> {
    let tokens = b.input(Input::Tokens)?;
    let q = b.embed(tokens, "values")?;
    let k = b.embed(tokens, "keys")?;
    let v = b.embed(tokens, "values")?;
    let stored = b.kv_store(k, v, 0)?;
    let heads = minfer_graph::AttentionHeads {
        n_head: 1,
        n_head_kv: 1,
        head_dim: 2,
        scale: 1.0,
    };
    b.attention(q, stored, heads)
}

fn mean_executor(windows: &[GraphParams]) -> Executor {
    let shape = KvShape {
        cells: 4,
        width: 2,
        head_dim: 2,
        format: KvFormat::F32,
    };
    let layout = KvLayout::uniform(1, shape);
    let mut executor = Executor::new(vec![Mock::new("a").boxed()], layout.clone());
    let values: Vec<f32> = (0..6).flat_map(|t| [t as f32, 10.0 * t as f32]).collect();
    for tensor in [
        tensor("keys.weight", &[2, 6], &[0.0; 12]),
        tensor("values.weight", &[2, 6], &values),
    ] {
        executor.register_weight(&tensor, None).unwrap();
    }
    for params in windows {
        let mut b = GraphBuilder::new(executor.catalog(), *params, &layout);
        let y = mean_of_values(&mut b).unwrap();
        b.output(y).unwrap();
        let graph = b.finish();
        executor
            .prepare(params, |_| Ok::<_, GraphError>(graph))
            .unwrap();
    }
    executor
}

#[test]
fn stored_cells_outlive_the_plan_that_wrote_them() {
    let (prefill, decode) = (params(3), params(1));
    let mut executor = mean_executor(&[prefill, decode]);
    let step = StepInputs {
        rows: rows(prompt(2), RowCount::default()),
        tokens: &[1, 3],
        positions: &[0, 1],
        cells: &[0, 1],
        ..StepInputs::default()
    };
    let outputs = executor.run(&prefill, &step).unwrap();
    assert_eq!(outputs.values(0), [1.0, 10.0, 2.0, 20.0]);
    let step = StepInputs {
        rows: rows(generated(1), RowCount::default()),
        tokens: &[5],
        positions: &[2],
        cells: &[2],
        ..StepInputs::default()
    };
    let outputs = executor.run(&decode, &step).unwrap();
    assert_eq!(outputs.values(0), [3.0, 30.0]);
    assert!(
        executor
            .kv()
            .get(0)
            .is_some_and(|(backend, _)| backend == 0)
    );
}

#[test]
fn windows_select_cells() {
    let layout = |window| GraphParams {
        window,
        ..params(3)
    };
    let (span, map) = (layout(WindowLayout::Span), layout(WindowLayout::Map));
    let mut executor = mean_executor(&[span, map]);
    let step = StepInputs {
        rows: rows(prompt(3), RowCount::default()),
        tokens: &[1, 3, 5],
        positions: &[100, 101, 102],
        cells: &[3, 1, 2],
        window: &[3, 4, 1, 2, 1, 4],
        ..StepInputs::default()
    };
    let outputs = executor.run(&span, &step).unwrap();
    assert_eq!(outputs.values(0), [1.0, 10.0, 3.0, 30.0, 3.0, 30.0]);
    let window = [
        [3, 1, 0, 0, 0, 0, 0, 0],
        [3, 1, 1, 1, 0, 0, 0, 0],
        [1, 2, 0, 0, 0, 0, 0, 0],
    ];
    let step = StepInputs {
        window: window.as_flattened(),
        ..step
    };
    let outputs = executor.run(&map, &step).unwrap();
    assert_eq!(outputs.values(0), [1.0, 10.0, 2.0, 20.0, 4.0, 40.0]);
}

/// Logits of the rows of tokens 1, 4, 2 by a plain double-precision program.
const LOGITS: [[f32; 5]; 3] = [
    [-0.437296, -0.380932, 0.283671, 0.308217, 0.095050],
    [-0.135646, 0.073080, -0.282002, -0.284810, 0.491817],
    [0.246696, 0.385325, -0.188976, -0.005304, -0.294575],
];

fn transformer_executor(backends: Vec<Mock>) -> Executor {
    let backends = backends.into_iter().map(Mock::boxed).collect();
    let mut executor = Executor::new(backends, kv_layout());
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

fn prepare_transformer(executor: &mut Executor, params: &GraphParams) {
    let catalog = executor.catalog().clone();
    let build = |params: &GraphParams| transformer(&catalog, params);
    executor.prepare(params, build).unwrap();
}

fn assert_logits(values: &[f32], expected: &[[f32; 5]]) {
    let expected = expected.as_flattened();
    assert_eq!(values.len(), expected.len());
    for (value, expected) in values.iter().zip(expected) {
        assert!((value - expected).abs() < 2e-6, "{values:?}");
    }
}

/// All three rows at once, then the same tokens one by one.
fn check_transformer(executor: &mut Executor) {
    prepare_transformer(executor, &params(3));
    let step = StepInputs {
        rows: rows(prompt(3), prompt(2)),
        tokens: &[1, 4, 2],
        positions: &[0, 1, 2],
        cells: &[0, 1, 2],
        output_rows: &[2, 0],
        ..StepInputs::default()
    };
    let whole = executor.run(&params(3), &step).unwrap();
    assert_logits(whole.values(0), &[LOGITS[2], LOGITS[0]]);
    for i in 0..3 {
        let step = StepInputs {
            rows: rows(generated(1), generated(1)),
            tokens: &step.tokens[i..=i],
            positions: &step.positions[i..=i],
            cells: &step.cells[i..=i],
            output_rows: &[0],
            ..StepInputs::default()
        };
        let logits = executor.run(&params(3), &step).unwrap();
        assert_logits(logits.values(0), &LOGITS[i..=i]);
    }
}

#[test]
fn a_transformer_gives_its_reference_logits() {
    check_transformer(&mut transformer_executor(vec![Mock::new("a")]));
}

#[test]
fn a_fused_transformer_gives_its_reference_logits() {
    let mut fusing = Mock::new("a");
    fusing.fuses = |_, _| true;
    let mut executor = transformer_executor(vec![fusing]);
    check_transformer(&mut executor);
    let dump = executor.dump(&params(3)).unwrap();
    let count = |name: &str| {
        let nodes = dump.graph().nodes.iter();
        nodes.filter(|node| node.op.name() == name).count()
    };
    // Two projections to the residual stream in each layer, and the logits.
    assert_eq!(
        ["FusedQkv", "FusedFfn", "FusedMatMul"].map(count),
        [2, 2, 5]
    );
    assert_eq!(["RmsNorm", "MatMul", "Add"].map(count), [0, 0, 0]);
}

#[test]
fn a_transformer_split_by_layer_gives_its_reference_logits() {
    let (a, _) = Mock::logging("a");
    let (b, ran_on_b) = Mock::logging("b");
    let mut executor = transformer_executor(vec![a, b]);
    executor.set_preference(Some(Box::new(|_, node| minfer_graph::layer_of(&node.name))));
    check_transformer(&mut executor);
    let ran = ran_on_b.lock().unwrap();
    assert!(!ran.is_empty() && ran.iter().all(|name| name.starts_with("blk.1.")));
    let home = |layer| executor.kv().get(layer).map(|(backend, _)| backend);
    assert_eq!((home(0), home(1)), (Some(0), Some(1)));
}

#[test]
fn a_transformer_that_alternates_backends_gives_its_reference_logits() {
    let mut executor = transformer_executor(vec![Mock::new("a"), Mock::new("b")]);
    executor.set_preference(Some(Box::new(|_, node| Some(node.name.len() % 2))));
    check_transformer(&mut executor);
    let plan = executor.dump(&params(3)).unwrap().to_json();
    assert!(plan["splits"].as_array().unwrap().len() > 10);
}

#[test]
fn without_output_rows_only_the_cells_are_filled() {
    let mut executor = transformer_executor(vec![Mock::new("a")]);
    prepare_transformer(&mut executor, &params(3));
    let step = StepInputs {
        rows: rows(prompt(2), RowCount::default()),
        tokens: &[1, 4],
        positions: &[0, 1],
        cells: &[0, 1],
        ..StepInputs::default()
    };
    let outputs = executor.run(&params(3), &step).unwrap();
    assert_eq!((outputs.len(), outputs.values(0)), (1, &[][..]));
    let step = StepInputs {
        rows: rows(prompt(1), prompt(1)),
        tokens: &[2],
        positions: &[2],
        cells: &[2],
        output_rows: &[0],
        ..StepInputs::default()
    };
    let outputs = executor.run(&params(3), &step).unwrap();
    assert_logits(outputs.values(0), &LOGITS[2..]);
}
