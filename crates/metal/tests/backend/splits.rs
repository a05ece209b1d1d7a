//! Graphs that run partly on the CPU: copies between backends, in order.

use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, Executor, Fusion, Graph, GraphBuilder, GraphError, GraphParams, Input, KvFormat,
    KvLayout, Node, RowCount, Rows, StepInputs, StepRows, WindowLayout,
};
use minfer_metal::device::Device;

use crate::{backend, fast_device};

const METAL: usize = 0;
const CPU: usize = 1;

/// The backend of a node.
type Place = fn(&Node) -> usize;

fn executor<D: Device + 'static>(device: D) -> Executor {
    let options = CpuOptions {
        isa: Some(Isa::Scalar),
        ..CpuOptions::default()
    };
    let cpu = CpuBackend::new(Arc::new(Pool::new(1).unwrap()), options).unwrap();
    let backends: Vec<Box<dyn Backend>> = vec![Box::new(backend(device)), Box::new(cpu)];
    Executor::new(backends, KvLayout::default())
}

fn params(max_tokens: usize) -> GraphParams {
    GraphParams {
        max_tokens,
        max_outputs: 1,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        fusion: Fusion::default(),
        generated_only: false,
    }
}

/// The bits of the outputs with every node where `place` wants it; how many times the backend changes.
fn run(
    executor: &mut Executor,
    build: impl Fn(&mut GraphBuilder<'_>) -> Result<(), GraphError>,
    place: Place,
    step: StepInputs<'_>,
) -> (Vec<u32>, usize) {
    executor.set_preference(Some(Box::new(move |_: &Graph, node: &Node| {
        Some(place(node))
    })));
    let params = params(step.rows.tokens.total());
    let (catalog, layout) = (executor.catalog().clone(), KvLayout::default());
    let graph = |params: &GraphParams| {
        let mut builder = GraphBuilder::new(&catalog, *params, &layout);
        build(&mut builder)?;
        Ok::<_, GraphError>(builder.finish())
    };
    executor.prepare(&params, graph).unwrap();
    let dump = executor.dump(&params).unwrap();
    let computed = |node: &&Node| !matches!(node.op, minfer_graph::Op::Input(_));
    let nodes = dump.graph().nodes.iter().zip(dump.assigned());
    let placed: Vec<_> = nodes.filter(|(node, _)| computed(node)).collect();
    for (node, backend) in &placed {
        assert_eq!(**backend, place(node), "{}", node.name);
    }
    let changes = placed
        .windows(2)
        .filter(|pair| pair[0].1 != pair[1].1)
        .count();
    let outputs = executor.run(&params, &step).unwrap();
    let bits = outputs.values(0).iter().map(|y| y.to_bits()).collect();
    (bits, changes)
}

fn prompt(rows: usize) -> StepRows {
    StepRows {
        tokens: RowCount {
            prompt: rows,
            generated: 0,
        },
        outputs: RowCount::default(),
    }
}

/// Values with all bits in use.
fn values(count: usize) -> Vec<f32> {
    let mut random = minfer_testdata::Random(7);
    (0..count)
        .map(|_| random.below(1 << 24) as f32 / 4e6 - 2.0)
        .collect()
}

/// Sums and products of two elements are rounded once, on every backend alike.
fn chain(b: &mut GraphBuilder<'_>, width: usize) -> Result<(), GraphError> {
    let [x, y] = [0, 1].map(|n| b.activations(n, width, Rows::Tokens));
    let (x, y) = (x?, y?);
    let mut last = x;
    for (n, factor) in [0.7, -1.3, 1.1, 0.9].into_iter().enumerate() {
        let scaled = b.scale(last, factor, &format!("scale.{n}"))?;
        let sum = b.add(scaled, y, &format!("add.{n}"))?;
        // Reads a value of two splits before.
        last = b.mul(sum, x, &format!("mul.{n}"))?;
    }
    b.output(last)
}

#[test]
fn backends_that_alternate_give_the_bits_of_each_alone() {
    for (width, rows) in [(1, 1), (33, 7), (896, 3), (4864, 197)] {
        let Some(device) = fast_device() else { return };
        let mut executor = executor(device);
        let [x, y] = [1, 2].map(|n| values(n * rows * width)[(n - 1) * rows * width..].to_vec());
        let step = StepInputs {
            rows: prompt(rows),
            activations: &[&x, &y],
            ..StepInputs::default()
        };
        let build = |b: &mut GraphBuilder<'_>| chain(b, width);
        let places: [(Place, usize); 5] = [
            (|_| CPU, 0),
            (|_| METAL, 0),
            (|node| usize::from(node.name.starts_with("add")), 8),
            (|node| usize::from(!node.name.starts_with("mul")), 7),
            (|node| usize::from(node.name.ends_with('2')), 2),
        ];
        let expected = run(&mut executor, build, places[0].0, step).0;
        for (place, changes) in places {
            let found = run(&mut executor, build, place, step);
            assert_eq!(found.1, changes);
            assert!(
                found.0 == expected,
                "{changes} changes, {rows} rows of {width}"
            );
        }
    }
}

fn tensor(name: &str, ty: TensorType, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(minfer_gguf::quantize::quantize(ty, values).unwrap()),
    }
}

/// Of which 0 and -0 are equal: backends may differ in the sign of a product with 0.
fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().map(|&bits| f32::from_bits(bits)).collect()
}

/// An embedding is exact, so that a norm has the bits of its own backend wherever the embedding was.
#[test]
fn an_embedding_on_one_backend_feeds_a_norm_on_the_other() {
    const WIDTH: usize = 896;
    let Some(device) = fast_device() else { return };
    let mut executor = executor(device);
    for tensor in [
        tensor(
            "embd.weight",
            TensorType::Q4_0,
            &[WIDTH, 20],
            &values(20 * WIDTH),
        ),
        tensor("norm.weight", TensorType::F32, &[WIDTH], &values(WIDTH)),
    ] {
        executor.register_weight(&tensor, None).unwrap();
    }
    let build = |b: &mut GraphBuilder<'_>| {
        let tokens = b.input(Input::Tokens)?;
        let x = b.embed(tokens, "embd")?;
        let y = b.rms_norm(x, "norm", 1e-6)?;
        b.output(y)
    };
    let step = StepInputs {
        rows: prompt(9),
        tokens: &[19, 0, 3, 3, 7, 1, 18, 2, 11],
        ..StepInputs::default()
    };
    let place: [Place; 4] = [
        |_| METAL,
        |_| CPU,
        |node| usize::from(node.name == "norm"),
        |node| usize::from(node.name != "norm"),
    ];
    let [metal, cpu, norm_on_cpu, norm_on_metal] =
        place.map(|place| floats(&run(&mut executor, build, place, step).0));
    assert!(norm_on_cpu == cpu);
    assert!(norm_on_metal == metal);
    for (a, b) in metal.into_iter().zip(cpu) {
        assert!((a - b).abs() <= 4e-6 * b.abs().max(1.0), "{a} and {b}");
    }
}
