//! Single nodes: errors, barriers, and the order of work on the device and on the host.

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, DType, Graph, Input, KvFormat, KvRegion, KvShape, Node, NodeId, Norm, Op, Operand,
    Rope, RopeStyle, RowCount, Rows, Task, WeightId,
};
use minfer_metal::backend::Counts;

use crate::{assert_no_reports, backend, checked_device, fast_device};

/// A graph of one node, named `node`, with the weight `w`.
pub fn graph(op: Op, inputs: &[(DType, usize)], width: usize) -> Graph {
    let node = |op, dtype, width, name: &str| Node {
        op,
        inputs: Vec::new(),
        width,
        rows: Rows::Tokens,
        dtype,
        name: name.to_owned(),
    };
    let input = |(i, &(dtype, width)): (usize, &(DType, usize))| {
        node(
            Op::Input(Input::Activations(i as u32)),
            dtype,
            width,
            "input",
        )
    };
    let mut nodes: Vec<_> = inputs.iter().enumerate().map(input).collect();
    nodes.push(Node {
        inputs: (0..inputs.len() as u32).map(NodeId).collect(),
        ..node(op, DType::F32, width, "node")
    });
    Graph {
        nodes,
        weights: vec!["w".to_owned()],
        outputs: vec![NodeId(inputs.len() as u32)],
    }
}

/// A value in a buffer of its own.
pub fn upload(backend: &mut dyn Backend, words: &[[u8; 4]], width: usize) -> Operand {
    let bytes = words.concat();
    let buffer = backend.alloc(bytes.len()).unwrap();
    backend.write(buffer, 0, &bytes).unwrap();
    Operand {
        buffer,
        offset: 0,
        width,
        stride: width,
        rows: RowCount {
            prompt: words.len() / width,
            generated: 0,
        },
    }
}

pub fn floats(backend: &mut dyn Backend, values: &[f32], width: usize) -> Operand {
    let words: Vec<_> = values.iter().map(|value| value.to_le_bytes()).collect();
    upload(backend, &words, width)
}

pub fn integers(backend: &mut dyn Backend, values: &[i32]) -> Operand {
    let words: Vec<_> = values.iter().map(|value| value.to_le_bytes()).collect();
    upload(backend, &words, 1)
}

pub fn read(backend: &mut dyn Backend, operand: Operand) -> Vec<f32> {
    let mut bytes = vec![0; 4 * operand.width * operand.rows.total()];
    backend.read(operand.buffer, 0, &mut bytes).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| f32::from_le_bytes(*word))
        .collect()
}

pub fn run(
    backend: &mut dyn Backend,
    graph: &Graph,
    inputs: &[Operand],
    output: Operand,
    kv: Option<KvRegion>,
) -> Result<(), String> {
    let node = graph.node(graph.outputs[0]);
    let task = Task {
        graph,
        node,
        output,
        inputs,
        kv,
    };
    backend.execute(task).map_err(|error| error.to_string())
}

fn weight(ty: TensorType, shape: &[usize], bytes: Vec<u8>) -> Tensor {
    Tensor {
        name: "w".to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(bytes),
    }
}

/// Adds two values of four features into a third.
pub fn add(backend: &mut dyn Backend, [a, b, to]: [Operand; 3]) -> Result<(), String> {
    let graph = graph(Op::Add, &[(DType::F32, 4), (DType::F32, 4)], 4);
    run(backend, &graph, &[a, b], to, None)
}

#[test]
fn barriers_stand_where_nodes_depend_on_each_other() {
    let Some(device) = checked_device() else {
        return;
    };
    let mut backend = backend(device.clone());
    let [a, b, c, d] = [1.0, 2.0, 3.0, 4.0].map(|x| floats(&mut backend, &[x; 4], 4));
    backend.reset_counts();
    add(&mut backend, [a, b, c]).unwrap();
    add(&mut backend, [a, b, d]).unwrap();
    // Reads what the first two wrote, then overwrites what it read.
    add(&mut backend, [c, d, c]).unwrap();
    add(&mut backend, [c, a, d]).unwrap();
    let counts = Counts {
        dispatches: 4,
        barriers: 2,
        ..Counts::default()
    };
    assert_eq!(backend.counts(), counts);
    backend.synchronize().unwrap();
    assert_eq!(
        backend.counts(),
        Counts {
            submits: 1,
            ..counts
        }
    );
    assert_eq!(read(&mut backend, c), [6.0; 4]);
    assert_eq!(read(&mut backend, d), [7.0; 4]);
    assert_no_reports(&device);
    backend.reset_counts();
    assert_eq!(backend.counts(), Counts::default());
}

