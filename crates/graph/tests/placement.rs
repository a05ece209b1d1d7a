//! Where nodes and KV regions go, and why not.

mod support;

use minfer_graph::{
    Backend, Executor, Graph, GraphBuilder, GraphError, GraphParams, Input, KvFormat, KvLayout,
    KvShape, Node, Op, WindowLayout, layer_of,
};
use support::*;

fn executor(mocks: Vec<Mock>, layout: KvLayout) -> Executor {
    let backends: Vec<Box<dyn Backend>> = mocks.into_iter().map(Mock::boxed).collect();
    let mut executor = Executor::new(backends, layout);
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

fn prepare(executor: &mut Executor, params: &GraphParams) -> Result<(), GraphError> {
    let catalog = executor.catalog().clone();
    executor.prepare(params, |params| transformer(&catalog, params))
}

fn refused(mocks: Vec<Mock>, params: &GraphParams) -> String {
    let mut executor = executor(mocks, kv_layout());
    prepare(&mut executor, params).unwrap_err().to_string()
}

/// `name@backend` of the nodes that match.
fn placed(executor: &Executor, params: &GraphParams, wanted: fn(&Node) -> bool) -> Vec<String> {
    let dump = executor.dump(params).unwrap();
    let nodes = dump.graph().nodes.iter().zip(dump.assigned());
    nodes
        .filter(|(node, _)| wanted(node))
        .map(|(node, backend)| format!("{}@{backend}", node.name))
        .collect()
}

fn refusing(name: &'static str, refuses: fn(&Node) -> bool) -> Mock {
    let mut mock = Mock::new(name);
    mock.refuses = refuses;
    mock
}

#[test]
fn the_first_backend_that_accepts_runs_a_node() {
    let first = refusing("first", |node| node.op == Op::Silu);
    let mut executor = executor(vec![first, Mock::new("second")], kv_layout());
    prepare(&mut executor, &params(1)).unwrap();
    let on_second = placed(&executor, &params(1), |node| node.op == Op::Silu);
    assert_eq!(
        on_second,
        ["blk.0.ffn_gate.silu@1", "blk.1.ffn_gate.silu@1"]
    );
    let others = placed(&executor, &params(1), |node| node.op != Op::Silu);
    assert!(
        others.iter().all(|place| place.ends_with("@0")),
        "{others:?}"
    );
}

#[test]
fn an_unread_view_of_an_input_can_be_an_output_beside_another_backends_consumer() {
    let first = refusing("first", |node| node.op == Op::Silu);
    let mut executor = executor(vec![first, Mock::new("second")], KvLayout::default());
    let (catalog, layout) = (Default::default(), KvLayout::default());
    let mut b = GraphBuilder::new(&catalog, params(1), &layout);
    let x = b.activations(0, 4, minfer_graph::Rows::Tokens).unwrap();
    let y = b.silu(x).unwrap();
    let view = b.view(x, 1, 2, "view").unwrap();
    b.output(y).unwrap();
    b.output(view).unwrap();
    let graph = b.finish();
    let prepared = executor.prepare(&params(1), |_| Ok::<_, GraphError>(graph));
    prepared.unwrap();
    let step = minfer_graph::StepInputs {
        rows: rows(prompt(1), prompt(0)),
        activations: &[&[0.0, 5.0, 7.0, 9.0]],
        ..Default::default()
    };
    let outputs = executor.run(&params(1), &step).unwrap();
    assert_eq!(outputs.values(1), [5.0, 7.0]);
}

#[test]
fn inputs_and_views_go_with_their_first_consumer() {
    let first = refusing("first", |node| node.op == Op::Silu);
    let mut executor = executor(vec![first, Mock::new("second")], KvLayout::default());
    let (catalog, layout) = (Default::default(), KvLayout::default());
    let mut b = GraphBuilder::new(&catalog, params(1), &layout);
    let x = b.activations(0, 8, minfer_graph::Rows::Tokens).unwrap();
    let view = b.view(x, 2, 4, "view").unwrap();
    let y = b.silu(view).unwrap();
    let scaled = b.scale(x, 2.0, "scaled").unwrap();
    b.output(y).unwrap();
    b.output(scaled).unwrap();
    let graph = b.finish();
    executor
        .prepare(&params(1), |_| Ok::<_, GraphError>(graph))
        .unwrap();
    let all = placed(&executor, &params(1), |_| true);
    assert_eq!(
        all,
        ["activations.0@1", "view@1", "view.silu@1", "scaled@0"]
    );
}

#[test]
fn a_preference_wins_unless_it_is_refused() {
    let mocks = vec![
        Mock::new("first"),
        refusing("second", |node| node.name == "blk.1.attn_norm"),
    ];
    let mut executor = executor(mocks, kv_layout());
    executor.set_preference(Some(Box::new(|_, node| layer_of(&node.name))));
    prepare(&mut executor, &params(1)).unwrap();
    let norms = placed(&executor, &params(1), |node| {
        matches!(node.op, Op::RmsNorm(_))
    });
    let expected = [
        "blk.0.attn_norm@0",
        "blk.0.ffn_norm@0",
        "blk.1.attn_norm@0",
        "blk.1.ffn_norm@1",
        "output_norm@0",
    ];
    assert_eq!(norms, expected);
}

#[test]
fn a_node_nobody_accepts_is_named_with_every_reason() {
    let refuses = |node: &Node| node.name == "blk.1.ffn_up";
    let error = refused(
        vec![refusing("a", refuses), refusing("b", refuses)],
        &params(1),
    );
    let expected = "node blk.1.ffn_up (MatMul, blk.1.ffn_up.weight F32) cannot be placed: \
                    a[0]: no kernel for MatMul; b[1]: no kernel for MatMul";
    assert_eq!(error, expected);
    assert!(refused(vec![], &params(1)).ends_with("there is no backend"));
}

#[test]
fn an_unknown_preferred_backend_is_an_error_only_if_nothing_else_runs_the_node() {
    let mut executor = executor(vec![refusing("a", |node| node.op == Op::Add)], kv_layout());
    executor.set_preference(Some(Box::new(|_, _| Some(7))));
    let error = prepare(&mut executor, &params(1)).unwrap_err().to_string();
    assert!(
        error.contains("is preferred, but there are only 1 backends"),
        "{error}"
    );
}

#[test]
fn all_users_of_a_region_share_its_backend() {
    let mocks = vec![
        refusing("a", |node| node.name == "blk.0.attn"),
        Mock::new("b"),
    ];
    let mut executor = executor(mocks, kv_layout());
    prepare(&mut executor, &params(1)).unwrap();
    let users = placed(&executor, &params(1), |node| node.op.kv_layer().is_some());
    let expected = [
        "blk.0.kv_store@1",
        "blk.0.attn@1",
        "blk.1.kv_store@0",
        "blk.1.attn@0",
    ];
    assert_eq!(users, expected);
}

#[test]
fn a_region_stays_where_it_was_made() {
    let mut executor = executor(vec![Mock::new("a"), Mock::new("b")], kv_layout());
    prepare(&mut executor, &params(1)).unwrap();
    let before: Vec<_> = (0..LAYERS).map(|layer| executor.kv().get(layer)).collect();
    executor.set_preference(Some(Box::new(|_, _| Some(1))));
    prepare(&mut executor, &params(1)).unwrap();
    let after: Vec<_> = (0..LAYERS).map(|layer| executor.kv().get(layer)).collect();
    assert_eq!(before, after);
    let stores = placed(&executor, &params(1), |node| {
        matches!(node.op, Op::KvStore { .. })
    });
    assert_eq!(stores, ["blk.0.kv_store@0", "blk.1.kv_store@0"]);
    let norms = placed(&executor, &params(1), |node| node.name == "output_norm");
    assert_eq!(norms, ["output_norm@1"]);
    executor.set_kv_layout(kv_layout()).unwrap();
    prepare(&mut executor, &params(1)).unwrap();
    assert!((0..LAYERS).all(|layer| executor.kv().get(layer).is_some_and(|(home, _)| home == 1)));
}

#[test]
fn a_window_goes_only_to_a_backend_that_reads_it() {
    let reading = |windows| {
        let mut mock = Mock::new("blind");
        mock.windows = windows;
        mock
    };
    for (layout, other) in [
        (WindowLayout::Span, &[WindowLayout::Map]),
        (WindowLayout::Map, &[WindowLayout::Span]),
    ] {
        let window = GraphParams {
            window: layout,
            ..params(1)
        };
        let error = refused(vec![reading(other)], &window);
        let expected = format!(
            "node blk.0.kv_store (KvStore) cannot be placed: blind[0]: cannot read {layout:?} windows \
             (node blk.0.attn)"
        );
        assert_eq!(error, expected);

        let mut executor = executor(vec![reading(other), Mock::new("reads")], kv_layout());
        prepare(&mut executor, &window).unwrap();
        let users = placed(&executor, &window, |node| node.op.kv_layer() == Some(0));
        assert_eq!(users, ["blk.0.kv_store@1", "blk.0.attn@1"]);
        let others = placed(&executor, &window, |node| node.op == Op::Silu);
        assert!(
            others.iter().all(|place| place.ends_with("@0")),
            "{others:?}"
        );
    }
    let mut causal = executor(vec![reading(&[])], kv_layout());
    prepare(&mut causal, &params(1)).unwrap();
}

#[test]
fn formats_are_asked_for() {
    let half = GraphParams {
        kv_format: KvFormat::F16,
        ..params(1)
    };
    let error = prepare_stores(KvFormat::F16, 4, &half)
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("a[0]: cannot read F16 KV"), "{error}");
}

