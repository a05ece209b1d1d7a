use proptest::prelude::*;

use super::*;
use crate::ir::{DType, Input, Node, WeightId, WindowLayout};
use crate::kv::KvFormat;

const PARAMS: GraphParams = GraphParams {
    max_tokens: 16,
    max_outputs: 2,
    window: WindowLayout::Causal,
    kv_format: KvFormat::F32,
    generated_only: false,
    fusion: crate::ir::Fusion::NONE,
};

fn node(op: Op, inputs: &[usize], width: usize, rows: Rows) -> Node {
    Node {
        op,
        inputs: inputs.iter().map(|&i| NodeId(i as u32)).collect(),
        width,
        rows,
        dtype: DType::F32,
        name: String::new(),
    }
}

fn input(n: u32, width: usize) -> Node {
    node(Op::Input(Input::Activations(n)), &[], width, Rows::Tokens)
}

fn graph(nodes: Vec<Node>, outputs: &[u32]) -> Graph {
    Graph {
        nodes,
        weights: vec!["w".into()],
        outputs: outputs.iter().copied().map(NodeId).collect(),
    }
}

fn matmul(x: usize, width: usize) -> Node {
    let weight = WeightId(0);
    node(Op::MatMul { weight }, &[x], width, Rows::Tokens)
}

fn planned(graph: &Graph, assigned: &[usize]) -> (Schedule, MemoryPlan) {
    let schedule = Schedule::new(graph, assigned);
    let memory = plan(graph, assigned, &schedule, &PARAMS).unwrap();
    (schedule, memory)
}

fn slot(memory: &MemoryPlan, node: usize, backend: usize) -> usize {
    memory.slot_of[&Resident { node, backend }]
}

#[test]
fn size_classes_lose_at_most_a_quarter() {
    assert_eq!(size_class(1), Some(256));
    assert_eq!(size_class(257), Some(320));
    assert_eq!(size_class(513), Some(640));
    assert_eq!(size_class(1024), Some(1024));
    assert_eq!(size_class(usize::MAX), None);
    for bytes in 256..20_000 {
        let class = size_class(bytes).unwrap();
        assert!(
            bytes <= class && 4 * class <= 5 * bytes,
            "{bytes} to {class}"
        );
        assert_eq!(class % 64 % 32, 0);
    }
}

#[test]
fn a_chain_needs_two_buffers() {
    let mut nodes = vec![input(0, 8)];
    nodes.extend((0..10).map(|x| matmul(x, 8)));
    let graph = graph(nodes, &[10]);
    let (_, memory) = planned(&graph, &[0; 11]);
    // The input keeps its own.
    assert_eq!(memory.slots.len(), 3);
    assert_eq!(slot(&memory, 1, 0), slot(&memory, 3, 0));
    assert_ne!(slot(&memory, 1, 0), slot(&memory, 2, 0));
}

#[test]
fn values_of_other_classes_do_not_mix() {
    let graph = graph(
        vec![input(0, 8), matmul(0, 8), matmul(1, 64), matmul(2, 8)],
        &[3],
    );
    let (_, memory) = planned(&graph, &[0; 4]);
    let bytes: Vec<_> = memory.slots.iter().map(|slot| slot.bytes).collect();
    assert_eq!(bytes, [512, 512, 4096]);
    assert_eq!(slot(&memory, 1, 0), slot(&memory, 3, 0));
}