/// Operands of four elements conflict where they share one, be it the last or the first.
#[test]
fn barriers_stand_where_ranges_share_an_element() {
    let Some(device) = checked_device() else {
        return;
    };
    for (offset, barriers) in [(0, 0), (1, 1), (4, 1), (7, 1), (8, 0)] {
        let mut backend = backend(device.clone());
        let [a, b] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 4], 4));
        let both = floats(&mut backend, &[5.0; 16], 4);
        let [first, second] = [4, offset].map(|offset| Operand {
            offset,
            rows: a.rows,
            ..both
        });
        let mut barriers_of = |steps: [[Operand; 2]; 2]| {
            backend.reset_counts();
            for [from, to] in steps {
                add(&mut backend, [from, a, to]).unwrap();
            }
            let barriers = backend.counts().barriers;
            backend.synchronize().unwrap();
            barriers
        };
        let read_after_write = barriers_of([[a, first], [second, b]]);
        let write_after_read = barriers_of([[first, b], [a, second]]);
        let write_after_write = barriers_of([[a, first], [a, second]]);
        let found = [read_after_write, write_after_read, write_after_write];
        assert_eq!(found, [barriers; 3], "at {offset}");
    }
    assert_no_reports(&device);
}

#[test]
fn the_host_waits_for_encoded_work_that_uses_its_memory() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let [a, b, c] = [1.0, 2.0, 0.0].map(|x| floats(&mut backend, &[x; 4], 4));
    add(&mut backend, [a, b, c]).unwrap();
    // Not a thing of c: nothing is submitted.
    assert_eq!(read(&mut backend, a), [1.0; 4]);
    assert_eq!(backend.counts().submits, 0);
    let ten: Vec<_> = [10.0f32; 4].iter().flat_map(|x| x.to_le_bytes()).collect();
    backend.write(a.buffer, 0, &ten).unwrap();
    assert_eq!(backend.counts().submits, 1);
    assert_eq!(read(&mut backend, c), [3.0; 4]);
    add(&mut backend, [a, b, c]).unwrap();
    assert_eq!(read(&mut backend, c), [12.0; 4]);
    assert_eq!(backend.counts().submits, 2);
}

#[test]
fn the_host_reads_what_was_just_stored() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let shape = KvShape {
        cells: 3,
        width: 4,
        head_dim: 4,
        format: KvFormat::F32,
    };
    let kv = KvRegion {
        shape,
        keys: backend.alloc(48).unwrap(),
        values: backend.alloc(48).unwrap(),
    };
    let [k, v] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 4], 4));
    let cells = integers(&mut backend, &[2]);
    let inputs = [(DType::F32, 4), (DType::F32, 4), (DType::I32, 1)];
    let store = graph(Op::KvStore { layer: 0 }, &inputs, 4);
    run(&mut backend, &store, &[k, v, cells], k, Some(kv)).unwrap();
    for (buffer, expected) in [(kv.keys, 1.0f32), (kv.values, 2.0)] {
        let mut cell = [0; 16];
        backend.read(buffer, 32, &mut cell).unwrap();
        assert_eq!(cell.as_chunks().0, [expected.to_le_bytes(); 4]);
    }
}

#[test]
fn a_token_outside_of_the_table_is_named() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let table = weight(TensorType::F32, &[4, 3], vec![0; 48]);
    backend.register_weight(&table).unwrap();
    let graph = graph(
        Op::Embed {
            weight: WeightId(0),
        },
        &[(DType::I32, 1)],
        4,
    );
    let y = floats(&mut backend, &[0.0; 8], 4);
    for (bad, expected) in [
        (3, "metal: embed: token id 3 of row 1 is not one of 3"),
        (-1, "metal: embed: token id -1 of row 1 is not one of 3"),
    ] {
        let ids = integers(&mut backend, &[2, bad]);
        assert_eq!(
            run(&mut backend, &graph, &[ids], y, None).unwrap_err(),
            expected
        );
    }
}