/// Prepares a graph that stores one row of `width` features in a region of `format`.
fn prepare_stores(format: KvFormat, width: usize, params: &GraphParams) -> Result<(), GraphError> {
    let shape = KvShape {
        cells: CELLS,
        width,
        head_dim: 4,
        format,
    };
    let layout = KvLayout::uniform(1, shape);
    let mut executor = executor(vec![Mock::new("a")], layout.clone());
    let build = |params: &GraphParams| -> Result<Graph, GraphError> {
        let catalog = Default::default();
        let mut b = GraphBuilder::new(&catalog, *params, &layout);
        let k = b.activations(0, width, minfer_graph::Rows::Tokens)?;
        b.input(Input::Cells)?;
        let stored = b.kv_store(k, k, 0)?;
        b.output(stored)?;
        Ok(b.finish())
    };
    executor.prepare(params, build)
}

#[test]
fn a_width_the_format_cannot_hold_is_refused() {
    let cells = |width| KvFormat::Q8_0.cell_bytes(width);
    // One block of 34 bytes is padded to 36, two blocks fill 17 words.
    assert_eq!((cells(32), cells(64), cells(4)), (Some(36), Some(68), None));
    let quantized = GraphParams {
        kv_format: KvFormat::Q8_0,
        ..params(1)
    };
    let error = prepare_stores(KvFormat::Q8_0, 4, &quantized)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Q8_0 cannot hold heads of 4 features: they are not whole blocks of 32"),
        "{error}"
    );
    let error = prepare_stores(KvFormat::F32, 6, &params(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("in heads of 4"), "{error}");
    prepare_stores(KvFormat::F32, 8, &params(1)).unwrap();
}

