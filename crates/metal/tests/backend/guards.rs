//! Nodes that must not run: each is refused with what is wrong, and nothing is written.

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Attention, Backend, DType, KvFormat, KvRegion, KvShape, Norm, Op, Operand, RowCount, WeightId,
    WindowLayout,
};

use crate::alternatives::NO_FLASH;
use crate::nodes::{floats, graph, integers, read, run, upload};
use crate::{backend, backend_of, fast_device};

const UNTOUCHED: f32 = 7.0;

/// Why the node is refused, before it runs and when it is made to run regardless.
fn refusals(backend: &mut dyn Backend, op: Op, inputs: &[Operand]) -> [String; 2] {
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
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
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

fn region(backend: &mut dyn Backend, shape: KvShape) -> KvRegion {
    let bytes = shape.cells * shape.cell_bytes().unwrap();
    KvRegion {
        shape,
        keys: backend.alloc(bytes).unwrap(),
        values: backend.alloc(bytes).unwrap(),
    }
}

/// What attention of a row, of four heads over two, says about its window and a region.
fn attention(
    backend: &mut dyn Backend,
    head_dim: usize,
    is_prompt: bool,
    (layout, window): (WindowLayout, &[i32]),
    shape: Option<KvShape>,
) -> String {
    let op = Op::Attention(Attention {
        layer: 0,
        n_head: 4,
        n_head_kv: 2,
        head_dim,
        scale: 1.0,
        window: layout,
    });
    let [width, kv_width] = [4, 2].map(|heads| heads * head_dim);
    let q = floats(backend, &vec![1.0; width], width);
    let stored = floats(backend, &vec![1.0; kv_width], kv_width);
    let words: Vec<_> = window.iter().map(|word| word.to_le_bytes()).collect();
    let window = upload(backend, &words, window.len());
    let mut shapes = vec![(DType::F32, width), (DType::I32, 1), (DType::F32, kv_width)];
    let mut inputs = vec![q, window, stored];
    if layout != WindowLayout::Causal {
        shapes.push((DType::I32, window.width));
        inputs[1] = integers(backend, &[0]);
        inputs.push(window);
    }
    let mut y = floats(backend, &vec![UNTOUCHED; width], width);
    if !is_prompt {
        y.rows = RowCount {
            prompt: 0,
            generated: 1,
        };
        inputs.iter_mut().for_each(|input| input.rows = y.rows);
    }
    let region = shape.map(|shape| region(backend, shape));
    let result = run(backend, &graph(op, &shapes, width), &inputs, y, region);
    let is_written = read(backend, y).iter().any(|&y| y != UNTOUCHED);
    assert_eq!(is_written, result.is_ok());
    result.err().unwrap_or_default()
}

#[test]
fn attention_over_a_region_that_does_not_fit_is_refused() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let shape = KvShape {
            cells: 9,
            width: 64,
            head_dim: 32,
            format,
        };
        let mut attention = |shape, position| {
            let window = (WindowLayout::Causal, &[position][..]);
            attention(&mut backend, 32, true, window, shape)
        };
        assert_eq!(attention(Some(shape), 8), "");
        let name = format!("metal: attention_{format:?}: ").to_lowercase();
        let region = |width, head_dim| KvShape {
            width,
            head_dim,
            ..shape
        };
        let mut refusal = |region, position| {
            let found = attention(Some(region), position);
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
        assert_eq!(attention(None, 8), "metal: names a KV region but has none");
    }
}

/// The host's checks are the only ones: kernels trust windows.
#[test]
fn windows_outside_of_the_region_are_refused_in_every_layout() {
    let Some(mut backend) = fast_device().map(backend) else {
        return;
    };
    let (causal, span, map) = (WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map);
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let shape = KvShape {
            cells: 9,
            width: 128,
            head_dim: 64,
            format,
        };
        for (is_prompt, kernel) in [(true, "flash_prefill"), (false, "flash_decode")] {
            let mut message = |layout, window| {
                attention(&mut backend, 64, is_prompt, (layout, window), Some(shape))
            };
            for (layout, window) in [
                (causal, &[8][..]),
                (span, &[0, 9]),
                (map, &[7, 2, 0, 0, 3, 1, 99, 0]),
            ] {
                assert_eq!(message(layout, window), "", "{kernel} {layout:?}");
            }
            for (layout, window, found) in [
                (causal, &[9][..], "0..10"),
                (causal, &[i32::MAX], "0..2147483648"),
                (causal, &[-1], "-1..0"),
                (span, &[4, 10], "4..10"),
                (span, &[-1, 3], "-1..3"),
                (span, &[5, 4], "5..4"),
                (map, &[0, 2, 0, 0, 0, 0, 8, 2], "8..10"),
                (map, &[0, 2, -1, 3, 0, 0, 0, 0], "-1..2"),
                (map, &[0, 2, 5, -1, 0, 0, 0, 0], "5..4"),
            ] {
                let name = format!("{kernel}_{format:?}").to_lowercase();
                let expected = format!("a window is cells {found} of row 0, within 0..9 is needed");
                assert_eq!(
                    message(layout, window),
                    format!("metal: {name}: {expected}")
                );
            }
        }
    }
}

#[test]
fn windows_outside_of_the_region_are_refused_before_scores_have_memory() {
    let Some(device) = fast_device() else {
        return;
    };
    let mut backend = backend_of(device, NO_FLASH);
    let shape = KvShape {
        cells: 9,
        width: 128,
        head_dim: 64,
        format: KvFormat::F16,
    };
    for (is_prompt, name) in [(true, "three_pass"), (false, "split_attention")] {
        let mut message = |position| {
            let window = (WindowLayout::Causal, &[position][..]);
            attention(&mut backend, 64, is_prompt, window, Some(shape))
        };
        assert_eq!(message(8), "");
        for (position, end) in [(9, 10), (i32::MAX, 1u32 << 31)] {
            let found = format!("cells 0..{end} of row 0");
            let expected = format!("metal: {name}: a window is {found}, within 0..9 is needed");
            assert_eq!(message(position), expected);
        }
    }
}

/// Nothing is written to other cells, by the keys, whose cells are checked first, or by the values.
#[test]
fn a_store_past_the_region_is_refused_in_every_format() {
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        for cell in [5, i32::MAX, -1, i32::MIN] {
            let Some(mut backend) = fast_device().map(backend) else {
                return;
            };
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