#[test]
fn in_place_needs_the_only_reader_on_the_same_backend() {
    let silu = |x| node(Op::Silu, &[x], 8, Rows::Tokens);
    let chain = vec![input(0, 8), matmul(0, 8), silu(1)];
    let in_place = |nodes: &[Node], outputs: &[u32], assigned: &[usize]| {
        let graph = graph(nodes.to_vec(), outputs);
        planned(&graph, assigned).1.in_place[2]
    };
    assert_eq!(in_place(&chain, &[2], &[0, 0, 0]), Some(1));
    assert_eq!(in_place(&chain, &[2], &[0, 0, 1]), None, "other backend");
    assert_eq!(
        in_place(&chain, &[1, 2], &[0, 0, 0]),
        None,
        "also an output"
    );
    let mut two_readers = chain.clone();
    two_readers.push(matmul(1, 8));
    assert_eq!(in_place(&two_readers, &[2], &[0; 4]), None, "two readers");
    let mut viewed = chain.clone();
    viewed.push(node(Op::View { offset: 0 }, &[1], 4, Rows::Tokens));
    assert_eq!(in_place(&viewed, &[2, 3], &[0; 4]), None, "a view reads it");
    let of_input = [input(0, 8), input(1, 8), silu(0)];
    assert_eq!(in_place(&of_input, &[2], &[0; 3]), None, "an input");
    let of_view = [
        input(0, 8),
        node(Op::View { offset: 0 }, &[0], 8, Rows::Tokens),
        silu(1),
    ];
    assert_eq!(in_place(&of_view, &[2], &[0; 3]), None, "a view");
    let moving = [input(0, 8), matmul(0, 8), matmul(1, 8)];
    assert_eq!(in_place(&moving, &[2], &[0; 3]), None, "a product cannot");
    let twice = [
        input(0, 8),
        matmul(0, 8),
        node(Op::Add, &[1, 1], 8, Rows::Tokens),
    ];
    assert_eq!(
        in_place(&twice, &[2], &[0; 3]),
        None,
        "read twice by one node"
    );
}

