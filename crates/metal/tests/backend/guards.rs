//! Nodes that must not run: each is refused with what is wrong, and nothing is written.

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Attention, Backend, DType, KvFormat, KvRegion, KvShape, Norm, Op, Operand, WeightId,
    WindowLayout,
};
use minfer_metal::backend::MetalBackend;
use minfer_softmetal::{Mode, SoftDevice};

use crate::backend;
use crate::nodes::{floats, graph, integers, read, run};
use crate::software::device;

const UNTOUCHED: f32 = 7.0;

/// Why the node is refused, before it runs and when it is made to run regardless.
fn refusals(backend: &mut MetalBackend<SoftDevice>, op: Op, inputs: &[Operand]) -> [String; 2] {
    let width = inputs[0].width;
    let shapes = inputs.iter().map(|input| (DType::F32, input.width));
    let graph = graph(op, &shapes.collect::<Vec<_>>(), width);
    let node = graph.node(graph.outputs[0]);
    assert!(!backend.supports(&graph, node));
    let before = backend.refusal(&graph, node);
    let y = floats(backend, &vec![UNTOUCHED; width], width);
    let error = run(backend, &graph, inputs, y, None).unwrap_err();
    assert!(read(backend, y).iter().all(|&y| y == UNTOUCHED));
    [before, error.replace("metal: ", "")]
}

fn norms(head_dim: usize) -> [Op; 2] {
    let norm = Norm {
        gain: WeightId(0),
        eps: 1e-6,
    };
    [Op::RmsNorm(norm), Op::QkNorm { norm, head_dim }]
}

#[test]
fn a_norm_without_its_gain_is_refused() {
    let mut backend = backend(device(Mode::Unchecked));
    let x = floats(&mut backend, &[1.0; 8], 8);
    for op in norms(4) {
        let expected = "weight `w` is not registered";
        assert_eq!(refusals(&mut backend, op, &[x]), [expected; 2]);
    }
    let gain = Tensor {
        name: "w".to_owned(),
        ty: TensorType::F32,
        shape: vec![5],
        bytes: TensorBytes::from_vec(vec![0; 20]),
    };
    backend.register_weight(&gain).unwrap();
    for (op, len) in norms(4).into_iter().zip([8, 4]) {
        let expected = format!("weight `w` has shape [5], [{len}] is needed");
        let found = refusals(&mut backend, op, &[x]);
        assert_eq!(found, [expected.clone(), expected]);
    }
}

fn region(backend: &mut MetalBackend<SoftDevice>, shape: KvShape) -> KvRegion {
    let bytes = shape.cells * shape.cell_bytes().unwrap();
    KvRegion {
        shape,
        keys: backend.alloc(bytes).unwrap(),
        values: backend.alloc(bytes).unwrap(),
    }
}

/// What attention of four heads over two, of 32 features, says about a region and a position.
fn attention(shape: KvShape, position: i32, given: bool) -> String {
    let mut backend = backend(device(Mode::Unchecked));
    let op = Op::Attention(Attention {
        layer: 0,
        n_head: 4,
        n_head_kv: 2,
        head_dim: 32,
        scale: 1.0,
        window: WindowLayout::Causal,
    });
    let inputs = [(DType::F32, 128), (DType::I32, 1), (DType::F32, 64)];
    let graph = graph(op, &inputs, 128);
    let q = floats(&mut backend, &[1.0; 128], 128);
    let stored = floats(&mut backend, &[1.0; 64], 64);
    let positions = integers(&mut backend, &[position]);
    let y = floats(&mut backend, &[UNTOUCHED; 128], 128);
    let region = given.then(|| region(&mut backend, shape));
    let result = run(&mut backend, &graph, &[q, positions, stored], y, region);
    let is_written = read(&mut backend, y).iter().any(|&y| y != UNTOUCHED);
    assert_eq!(is_written, result.is_ok());
    result.err().unwrap_or_default()
}

#[test]
fn attention_over_a_region_that_does_not_fit_is_refused() {
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let shape = KvShape {
            cells: 9,
            width: 64,
            head_dim: 32,
            format,
        };
        assert_eq!(attention(shape, 8, true), "");
        let name = format!("metal: attention_{format:?}: ").to_lowercase();
        let region = |width, head_dim| KvShape {
            width,
            head_dim,
            ..shape
        };
        let refusal = |region, position| {
            let found = attention(region, position, true);
            let what = found.strip_prefix(&name);
            what.unwrap_or_else(|| panic!("{found}")).to_owned()
        };
        assert_eq!(
            refusal(region(96, 32), 8),
            "the width of the region is 96, 64 is needed"
        );
        assert_eq!(
            refusal(region(64, 64), 8),
            "head_dim of the region is 64, 32 is needed"
        );
        assert_eq!(
            refusal(shape, 9),
            "a window is cells 0..10 of row 0, within 0..9 is needed"
        );
        assert_eq!(
            attention(shape, 8, false),
            "metal: names a KV region but has none"
        );
    }
}

/// Nothing is written to other cells, by the keys, whose cells are checked first, or by the values.
#[test]
fn a_store_past_the_region_is_refused_in_every_format() {
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        for cell in [5, i32::MAX, -1, i32::MIN] {
            let mut backend = backend(device(Mode::Unchecked));
            let shape = KvShape {
                cells: 5,
                width: 32,
                head_dim: 32,
                format,
            };
            let region = region(&mut backend, shape);
            let [k, v] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 3 * 32], 32));
            let cells = integers(&mut backend, &[0, 4, cell]);
            let inputs = [(DType::F32, 32), (DType::F32, 32), (DType::I32, 1)];
            let store = graph(Op::KvStore { layer: 0 }, &inputs, 32);
            let error = run(&mut backend, &store, &[k, v, cells], k, Some(region)).unwrap_err();
            let name = format!("kv_store_{format:?}").to_lowercase();
            let expected = format!("metal: {name}: cell {cell} of row 2 is not one of 5");
            assert_eq!(error, expected);
            for part in [region.keys, region.values] {
                let mut bytes = vec![1; 5 * shape.cell_bytes().unwrap()];
                backend.read(part, 0, &mut bytes).unwrap();
                assert!(bytes.iter().all(|&byte| byte == 0));
            }
        }
    }
}
