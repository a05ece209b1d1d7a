//! What the fusion pass turns a graph into, node by node.

mod support;

use minfer_graph::{Executor, Fusion, Graph, GraphParams, Node, NodeId, Op, Rope, WeightCatalog};
use support::*;

/// The graph after planning it on one backend.
fn planned(backend: Mock, params: GraphParams) -> Graph {
    planned_with(backend, params, |graph| graph)
}

fn planned_with(backend: Mock, params: GraphParams, edit: impl Fn(Graph) -> Graph) -> Graph {
    let mut executor = executor(vec![backend.boxed()]);
    let catalog = WeightCatalog::from_tensors(&weights());
    executor
        .prepare(&params, |params| transformer(&catalog, params).map(&edit))
        .unwrap();
    executor.dump(&params).unwrap().graph().clone()
}

fn executor(backends: Vec<Box<dyn minfer_graph::Backend>>) -> Executor {
    let mut executor = Executor::new(backends, kv_layout());
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor
}

fn fusing() -> Mock {
    let mut mock = Mock::new("mock");
    mock.fuses = |_, _| true;
    mock
}

fn only(swiglu: bool, qkv: bool, ffn: bool) -> GraphParams {
    GraphParams {
        fusion: Fusion {
            swiglu,
            qkv,
            ffn,
            ..Fusion::NONE
        },
        ..params(4)
    }
}

/// `op name(inputs)` for the nodes of one layer.
fn layer(graph: &Graph, layer: usize) -> Vec<String> {
    let prefix = format!("blk.{layer}.");
    let short = |id: &NodeId| local(&graph.node(*id).name, &prefix).to_owned();
    let nodes = graph.nodes.iter().filter(|n| n.name.starts_with(&prefix));
    nodes
        .map(|node| {
            let inputs: Vec<_> = node.inputs.iter().map(short).collect();
            let name = local(&node.name, &prefix);
            format!("{} {name}({})", node.op.name(), inputs.join(" "))
        })
        .collect()
}

fn local<'a>(name: &'a str, prefix: &str) -> &'a str {
    name.strip_prefix(prefix).unwrap_or(name)
}

fn find<'a>(graph: &'a Graph, name: &str) -> &'a Node {
    graph.nodes.iter().find(|node| node.name == name).unwrap()
}

const UNFUSED_ATTENTION: [&str; 10] = [
    "RmsNorm attn_norm(token_embd)",
    "MatMul attn_q(attn_norm)",
    "MatMul attn_k(attn_norm)",
    "MatMul attn_v(attn_norm)",
    "Rope attn_q.rope(attn_q positions)",
    "Rope attn_k.rope(attn_k positions)",
    "KvStore kv_store(attn_k.rope attn_v cells)",
    "Attention attn(attn_q.rope positions kv_store)",
    "MatMul attn_output(attn)",
    "Add attn_residual(attn_output token_embd)",
];

const UNFUSED_FFN: [&str; 7] = [
    "RmsNorm ffn_norm(attn_residual)",
    "MatMul ffn_gate(ffn_norm)",
    "Silu ffn_gate.silu(ffn_gate)",
    "MatMul ffn_up(ffn_norm)",
    "Mul ffn_act(ffn_gate.silu ffn_up)",
    "MatMul ffn_down(ffn_act)",
    "Add ffn_residual(ffn_down attn_residual)",
];

#[test]
fn all_rewrites_together() {
    let graph = planned(fusing(), params(4));
    let expected = [
        "FusedQkv attn_qkv(token_embd positions cells)",
        "Attention attn(attn_qkv positions attn_qkv)",
        "FusedMatMul attn_residual(attn token_embd)",
        "FusedFfn ffn_act(attn_residual)",
        "FusedMatMul ffn_residual(ffn_act attn_residual)",
    ];
    assert_eq!(layer(&graph, 0), expected);
    let outputs: Vec<_> = graph
        .outputs
        .iter()
        .map(|id| &graph.node(*id).name)
        .collect();
    assert_eq!(outputs, ["output"]);
}

#[test]
fn nothing_is_fused_when_the_backend_does_not_gain() {
    let graph = planned(Mock::new("mock"), params(4));
    assert_eq!(
        layer(&graph, 0),
        [&UNFUSED_ATTENTION[..], &UNFUSED_FFN].concat()
    );
}

#[test]
fn nothing_is_fused_when_switched_off() {
    let graph = planned(fusing(), only(false, false, false));
    assert_eq!(
        layer(&graph, 0),
        [&UNFUSED_ATTENTION[..], &UNFUSED_FFN].concat()
    );
}

