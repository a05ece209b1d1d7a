//! Backends that enqueue: what a trace, a profile and a failure ask of them.

mod support;

use std::sync::{Arc, Mutex};

use minfer_graph::{Executor, StepInputs, TracedValue};
use support::*;

fn executor(mock: Mock) -> Executor {
    let mut executor = Executor::new(vec![mock.boxed()], kv_layout());
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    let catalog = executor.catalog().clone();
    executor
        .prepare(&params(3), |params| transformer(&catalog, params))
        .unwrap();
    executor
}

fn step() -> StepInputs<'static> {
    StepInputs {
        rows: rows(prompt(3), prompt(1)),
        tokens: &[1, 4, 2],
        positions: &[0, 1, 2],
        cells: &[0, 1, 2],
        output_rows: &[2],
        ..StepInputs::default()
    }
}

/// Values of all nodes in a step.
fn traced(executor: &mut Executor) -> Vec<(String, Vec<f32>)> {
    type Seen = Vec<(String, Vec<f32>)>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let sink = Arc::clone(&seen);
    executor.set_trace(Some(Box::new(move |value: TracedValue<'_>| {
        let entry = (value.node.name.clone(), value.values.to_vec());
        sink.lock().unwrap().push(entry);
    })));
    executor.run(&params(3), &step()).unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

/// The mock refuses reads of what no submission has run.
#[test]
fn traced_values_are_kept_until_the_split_has_run() {
    let expected = traced(&mut executor(Mock::new("a")));
    let (mock, queue) = Mock::enqueuing("a");
    let mut executor = executor(mock);
    assert_eq!(traced(&mut executor), expected);
    let queue = queue.lock().unwrap();
    assert_eq!((queue.work.submits, queue.kept.len()), (1, 0));
    // Every node of the graph but inputs, in order.
    assert_eq!(queue.work.dispatches, expected.len() as u64);
    assert_eq!(queue.abandoned, 0);
}

#[test]
fn a_failed_step_is_abandoned_and_gives_back_what_was_kept() {
    let (mut mock, queue) = Mock::enqueuing("a");
    mock.broken = Some("blk.1.ffn_down");
    let mut executor = executor(mock);
    executor.set_trace(Some(Box::new(|_: TracedValue<'_>| {})));
    executor.run(&params(3), &step()).unwrap_err();
    let queue = queue.lock().unwrap();
    assert_eq!((queue.abandoned, queue.kept.len()), (1, 0));
}

#[test]
fn waits_are_shown_once_and_not_as_time_of_operations() {
    let (mock, queue) = Mock::enqueuing("gpu");
    let mut executor = executor(mock);
    executor.run(&params(3), &step()).unwrap();
    executor.set_profiling(true);
    for _ in 0..2 {
        executor.run(&params(3), &step()).unwrap();
    }
    let profile = executor.set_profiling(false).unwrap();
    let times = profile.by_cost();
    let of = |op| times.iter().find(|(name, _)| *name == op).unwrap().1;
    assert_eq!((of("wait").calls, of("wait").total), (2, 2 * WAIT));
    assert_eq!(of("synchronize").calls, 2);
    // The mock did not really wait.
    assert!(of("synchronize").total.is_zero());
    let dispatches = queue.lock().unwrap().work.dispatches / 3;
    let text = profile.to_string();
    let line = format!(
        "gpu, per step of 2: {dispatches}.0 dispatches, 0.0 barriers, 0.0 copies, 1.0 submissions"
    );
    assert_eq!(text.lines().last(), Some(line.as_str()), "{text}");
}