#[test]
fn a_cell_outside_of_the_region_is_named() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let shape = KvShape {
        cells: 5,
        width: 4,
        head_dim: 4,
        format: KvFormat::F16,
    };
    let kv = KvRegion {
        shape,
        keys: backend.alloc(40).unwrap(),
        values: backend.alloc(40).unwrap(),
    };
    let [k, v] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 8], 4));
    let cells = integers(&mut backend, &[4, 5]);
    let inputs = [(DType::F32, 4), (DType::F32, 4), (DType::I32, 1)];
    let graph = graph(Op::KvStore { layer: 0 }, &inputs, 4);
    let error = run(&mut backend, &graph, &[k, v, cells], k, Some(kv)).unwrap_err();
    assert_eq!(
        error,
        "metal: kv_store_f16: cell 5 of row 1 is not one of 5"
    );
    let mut keys = [1; 40];
    backend.read(kv.keys, 0, &mut keys).unwrap();
    assert_eq!(keys, [0; 40]);
}

#[test]
fn refusals_name_the_weight_and_its_type() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let product = graph(
        Op::MatMul {
            weight: WeightId(0),
        },
        &[(DType::F32, 256)],
        2,
    );
    let norm = Op::RmsNorm(Norm {
        gain: WeightId(0),
        eps: 1e-6,
    });
    let norm = graph(norm, &[(DType::F32, 256)], 256);
    let refusal = |backend: &dyn Backend, graph: &Graph| {
        let node = graph.node(graph.outputs[0]);
        assert!(!backend.supports(graph, node));
        backend.refusal(graph, node)
    };
    assert_eq!(refusal(&backend, &product), "weight `w` is not registered");
    let q2_k = weight(TensorType::Q2_K, &[256, 2], vec![0; 2 * 84]);
    backend.register_weight(&q2_k).unwrap();
    let expected = "weight `w` has type Q2_K, for which MatMul has no kernel";
    assert_eq!(refusal(&backend, &product), expected);
    let expected = "weight `w` has shape [256, 2], [256] is needed";
    assert_eq!(refusal(&backend, &norm), expected);
    let short = weight(TensorType::F32, &[256, 2], vec![0; 2047]);
    let error = backend.register_weight(&short).unwrap_err().to_string();
    let expected = "metal: weight `w` of shape [256, 2] and type F32 has 2047 bytes";
    assert_eq!(error, expected);
}

/// A table of more pairs is larger than what a dispatch copies: known when nodes are placed.
#[test]
fn a_rotation_of_too_many_pairs_is_refused_before_it_runs() {
    let Some(backend) = fast_device().map(backend) else {
        return;
    };
    let refusal = |n_rot| {
        let rope = Op::Rope(Rope {
            style: RopeStyle::Split,
            head_dim: 2048,
            n_rot,
            freq_base: 1e4,
            freq_scale: 1.0,
            factors: None,
        });
        let graph = graph(rope, &[(DType::F32, 2048), (DType::I32, 1)], 2048);
        backend.refusal(&graph, graph.node(graph.outputs[0]))
    };
    assert_eq!(refusal(1024), "supported");
    assert_eq!(
        refusal(1026),
        "n_rot is 1026, even and at most 1024 is needed"
    );
}

#[test]
fn an_output_that_overlaps_an_input_is_refused() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let x = floats(&mut backend, &[1.0; 16], 4);
    let graph = graph(Op::Silu, &[(DType::F32, 4)], 4);
    let rows = RowCount {
        prompt: 2,
        generated: 0,
    };
    let [x, y] = [0, 6].map(|offset| Operand { offset, rows, ..x });
    let error = run(&mut backend, &graph, &[x], y, None).unwrap_err();
    assert!(error.starts_with("metal: input 0 at Operand"), "{error}");
    let beyond = Operand { offset: 9, ..y };
    let error = run(&mut backend, &graph, &[x], beyond, None).unwrap_err();
    let expected = "metal: bytes 36..+32 are outside BufferId(0) of 64 bytes";
    assert_eq!(error, expected);
}