#[test]
fn budgets_are_checked_before_anything_is_allocated() {
    let mut mock = Mock::new("a");
    mock.memory = Some(10_000);
    let mut executor = executor(vec![mock], kv_layout());
    let before = executor.memory()[0];
    let bytes: usize = weights().iter().map(|tensor| tensor.bytes.len()).sum();
    assert_eq!(
        (before.weights, before.pooled, before.budget),
        (bytes as u64, 0, Some(10_000))
    );
    let error = prepare(&mut executor, &params(64)).unwrap_err();
    let GraphError::Budget {
        backend,
        weights,
        pooled,
        request,
        budget,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (backend.as_str(), *weights, *pooled, *budget),
        ("a", before.weights, 0, 10_000)
    );
    assert!(weights + request > 10_000);
    for number in [weights, request, budget] {
        assert!(error.to_string().contains(&number.to_string()), "{error}");
    }
    assert_eq!(executor.memory()[0], before);

    executor.set_memory_budget(0, Some(weights + request - 1));
    assert!(prepare(&mut executor, &params(64)).is_err());
    executor.set_memory_budget(0, Some(weights + request));
    prepare(&mut executor, &params(64)).unwrap();
    assert_eq!(executor.memory()[0].pooled, *request);
    let more = match prepare(&mut executor, &params(128)).unwrap_err() {
        GraphError::Budget {
            pooled,
            request: more,
            ..
        } if pooled == *request => more,
        other => panic!("{other}"),
    };
    executor.set_memory_budget(0, Some(weights + request + more - 1));
    assert!(prepare(&mut executor, &params(128)).is_err());
    executor.set_memory_budget(0, Some(weights + request + more));
    prepare(&mut executor, &params(128)).unwrap();
    let pooled = executor.memory()[0].pooled;
    assert_eq!(pooled, request + more);
    let kv = (LAYERS * 2 * CELLS * 4 * 4) as u64;
    executor.set_kv_layout(KvLayout::default()).unwrap();
    assert_eq!(executor.memory()[0].pooled, pooled - kv);
}