#[test]
fn swiglu_alone() {
    let graph = planned(fusing(), only(true, false, false));
    let ffn = [
        "RmsNorm ffn_norm(attn_residual)",
        "MatMul ffn_gate(ffn_norm)",
        "MatMul ffn_up(ffn_norm)",
        "SwiGlu ffn_act(ffn_gate ffn_up)",
        "MatMul ffn_down(ffn_act)",
        "Add ffn_residual(ffn_down attn_residual)",
    ];
    assert_eq!(layer(&graph, 0), [&UNFUSED_ATTENTION[..], &ffn].concat());
}

#[test]
fn silu_may_be_the_second_factor() {
    let swap = |mut graph: Graph| {
        let is_mul = |node: &&mut Node| node.op == Op::Mul;
        graph
            .nodes
            .iter_mut()
            .filter(is_mul)
            .for_each(|node| node.inputs.swap(0, 1));
        graph
    };
    let graph = planned_with(fusing(), only(true, false, false), swap);
    let swiglu = find(&graph, "blk.0.ffn_act");
    assert_eq!(swiglu.op, Op::SwiGlu);
    assert_eq!(graph.node(swiglu.inputs[0]).name, "blk.0.ffn_gate");
    assert_eq!(graph.node(swiglu.inputs[1]).name, "blk.0.ffn_up");
}

#[test]
fn ffn_needs_a_swiglu_first() {
    let graph = planned(fusing(), only(false, false, true));
    assert_eq!(layer(&graph, 0)[10..], UNFUSED_FFN);
}

#[test]
fn a_node_the_backend_gains_from_but_refuses_is_not_made() {
    let mut mock = fusing();
    mock.refuses = |node| matches!(node.op, Op::FusedFfn { .. } | Op::FusedQkv(_));
    let graph = planned(mock, only(true, true, true));
    assert_eq!(layer(&graph, 0)[..10], UNFUSED_ATTENTION);
    assert_eq!(find(&graph, "blk.0.ffn_act").op, Op::SwiGlu);
}

#[test]
fn qkv_carries_biases_norms_and_rope() {
    let graph = planned(fusing(), only(false, true, false));
    let names = |node: &Node| {
        let ids = node.op.weights().into_iter();
        ids.map(|id| local(graph.weight_name(id), "blk.1.").to_owned())
            .collect::<Vec<_>>()
    };
    let plain = find(&graph, "blk.0.attn_qkv");
    let Op::FusedQkv(qkv) = &plain.op else {
        panic!("{plain:?}")
    };
    assert_eq!((qkv.layer, qkv.kv_width, plain.width), (0, 4, 8));
    assert_eq!(qkv.input_norm, None);
    assert_eq!((qkv.biases, qkv.norms, qkv.rope), (None, None, ROPE));
    let full = find(&graph, "blk.1.attn_qkv");
    let expected = [
        "attn_q.weight",
        "attn_k.weight",
        "attn_v.weight",
        "attn_q.bias",
        "attn_k.bias",
        "attn_v.bias",
        "attn_q_norm.weight",
        "attn_k_norm.weight",
    ];
    assert_eq!(names(full), expected);
}

/// Adds an output that reads `name`, so that the value must exist.
fn also_read(mut graph: Graph, name: &str) -> Graph {
    let at = graph
        .nodes
        .iter()
        .position(|node| node.name == name)
        .unwrap();
    let source = graph.nodes[at].clone();
    graph.outputs.push(NodeId(graph.nodes.len() as u32));
    graph.nodes.push(Node {
        op: Op::Scale { factor: 2.0 },
        inputs: vec![NodeId(at as u32)],
        name: "reader".into(),
        ..source
    });
    graph
}

#[test]
fn a_value_with_another_reader_is_not_fused_away() {
    let qkv = ["attn_q", "attn_k", "attn_v", "attn_k.rope", "kv_store"];
    let ffn = ["ffn_gate", "ffn_up"];
    for (names, fused) in [(&qkv[..], "attn_qkv"), (&ffn, "ffn_act")] {
        for name in names {
            let name = format!("blk.0.{name}");
            let graph = planned_with(fusing(), params(4), |graph| also_read(graph, &name));
            let is_fused = |layer: usize| {
                let fused = format!("blk.{layer}.{fused}");
                let mut nodes = graph.nodes.iter().filter(|node| node.name == fused);
                nodes.any(|node| node.op.name().starts_with("Fused"))
            };
            assert!(!is_fused(0), "{name} has another reader");
            assert!(is_fused(1), "layer 1 does not depend on {name}");
            assert!(graph.nodes.iter().any(|node| node.name == name));
        }
    }
}

