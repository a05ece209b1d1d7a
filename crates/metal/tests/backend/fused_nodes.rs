//! Single fused nodes: what they refuse, and the order of their stores and of the host's reads.

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, DType, FusedMatMul, FusedQkv, Fusion, GraphParams, KvFormat, KvRegion, KvShape, Op,
    Operand, Rope, RopeStyle, RowCount, WeightId, WindowLayout,
};
use minfer_metal::backend::MetalBackend;
use minfer_metal::device::Device;

use crate::nodes::{floats, graph, integers, read, run};
use crate::{backend, fast_device};

pub const W: WeightId = WeightId(0);

/// A backend whose weight swaps two features.
pub fn swapping<D: Device>(device: D) -> MetalBackend<D> {
    let mut backend = backend(device);
    let values = [0.0f32, 1.0, 1.0, 0.0];
    let swap = Tensor {
        name: "w".to_owned(),
        ty: TensorType::F32,
        shape: vec![2, 2],
        bytes: TensorBytes::from_vec(values.iter().flat_map(|x| x.to_le_bytes()).collect()),
    };
    backend.register_weight(&swap).unwrap();
    backend
}

/// The rows of an operand as generated ones.
pub fn generated(operand: Operand) -> Operand {
    let generated = operand.rows.total();
    Operand {
        rows: RowCount {
            prompt: 0,
            generated,
        },
        ..operand
    }
}

fn gathering() -> Op {
    Op::FusedMatMul(Box::new(FusedMatMul {
        weight: W,
        input_norm: None,
        bias: None,
        residual: true,
        gathered: true,
    }))
}

/// Heads of `head_dim` features, all of the weight.
pub fn qkv(head_dim: usize) -> FusedQkv {
    FusedQkv {
        input_norm: None,
        weights: [W; 3],
        biases: None,
        norms: None,
        rope: Rope {
            style: RopeStyle::Split,
            head_dim,
            n_rot: head_dim,
            freq_base: 1e4,
            freq_scale: 1.0,
            factors: None,
        },
        layer: 0,
        kv_width: head_dim,
    }
}

fn fused(node: FusedQkv) -> Op {
    Op::FusedQkv(Box::new(node))
}

const QKV_INPUTS: [(DType, usize); 3] = [(DType::F32, 2), (DType::I32, 1), (DType::I32, 1)];
const GATHER_INPUTS: [(DType, usize); 3] = [(DType::F32, 2), (DType::F32, 2), (DType::I32, 1)];

/// A region of 5 cells for one head of 2 features.
pub fn region(backend: &mut dyn Backend) -> KvRegion {
    let shape = KvShape {
        cells: 5,
        width: 2,
        head_dim: 2,
        format: KvFormat::F32,
    };
    KvRegion {
        shape,
        keys: backend.alloc(40).unwrap(),
        values: backend.alloc(40).unwrap(),
    }
}

#[test]
fn picked_rows_are_multiplied_and_added_to_their_own() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let x = floats(&mut backend, &[1.0, 2.0, 3.0, 4.0], 2);
    let residual = floats(&mut backend, &[10.0, 20.0, 30.0, 40.0], 2);
    let numbers = integers(&mut backend, &[1, 1]);
    let y = floats(&mut backend, &[0.0; 4], 2);
    let inputs = [x, residual, numbers].map(generated);
    let graph = graph(gathering(), &GATHER_INPUTS, 2);
    run(&mut backend, &graph, &inputs, generated(y), None).unwrap();
    assert_eq!(read(&mut backend, y), [34.0, 43.0, 34.0, 43.0]);
}

#[test]
fn a_row_that_does_not_exist_is_named() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let x = floats(&mut backend, &[1.0; 4], 2);
    let y = floats(&mut backend, &[0.0; 4], 2);
    for bad in [2, -1] {
        let numbers = integers(&mut backend, &[1, bad]);
        let inputs = [x, x, numbers].map(generated);
        let graph = graph(gathering(), &GATHER_INPUTS, 2);
        let error = run(&mut backend, &graph, &inputs, generated(y), None).unwrap_err();
        let expected = format!("metal: fused_matmul: row {bad} of row 1 is not one of 2");
        assert_eq!(error, expected);
    }
}

