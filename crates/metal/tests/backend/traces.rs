//! Values of nodes and counts of work, seen from the executor.

use std::sync::{Arc, Mutex};

use minfer_graph::{
    Backend, DeviceWork, Executor, Fusion, GraphBuilder, GraphError, GraphParams, KvFormat,
    KvLayout, Operand, RowCount, Rows, StepInputs, StepRows, TracedValue, WindowLayout,
};
use minfer_metal::device::Device;

use crate::nodes::{floats, read};
use crate::{assert_no_reports, backend, checked_device, fast_device};

const WIDTH: usize = 5;
const ROWS: usize = 3;

fn params() -> GraphParams {
    GraphParams {
        max_tokens: ROWS,
        max_outputs: ROWS,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        fusion: Fusion::default(),
        generated_only: false,
    }
}

/// `x + x`, then times `x`, then plus `x`, and so on: a value is dead after the next one.
const NODES: usize = 6;

fn chain(params: &GraphParams, kv: &KvLayout) -> Result<minfer_graph::Graph, GraphError> {
    let catalog = Default::default();
    let mut b = GraphBuilder::new(&catalog, *params, kv);
    let x = b.activations(0, WIDTH, Rows::Tokens)?;
    let mut y = x;
    for node in 0..NODES {
        let name = format!("node {node}");
        y = match node % 2 {
            0 => b.add(y, x, &name)?,
            _ => b.mul(y, x, &name)?,
        };
    }
    b.output(y)?;
    Ok(b.finish())
}

/// Values of the chain, each operation rounded once.
fn expected(x: &[f32]) -> Vec<Vec<f32>> {
    let mut y = x.to_vec();
    let apply = |node: usize| {
        for (y, x) in y.iter_mut().zip(x) {
            *y = if node.is_multiple_of(2) {
                *y + x
            } else {
                *y * x
            };
        }
        y.clone()
    };
    (0..NODES).map(apply).collect()
}

fn executor<D: Device + 'static>(device: D) -> Executor {
    let mut executor = Executor::new(vec![Box::new(backend(device))], KvLayout::default());
    let kv = executor.kv().layout().clone();
    executor
        .prepare(&params(), |params| chain(params, &kv))
        .unwrap();
    executor
}

fn step<'a>(activations: &'a [&'a [f32]]) -> StepInputs<'a> {
    let rows = RowCount {
        prompt: ROWS,
        generated: 0,
    };
    StepInputs {
        rows: StepRows {
            tokens: rows,
            outputs: rows,
        },
        activations,
        ..StepInputs::default()
    }
}

fn work(executor: &Executor) -> DeviceWork {
    executor.backends()[0].device_work().unwrap()
}

/// Names and values of nodes.
type Seen = Vec<(String, Vec<f32>)>;

#[test]
fn traced_values_are_the_nodes_own_and_take_one_submission() {
    let Some(device) = checked_device() else {
        return;
    };
    let mut executor = executor(device.clone());
    let buffers = executor.dump(&params()).unwrap().to_json()["buffers"]
        .as_array()
        .unwrap()
        .len();
    assert!(buffers < NODES, "buffers are used again: {buffers}");
    let x: Vec<f32> = (0..WIDTH * ROWS).map(|i| 0.3 * i as f32 - 1.7).collect();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let sink = Arc::clone(&seen);
    executor.set_trace(Some(Box::new(move |value: TracedValue<'_>| {
        let entry = (value.node.name.clone(), value.values.to_vec());
        sink.lock().unwrap().push(entry);
    })));
    let mut memory = None;
    for _ in 0..3 {
        let before = work(&executor);
        executor.run(&params(), &step(&[&x])).unwrap();
        let after = work(&executor);
        assert_eq!(after.submits - before.submits, 1);
        assert_eq!(after.copies - before.copies, NODES as u64);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let names: Vec<_> = (0..NODES).map(|node| format!("node {node}")).collect();
        assert_eq!(
            seen,
            names.into_iter().zip(expected(&x)).collect::<Vec<_>>()
        );
        // Copies of later steps use the memory of the first again.
        let available = executor.backends()[0].available_memory();
        assert_eq!(*memory.get_or_insert(available), available);
    }
    executor.set_trace(None);
    let before = work(&executor);
    executor.run(&params(), &step(&[&x])).unwrap();
    assert_eq!(work(&executor).copies, before.copies);
    assert_no_reports(&device);
}

#[test]
fn a_copy_leaves_the_gaps_between_rows_out() {
    let Some(device) = checked_device() else {
        return;
    };
    let mut backend = backend(device.clone());
    let values: Vec<f32> = (0..21).map(|i| i as f32).collect();
    let whole = floats(&mut backend, &values, 7);
    let part = Operand {
        offset: 2,
        width: 3,
        ..whole
    };
    let copy = backend.capture(part).unwrap().unwrap();
    let packed = Operand {
        buffer: copy,
        offset: 0,
        stride: 3,
        ..part
    };
    assert_eq!(backend.counts().copies, 3);
    assert_eq!(
        read(&mut backend, packed),
        [2.0, 3.0, 4.0, 9.0, 10.0, 11.0, 16.0, 17.0, 18.0]
    );
    let beyond = Operand { offset: 5, ..part };
    let error = backend.capture(beyond).unwrap_err().to_string();
    assert!(error.contains("are outside"), "{error}");
    assert_no_reports(&device);
}

#[test]
fn a_profile_shows_waits_once_and_counts_by_step() {
    let Some(mut executor) = fast_device().map(executor) else {
        return;
    };
    let x = [1.0; WIDTH * ROWS];
    executor.run(&params(), &step(&[&x])).unwrap();
    let before = work(&executor);
    executor.set_profiling(true);
    for _ in 0..4 {
        executor.run(&params(), &step(&[&x])).unwrap();
    }
    let profile = executor.set_profiling(false).unwrap();
    let times = profile.by_cost();
    let of = |op| times.iter().find(|(name, _)| *name == op).unwrap().1;
    assert_eq!((of("Add").calls, of("Mul").calls), (12, 12));
    assert_eq!((of("synchronize").calls, of("wait").calls), (4, 4));
    assert_eq!((of("input").calls, of("output").calls), (4, 4));
    let waited = work(&executor).waited - before.waited;
    assert_eq!(of("wait").total, waited);
    assert!(!waited.is_zero());
    let [metal] = profile.devices() else {
        panic!("one backend enqueues")
    };
    assert_eq!((metal.name.as_str(), metal.work.dispatches), ("metal", 24));
    let line = "metal, per step of 4: 6.0 dispatches, 5.0 barriers, 0.0 copies, 1.0 submissions\n";
    assert!(profile.to_string().ends_with(line), "{profile}");
}