#[test]
fn a_silu_with_another_reader_stays() {
    let edit = |graph| also_read(graph, "blk.0.ffn_gate.silu");
    let graph = planned_with(fusing(), params(4), edit);
    assert_eq!(find(&graph, "blk.0.ffn_act").op, Op::Mul);
    assert_eq!(find(&graph, "blk.0.ffn_gate.silu").op, Op::Silu);
}

#[test]
fn an_output_is_not_fused_away() {
    let edit = |mut graph: Graph| {
        let is_up = |node: &Node| node.name == "blk.0.ffn_up";
        let up = graph.nodes.iter().position(is_up).unwrap();
        graph.outputs.push(NodeId(up as u32));
        graph
    };
    let graph = planned_with(fusing(), params(4), edit);
    assert_eq!(find(&graph, "blk.0.ffn_act").op, Op::SwiGlu);
    assert_eq!(graph.node(graph.outputs[1]).name, "blk.0.ffn_up");
}

#[test]
fn a_rotated_query_with_another_reader_is_the_fused_value() {
    let edit = |graph| also_read(graph, "blk.0.attn_q.rope");
    let graph = planned_with(fusing(), params(4), edit);
    let reader = find(&graph, "reader");
    assert_eq!(graph.node(reader.inputs[0]).name, "blk.0.attn_qkv");
}

#[test]
fn parts_on_two_backends_are_not_fused() {
    let mut first = fusing();
    first.refuses = |node| node.name == "blk.0.attn_v" || node.name == "blk.0.ffn_up";
    let mut executor = executor(vec![first.boxed(), fusing().boxed()]);
    let catalog = executor.catalog().clone();
    let build = |params: &GraphParams| transformer(&catalog, params);
    let params = only(true, true, true);
    executor.prepare(&params, build).unwrap();
    let dump = executor.dump(&params).unwrap();
    assert_eq!(layer(dump.graph(), 0)[..10], UNFUSED_ATTENTION);
    assert_eq!(find(dump.graph(), "blk.0.ffn_act").op, Op::SwiGlu);
    assert_eq!(find(dump.graph(), "blk.1.ffn_act").op.name(), "FusedFfn");
}

#[test]
fn a_bias_on_some_projections_only_is_not_fused() {
    let mut weights = weights();
    weights.retain(|tensor| tensor.name != "blk.1.attn_v.bias");
    let catalog = WeightCatalog::from_tensors(&weights);
    let mut executor = executor(vec![fusing().boxed()]);
    let build = |params: &GraphParams| transformer(&catalog, params);
    executor.prepare(&params(4), build).unwrap();
    let dump = executor.dump(&params(4)).unwrap();
    let stored = find(dump.graph(), "blk.1.kv_store");
    assert_eq!(stored.op, Op::KvStore { layer: 1 });
    assert_eq!(find(dump.graph(), "blk.0.attn_qkv").op.name(), "FusedQkv");
}

/// Whether layer 0 still stores its keys in a node of their own after `edit`.
fn keeps_store(edit: impl Fn(&mut Graph)) -> bool {
    let edit = |mut graph: Graph| {
        edit(&mut graph);
        graph
    };
    let graph = planned_with(fusing(), params(4), edit);
    let mut nodes = graph.nodes.iter();
    nodes.any(|node| node.op == Op::KvStore { layer: 0 })
}

fn position(graph: &Graph, name: &str) -> usize {
    let mut nodes = graph.nodes.iter();
    nodes.position(|node| node.name == name).unwrap()
}

#[test]
fn query_and_key_must_rotate_alike_and_share_their_source() {
    assert!(!keeps_store(|_| {}));
    assert!(keeps_store(|graph| {
        let at = position(graph, "blk.0.attn_k.rope");
        let freq_base = 2.0 * ROPE.freq_base;
        graph.nodes[at].op = Op::Rope(Rope { freq_base, ..ROPE });
    }));
    for other in ["blk.0.attn_k", "blk.0.attn_v"] {
        assert!(keeps_store(|graph| {
            let (at, embedding) = (position(graph, other), position(graph, "token_embd"));
            graph.nodes[at].inputs[0] = NodeId(embedding as u32);
        }));
    }
}

#[test]
fn a_store_that_is_an_output_or_serves_two_queries_stays() {
    assert!(keeps_store(|graph| {
        let store = position(graph, "blk.0.kv_store");
        graph.outputs.push(NodeId(store as u32));
    }));
    assert!(keeps_store(|graph| {
        graph.outputs.push(NodeId(graph.nodes.len() as u32));
        graph.nodes.push(find(graph, "blk.0.attn").clone());
        let first = position(graph, "blk.0.attn");
        graph.nodes[first].inputs[0] = NodeId(position(graph, "token_embd") as u32);
    }));
}