#[test]
fn weights_count_against_the_budget() {
    let mut mock = Mock::new("a");
    mock.memory = Some(100);
    let mut executor = Executor::new(vec![mock.boxed()], KvLayout::default());
    executor
        .register_weight(&tensor("fits", &[20], &[0.0; 20]), None)
        .unwrap();
    let error = executor
        .register_weight(&tensor("too_much", &[6], &[0.0; 6]), None)
        .unwrap_err();
    let expected = "a: out of memory budget: registered weights 80 + pooled 0 + request 24 > \
                    budget 100 (bytes)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_weight_can_be_registered_with_one_backend_only() {
    let mut executor = Executor::new(
        vec![Mock::new("a").boxed(), Mock::new("b").boxed()],
        kv_layout(),
    );
    for tensor in weights() {
        let home = layer_of(&tensor.name).unwrap_or(0);
        executor.register_weight(&tensor, Some(home)).unwrap();
    }
    prepare(&mut executor, &params(1)).unwrap();
    let nowhere = executor.register_weight(&weights()[0], Some(2));
    assert_eq!(
        nowhere.unwrap_err().to_string(),
        "there is no backend 2, only 2"
    );
    let projections = placed(&executor, &params(1), |node| node.name.ends_with("ffn_up"));
    assert_eq!(projections, ["blk.0.ffn_up@0", "blk.1.ffn_up@1"]);
}

#[test]
fn graphs_that_break_the_rules_are_refused() {
    let mut executor = executor(vec![Mock::new("a")], kv_layout());
    let catalog = executor.catalog().clone();
    let mut refused = |edit: fn(&mut Graph)| {
        let mut graph = transformer(&catalog, &params(1)).unwrap();
        edit(&mut graph);
        let result = executor.prepare(&params(1), |_| Ok::<_, GraphError>(graph));
        result.unwrap_err().to_string()
    };
    let error = refused(|graph| graph.nodes.swap(1, 2));
    assert!(error.contains("reads the later node"), "{error}");
    let error = refused(|graph| graph.nodes[1].inputs.clear());
    assert!(error.contains("Embed has 0 inputs, not 1..=1"), "{error}");
    let error = refused(|graph| graph.weights.truncate(3));
    assert!(error.contains("weight 3 of 3"), "{error}");
    let error = refused(|graph| graph.outputs.push(minfer_graph::NodeId(1000)));
    assert!(error.contains("is an output of a graph of"), "{error}");
}
