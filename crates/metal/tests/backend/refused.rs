//! Numbers out of range, weights that are missing or have no kernel: each is named, and nothing is written.

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Attention, Backend, DType, FusedMatMul, FusedQkv, KeyRope, KvRegion, Norm, Op, Operand, Rope,
    RopeStyle, Rotation, RowCopy, Rows, WeightId, WindowLayout,
};

use crate::fused_nodes::{W, generated, qkv, region, swapping};
use crate::nodes::{floats, graph, integers, read, run};
use crate::{backend, fast_device};

const UNTOUCHED: f32 = 7.0;
/// Weights beside `w`: `v` and `gone`.
const V: WeightId = WeightId(1);
const GONE: WeightId = WeightId(2);

type Typed = (DType, Operand);

fn of_floats(backend: &mut dyn Backend, width: usize, rows: usize) -> Typed {
    let x = floats(backend, &vec![1.0; width * rows], width);
    (DType::F32, generated(x))
}

fn of_integers(backend: &mut dyn Backend, values: &[i32]) -> Typed {
    (DType::I32, generated(integers(backend, values)))
}

/// Runs a node of generated rows. What was said when it was placed, and when it ran.
fn attempt(
    backend: &mut dyn Backend,
    op: Op,
    inputs: &[Typed],
    [width, rows]: [usize; 2],
) -> (String, Result<(), String>) {
    let shapes: Vec<_> = inputs.iter().map(|(dtype, x)| (*dtype, x.width)).collect();
    let mut graph = graph(op, &shapes, width);
    graph.weights.extend(["v", "gone"].map(str::to_owned));
    let id = graph.outputs[0];
    let node = &mut graph.nodes[id.0 as usize];
    if matches!(node.op, Op::KvLoad { .. }) {
        node.rows = Rows::Fixed(rows);
    }
    let placed = backend.refusal(&graph, graph.node(id));
    let kv = region(backend);
    let y = floats(backend, &vec![UNTOUCHED; width * rows], width);
    let inputs: Vec<_> = inputs.iter().map(|(_, x)| *x).collect();
    let result = run(backend, &graph, &inputs, generated(y), Some(kv));
    let is_written = read(backend, y).iter().any(|&y| y != UNTOUCHED);
    assert_eq!(is_written, result.is_ok(), "{result:?}");
    if result.is_err() {
        assert_eq!(cells(backend, kv), [[0; 40]; 2]);
    }
    (placed, result)
}

fn cells(backend: &mut dyn Backend, region: KvRegion) -> [[u8; 40]; 2] {
    [region.keys, region.values].map(|part| {
        let mut bytes = [1; 40];
        backend.read(part, 0, &mut bytes).unwrap();
        bytes
    })
}

/// A refusal that is known when nodes are placed.
fn refusal(backend: &mut dyn Backend, op: Op, inputs: &[Typed], width: usize) -> String {
    let (placed, result) = attempt(backend, op, inputs, [width, 1]);
    assert_eq!(result, Err(format!("metal: {placed}")));
    placed
}

fn runs(backend: &mut dyn Backend, op: Op, inputs: &[Typed], width: usize) {
    let (placed, result) = attempt(backend, op, inputs, [width, 1]);
    assert_eq!((placed.as_str(), result), ("supported", Ok(())));
}

#[test]
fn a_row_that_is_not_there_is_named() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let x = of_floats(&mut backend, 2, 2);
    let mut picked = |rows: &[i32]| {
        let numbers = of_integers(&mut backend, rows);
        attempt(&mut backend, Op::GetRows, &[x, numbers], [2, 2]).1
    };
    assert_eq!(picked(&[1, 0]), Ok(()));
    for bad in [2, -1, i32::MAX] {
        let expected = format!("metal: get_rows: row {bad} of row 1 is not one of 2");
        assert_eq!(picked(&[1, bad]), Err(expected));
    }
}

#[test]
fn cells_beyond_the_region_are_not_loaded() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let stored = of_floats(&mut backend, 2, 1);
    for values in [false, true] {
        let mut load = |rows| {
            let op = Op::KvLoad { layer: 0, values };
            attempt(&mut backend, op, &[stored], [2, rows]).1
        };
        assert_eq!(load(5), Ok(()));
        let expected = "metal: kv_load: cell 5 of row 5 is not one of 5";
        assert_eq!(load(7), Err(expected.to_owned()));
    }
}

#[test]
fn edits_beyond_the_region_are_refused_with_the_numbers() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let kv = region(&mut backend);
    let before = [[3; 40], [5; 40]];
    for (part, bytes) in [kv.keys, kv.values].into_iter().zip(before) {
        backend.write(part, 0, &bytes).unwrap();
    }
    let huge = usize::MAX;
    for (from, to, len, rows) in [
        (3, 0, 3, "3..6".to_owned()),
        (0, 3, 3, "3..6".to_owned()),
        // Nothing to move, and yet.
        (6, 0, 0, "6..6".to_owned()),
        (huge, 0, 2, format!("{huge}..{huge}")),
        (0, 1, huge, format!("0..{huge}")),
    ] {
        let copied = backend.copy_rows(&kv, RowCopy { from, to, len });
        let expected = format!("metal: a range of rows is {rows}, 0..5 is needed");
        assert_eq!(copied.unwrap_err().to_string(), expected);
    }
    let rope = KeyRope {
        style: RopeStyle::Split,
        n_rot: 2,
        freq_base: 1e4,
        freq_scale: 1.0,
        factors: None,
    };
    let mut turn = |cell| {
        let rotation = Rotation {
            cell,
            len: 2,
            by: 1,
        };
        let turned = backend.rotate_keys(&kv, rotation, &rope);
        turned.map_err(|error| error.to_string())
    };
    let expected = "metal: a range of rows is 4..6, 0..5 is needed";
    assert_eq!(turn(4), Err(expected.to_owned()));
    assert_eq!(cells(&mut backend, kv), before);
}

