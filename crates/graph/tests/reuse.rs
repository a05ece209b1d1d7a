//! Plans are reused, bounded in number, and observable.

mod support;

use std::sync::{Arc, Mutex};

use minfer_graph::{Executor, Fusion, GraphError, GraphParams, StepInputs, TracedValue};
use support::*;

fn executor(mock: Mock) -> Executor {
    let mut executor = Executor::new(vec![mock.boxed()], kv_layout());
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

fn prepare(executor: &mut Executor, params: &GraphParams) -> Result<(), GraphError> {
    let catalog = executor.catalog().clone();
    executor.prepare(params, |params| transformer(&catalog, params))
}

const STEP: StepInputs<'static> = StepInputs {
    rows: minfer_graph::StepRows {
        tokens: minfer_graph::RowCount {
            prompt: 1,
            generated: 0,
        },
        outputs: minfer_graph::RowCount {
            prompt: 1,
            generated: 0,
        },
    },
    tokens: &[1],
    positions: &[0],
    cells: &[0],
    window: &[],
    output_rows: &[0],
    activations: &[],
};

#[test]
fn equal_parameters_share_a_plan() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    let memory = executor.memory()[0];
    prepare(&mut executor, &params(2)).unwrap();
    assert_eq!(executor.plans_built(), 1);
    prepare(&mut executor, &params(4)).unwrap();
    prepare(&mut executor, &params(2)).unwrap();
    assert_eq!(executor.plans_built(), 2);
    assert!(executor.memory()[0].pooled >= memory.pooled);
}

#[test]
fn plans_share_their_buffers() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    // Not a byte is left, and none is needed.
    let used = executor.memory()[0];
    executor.set_memory_budget(0, Some(used.weights + used.pooled));
    let memory = executor.memory()[0];
    let unfused = GraphParams {
        fusion: Fusion {
            swiglu: false,
            ..Fusion::default()
        },
        ..params(2)
    };
    prepare(&mut executor, &unfused).unwrap();
    assert_eq!(executor.plans_built(), 2);
    assert_eq!(executor.memory()[0], memory);
}

#[test]
fn the_oldest_plan_goes_when_there_are_too_many() {
    let mut executor = executor(Mock::new("a"));
    for max_tokens in 1..=16 {
        prepare(&mut executor, &params(max_tokens)).unwrap();
    }
    prepare(&mut executor, &params(1)).unwrap();
    prepare(&mut executor, &params(17)).unwrap();
    assert_eq!(executor.plans_built(), 17);
    assert!(executor.run(&params(1), &STEP).is_ok());
    let error = executor.run(&params(2), &STEP).unwrap_err();
    assert!(matches!(error, GraphError::NotPrepared { .. }), "{error}");
}

#[test]
#[cfg(debug_assertions)]
fn a_graph_that_depends_on_more_than_its_parameters_is_refused() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    let catalog = executor.catalog().clone();
    let error = executor
        .prepare(&params(2), |params| {
            let mut graph = transformer(&catalog, params)?;
            graph.nodes[3].name = "renamed".into();
            Ok::<_, GraphError>(graph)
        })
        .unwrap_err();
    assert!(matches!(error, GraphError::UnstableTopology { .. }));
    assert!(error.to_string().contains("renamed"), "{error}");
}

#[test]
fn a_trace_sees_values_before_they_are_overwritten() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    type Seen = Vec<(String, usize, Vec<f32>)>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let sink = seen.clone();
    executor.set_trace(Some(Box::new(move |value: TracedValue<'_>| {
        let name = value.node.name.clone();
        let entry = (name, value.rows, value.values.to_vec());
        sink.lock().unwrap().push(entry);
    })));
    executor.run(&params(2), &STEP).unwrap();
    executor.set_trace(None);
    executor.run(&params(2), &STEP).unwrap();
    let seen = seen.lock().unwrap();
    let value = |name: &str| &seen.iter().find(|(seen, ..)| seen == name).unwrap().2;
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let expected: Vec<f32> = value("blk.0.ffn_gate").iter().map(|x| silu(*x)).collect();
    assert_eq!(*value("blk.0.ffn_gate.silu"), expected);
    assert_ne!(*value("blk.0.ffn_gate"), expected);
    // The row of token 1 in the embedding table starts at element 8 of the first weight.
    let first: Vec<f32> = (8..16)
        .map(|i| ((i * 7) % 11) as f32 / 11.0 - 0.45)
        .collect();
    assert_eq!(
        (seen[0].0.as_str(), seen[0].1, &seen[0].2),
        ("token_embd", 1, &first)
    );
    let names = seen.iter().filter(|(name, ..)| name == "output").count();
    assert_eq!(names, 1, "the second run was not traced");
}

#[test]
fn the_profile_counts_calls_by_operation() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    executor.run(&params(2), &STEP).unwrap();
    assert!(executor.profile().is_none());
    executor.set_profiling(true);
    executor.run(&params(2), &STEP).unwrap();
    executor.run(&params(2), &STEP).unwrap();
    let profile = executor.set_profiling(false).unwrap();
    let times = profile.by_cost();
    let calls = |op: &str| {
        times
            .iter()
            .find(|(seen, _)| *seen == op)
            .map(|(_, t)| t.calls)
    };
    // Seven projections in each of two layers and the output, in two steps.
    assert_eq!(calls("MatMul"), Some(30));
    assert_eq!(calls("Attention"), Some(4));
    assert_eq!(calls("synchronize"), Some(2));
    assert_eq!((calls("copy out"), calls("wait")), (None, None));
    assert!(profile.to_string().contains("MatMul"));
}

#[test]
fn a_failing_kernel_is_an_error_that_names_the_node() {
    let mut mock = Mock::new("a");
    mock.broken = Some("blk.1.ffn_down");
    let mut executor = executor(mock);
    prepare(&mut executor, &params(2)).unwrap();
    let error = executor.run(&params(2), &STEP).unwrap_err();
    let expected = "node blk.1.ffn_down (MatMul): a: broken on purpose";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn dumps_show_nodes_splits_and_buffers() {
    let mut executor = executor(Mock::new("a"));
    prepare(&mut executor, &params(2)).unwrap();
    let dump = executor.dump(&params(2)).unwrap();
    let json = dump.to_json();
    let nodes = json["nodes"].as_array().unwrap();
    let q = nodes
        .iter()
        .find(|node| node["name"] == "blk.0.attn_q")
        .unwrap();
    assert_eq!(
        (&q["op"], &q["shape"]),
        (&"MatMul".into(), &"[8, tokens]".into())
    );
    assert_eq!(q["weights"][0], "blk.0.attn_q.weight");
    assert_eq!(json["splits"].as_array().unwrap().len(), 1);
    // [8, 2] f32 is 64 bytes, the smallest class is 256.
    assert_eq!(json["buffers"][0]["bytes"], 256);
    let dot = dump.to_dot();
    assert!(dot.starts_with("digraph plan {") && dot.ends_with("}\n"));
    assert!(dot.contains("blk.0.attn_q\\nMatMul [8, tokens]"), "{dot}");
    assert_eq!(
        dot.matches("->").count(),
        nodes
            .iter()
            .map(|n| n["inputs"].as_array().unwrap().len())
            .sum::<usize>()
    );
    assert!(executor.dump(&params(3)).is_none());
}