#[test]
fn prompt_rows_are_refused_before_weights_are_looked_up() {
    // Without weights.
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let kv = region(&mut backend);
    let x = floats(&mut backend, &[1.0; 4], 2);
    let y = floats(&mut backend, &[0.0; 4], 2);
    let numbers = integers(&mut backend, &[0, 1]);
    let ffn = Op::FusedFfn {
        gate: W,
        up: W,
        input_norm: None,
    };
    for (op, shapes, inputs) in [
        (ffn, &QKV_INPUTS[..1], &[x][..]),
        (gathering(), &GATHER_INPUTS, &[x, x, numbers]),
        (fused(qkv(2)), &QKV_INPUTS, &[x, numbers, numbers]),
    ] {
        let graph = graph(op, shapes, 2);
        let error = run(&mut backend, &graph, inputs, y, Some(kv)).unwrap_err();
        let expected = "metal: the number of prompt rows is 2, 0 is needed";
        assert_eq!(error, expected);
    }
    let mut keys = [1; 40];
    backend.read(kv.keys, 0, &mut keys).unwrap();
    assert_eq!(keys, [0; 40]);
}

#[test]
fn a_cell_outside_of_the_region_is_named() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let kv = region(&mut backend);
    let x = floats(&mut backend, &[1.0; 4], 2);
    let y = floats(&mut backend, &[0.0; 4], 2);
    let (positions, cells) = (
        integers(&mut backend, &[0, 1]),
        integers(&mut backend, &[4, 5]),
    );
    let inputs = [x, positions, cells].map(generated);
    let graph = graph(fused(qkv(2)), &QKV_INPUTS, 2);
    let error = run(&mut backend, &graph, &inputs, generated(y), Some(kv)).unwrap_err();
    assert_eq!(error, "metal: fused_qkv: cell 5 of row 1 is not one of 5");
    let mut keys = [1; 40];
    backend.read(kv.keys, 0, &mut keys).unwrap();
    assert_eq!(keys, [0; 40]);
}

#[test]
fn the_host_reads_what_was_just_stored() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let kv = region(&mut backend);
    let x = floats(&mut backend, &[3.0, 4.0], 2);
    let y = floats(&mut backend, &[0.0; 2], 2);
    // Nothing turns at position 0.
    let (positions, cells) = (integers(&mut backend, &[0]), integers(&mut backend, &[3]));
    let inputs = [x, positions, cells].map(generated);
    let graph = graph(fused(qkv(2)), &QKV_INPUTS, 2);
    run(&mut backend, &graph, &inputs, generated(y), Some(kv)).unwrap();
    for buffer in [kv.keys, kv.values] {
        let mut cell = [0; 8];
        backend.read(buffer, 3 * 8, &mut cell).unwrap();
        assert_eq!(cell.as_chunks().0, [4f32, 3.0].map(f32::to_le_bytes));
    }
    assert_eq!(read(&mut backend, y), [4.0, 3.0]);
}

#[test]
fn heads_without_a_kernel_are_refused_when_nodes_are_placed() {
    let Some(backend) = fast_device().map(swapping) else {
        return;
    };
    let graph = graph(fused(qkv(258)), &QKV_INPUTS, 258);
    let refusal = backend.refusal(&graph, graph.node(graph.outputs[0]));
    assert_eq!(refusal, "head_dim is 258, even and at most 256 is needed");
}

#[test]
fn fused_nodes_are_made_for_generated_rows_alone() {
    let Some(backend) = fast_device().map(swapping) else {
        return;
    };
    let params = |generated_only| GraphParams {
        max_tokens: 1,
        max_outputs: 1,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        generated_only,
        fusion: Fusion::default(),
    };
    let gains = |op, inputs: &[_]| {
        let graph = graph(op, inputs, 2);
        let node = graph.node(graph.outputs[0]);
        [false, true].map(|alone| backend.supports_fused(&graph, node, &params(alone)))
    };
    assert_eq!(gains(gathering(), &GATHER_INPUTS), [false, true]);
    assert_eq!(gains(fused(qkv(2)), &QKV_INPUTS), [false, true]);
    assert_eq!(gains(Op::SwiGlu, &GATHER_INPUTS[..2]), [true, true]);
}