#[test]
fn query_heads_are_a_multiple_of_the_others() {
    let Some(mut backend) = fast_device().map(swapping) else {
        return;
    };
    let q = of_floats(&mut backend, 6, 1);
    let position = of_integers(&mut backend, &[0]);
    let stored = of_floats(&mut backend, 2, 1);
    let inputs = [q, position, stored];
    let attention = |n_head_kv| {
        Op::Attention(Attention {
            layer: 0,
            n_head: 3,
            n_head_kv,
            head_dim: 2,
            scale: 1.0,
            window: WindowLayout::Causal,
        })
    };
    runs(&mut backend, attention(1), &inputs, 6);
    for n_head_kv in [0, 2, 4] {
        let expected = format!("n_head_kv is {n_head_kv}, a divisor of 3 is needed");
        let found = refusal(&mut backend, attention(n_head_kv), &inputs, 6);
        assert_eq!(found, expected);
    }
}

fn weight(name: &str, ty: TensorType, shape: &[usize]) -> Tensor {
    let bytes = ty.row_bytes(shape[0]).unwrap() * shape[1..].iter().product::<usize>();
    Tensor {
        name: name.to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(1f32.to_le_bytes().repeat(bytes / 4)),
    }
}

#[test]
fn a_type_without_kernels_is_named_with_its_weight_and_operation() {
    let ffn = Op::FusedFfn {
        gate: W,
        up: W,
        input_norm: None,
    };
    for ty in [TensorType::F32, TensorType::Q2_K] {
        let Some(mut backend) = fast_device().map(backend) else {
            return;
        };
        backend
            .register_weight(&weight("w", ty, &[256, 2]))
            .unwrap();
        let x = of_floats(&mut backend, 256, 1);
        let token = of_integers(&mut backend, &[1]);
        for (op, input, width) in [
            (Op::MatMul { weight: W }, x, 2),
            (Op::Embed { weight: W }, token, 256),
            (ffn.clone(), x, 2),
            (product(None, None), x, 2),
        ] {
            let name = op.name();
            if ty == TensorType::F32 {
                runs(&mut backend, op, &[input], width);
                continue;
            }
            let expected = format!("weight `w` has type Q2_K, for which {name} has no kernel");
            assert_eq!(refusal(&mut backend, op, &[input], width), expected);
        }
    }
}

fn product(input_norm: Option<Norm>, bias: Option<WeightId>) -> Op {
    Op::FusedMatMul(Box::new(FusedMatMul {
        weight: W,
        input_norm,
        bias,
        residual: false,
        gathered: false,
    }))
}

/// Nodes that need `gone`, their number of inputs, and its number of elements.
fn in_need() -> Vec<(Op, usize, usize)> {
    let norm = |gain| Norm { gain, eps: 1e-6 };
    let gain = Some(norm(GONE));
    let rope = Rope {
        factors: Some(GONE),
        ..qkv(2).rope
    };
    let ffn = Op::FusedFfn {
        gate: W,
        up: W,
        input_norm: gain,
    };
    let mut all = vec![
        (Op::AddBias { weight: GONE }, 1, 2),
        (product(gain, None), 1, 2),
        (product(None, Some(GONE)), 1, 2),
        (ffn, 1, 2),
        (Op::Rope(rope), 2, 1),
    ];
    let mut fused = |node, len| all.push((Op::FusedQkv(Box::new(node)), 3, len));
    fused(FusedQkv { rope, ..qkv(2) }, 1);
    let input_norm = gain;
    fused(
        FusedQkv {
            input_norm,
            ..qkv(2)
        },
        2,
    );
    for i in 0..3 {
        let mut biases = [V; 3];
        biases[i] = GONE;
        let biases = Some(biases);
        fused(FusedQkv { biases, ..qkv(2) }, 2);
    }
    for gains in [[GONE, V], [V, GONE]] {
        let norms = Some(gains.map(norm));
        fused(FusedQkv { norms, ..qkv(2) }, 2);
    }
    all
}

#[test]
fn gains_biases_and_factors_that_are_missing_are_named() {
    for (op, count, len) in in_need() {
        let Some(mut backend) = fast_device().map(swapping) else {
            return;
        };
        let register = |backend: &mut dyn Backend, name, len| {
            let tensor = weight(name, TensorType::F32, &[len]);
            backend.register_weight(&tensor).unwrap();
        };
        register(&mut backend, "v", 2);
        let x = of_floats(&mut backend, 2, 1);
        let [position, cell] = [1, 4].map(|n| of_integers(&mut backend, &[n]));
        let inputs = &[x, position, cell][..count];
        let found = refusal(&mut backend, op.clone(), inputs, 2);
        assert_eq!(found, "weight `gone` is not registered", "{op:?}");
        register(&mut backend, "gone", 3);
        let found = refusal(&mut backend, op.clone(), inputs, 2);
        let expected = format!("weight `gone` has shape [3], [{len}] is needed");
        assert_eq!(found, expected, "{op:?}");
        register(&mut backend, "gone", len);
        runs(&mut backend, op, inputs, 2);
    }
}