#[test]
fn copies_and_outputs_are_never_recycled() {
    // Node 1 is copied to backend 1 for node 2 and used there again much later.
    let nodes = vec![
        input(0, 8),
        matmul(0, 8),
        matmul(1, 8),
        matmul(2, 8),
        matmul(3, 8),
        matmul(4, 8),
        node(Op::Add, &[1, 5], 8, Rows::Tokens),
    ];
    let graph = graph(nodes, &[2, 6]);
    let (schedule, memory) = planned(&graph, &[0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(schedule.splits[1].copies, [1]);
    let copy = slot(&memory, 1, 1);
    let output = slot(&memory, 2, 1);
    for other in 3..7 {
        assert_ne!(slot(&memory, other, 1), copy);
        assert_ne!(slot(&memory, other, 1), output);
    }
}

#[test]
fn a_size_that_overflows_is_an_error() {
    let graph = graph(vec![input(0, 8), matmul(0, usize::MAX / 8)], &[1]);
    let schedule = Schedule::new(&graph, &[0, 0]);
    let error = plan(&graph, &[0, 0], &schedule, &PARAMS).unwrap_err();
    assert!(error.to_string().contains("overflows"), "{error}");
}

/// A node to be: kind, two sources and a backend, each reduced to what exists by then.
type Choice = (u8, usize, usize, usize);

/// A graph of matching shapes from arbitrary choices, with its assignment.
fn random_graph(choices: &[Choice], outputs: &[usize]) -> (Graph, Vec<usize>) {
    let (mut nodes, mut assigned) = (vec![input(0, 8), input(1, 16)], vec![0, 0]);
    for &(kind, a, b, backend) in choices {
        let (a, b) = (a % nodes.len(), b % nodes.len());
        let (width, rows) = (nodes[a].width, nodes[a].rows);
        let like_a = |op, inputs: &[usize]| node(op, inputs, width, rows);
        let same_shape = (nodes[b].width, nodes[b].rows) == (width, rows);
        let weight = WeightId(0);
        let new = match kind % 7 {
            0 => like_a(Op::Silu, &[a]),
            1 if same_shape => like_a(Op::Add, &[a, b]),
            2 if width > 4 => node(Op::View { offset: 4 }, &[a], width - 4, rows),
            3 => node(Op::MatMul { weight }, &[a], 8 + 8 * (b % 3), rows),
            4 => node(Op::GetRows, &[a, b], width, Rows::Outputs),
            5 if same_shape => like_a(Op::KvStore { layer: 0 }, &[a, b, 0]),
            _ => like_a(Op::Scale { factor: 2.0 }, &[a]),
        };
        let is_view = matches!(new.op, Op::View { .. });
        assigned.push(if is_view { assigned[a] } else { backend });
        nodes.push(new);
    }
    let outputs = outputs.iter().map(|o| NodeId((o % nodes.len()) as u32));
    let outputs = outputs.collect();
    let weights = vec!["w".into()];
    let graph = Graph {
        nodes,
        weights,
        outputs,
    };
    (graph, assigned)
}

/// One buffer's content, tracked by brute force: which value (by owner) a buffer holds right now.
struct Contents {
    holds: Vec<Option<usize>>,
}

impl Contents {
    fn write(&mut self, slot: usize, value: usize) {
        self.holds[slot] = Some(value);
    }

    fn expect(&self, slot: usize, value: usize, reader: &str) {
        assert_eq!(
            self.holds[slot],
            Some(value),
            "{reader} reads value {value} in buffer {slot}"
        );
    }
}

/// Executes the plan on labels instead of numbers: every reader must find the value it wants in the
/// buffer it was given. Knows nothing of liveness.
fn interpret(graph: &Graph, assigned: &[usize], schedule: &Schedule, memory: &MemoryPlan) {
    let owner = |mut i: usize| {
        while graph.nodes[i].op.shares_input() {
            i = graph.nodes[i].inputs[0].0 as usize;
        }
        i
    };
    let mut contents = Contents {
        holds: vec![None; memory.slots.len()],
    };
    for resident in &schedule.inputs {
        contents.write(memory.slot_of[resident], resident.node);
    }
    for split in &schedule.splits {
        for &copied in &split.copies {
            contents.expect(slot(memory, copied, assigned[copied]), copied, "a copy");
            contents.write(slot(memory, copied, split.backend), copied);
        }
        for &i in &schedule.executed[split.range.clone()] {
            assert_eq!(assigned[i], split.backend);
            for input in &graph.nodes[i].inputs {
                let value = owner(input.0 as usize);
                let at = slot(memory, value, split.backend);
                contents.expect(at, value, "a node");
            }
            if owner(i) == i {
                let at = slot(memory, i, split.backend);
                let bytes = capacity_bytes(graph, i, &PARAMS).unwrap();
                assert!(
                    memory.slots[at].bytes >= bytes && memory.slots[at].backend == split.backend
                );
                let others = graph.nodes[i].inputs.iter().skip(1);
                for other in others {
                    let value = owner(other.0 as usize);
                    assert_ne!(
                        slot(memory, value, split.backend),
                        at,
                        "overwrites an input"
                    );
                }
                let first = owner(graph.nodes[i].inputs[0].0 as usize);
                if slot(memory, first, split.backend) == at {
                    assert_eq!(
                        memory.in_place[i],
                        Some(first),
                        "aliases without permission"
                    );
                }
                contents.write(at, i);
            }
        }
    }
    for output in &graph.outputs {
        // A store of another backend's value is read where it was stored.
        let value = owner(output.0 as usize);
        let at = slot(memory, value, assigned[output.0 as usize]);
        contents.expect(at, value, "the caller");
    }
}

/// The rule for running in place, from the list of readers alone.
fn may_run_in_place(graph: &Graph, assigned: &[usize], i: usize, source: usize) -> bool {
    let id = NodeId(source as u32);
    let reads = graph.nodes.iter().flat_map(|node| &node.inputs);
    let readers = reads
        .chain(&graph.outputs)
        .filter(|read| **read == id)
        .count();
    let (node, value) = (&graph.nodes[i], &graph.nodes[source]);
    let moves_nothing = matches!(
        value.op,
        Op::Input(_) | Op::View { .. } | Op::KvStore { .. }
    );
    readers == 1
        && node.inputs[0] == id
        && !moves_nothing
        && matches!(node.op, Op::Silu | Op::Add | Op::Scale { .. })
        && assigned[i] == assigned[source]
        && (node.width, node.rows) == (value.width, value.rows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_finds_its_value(
        choices in prop::collection::vec((any::<u8>(), 0..64usize, 0..64usize, 0..3usize), 1..40),
        outputs in prop::collection::vec(0..64usize, 0..4),
    ) {
        let (graph, assigned) = random_graph(&choices, &outputs);
        let (schedule, memory) = planned(&graph, &assigned);
        interpret(&graph, &assigned, &schedule, &memory);
        for (i, source) in memory.in_place.iter().enumerate() {
            if let Some(source) = source {
                prop_assert!(may_run_in_place(&graph, &assigned, i, *source));
            }
        }
    }
}
