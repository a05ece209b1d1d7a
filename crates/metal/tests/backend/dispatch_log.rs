//! The log of dispatches, and what failures say of them.

use std::time::Duration;

use minfer_graph::{Backend, DType, Op};
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_softmetal::{Mode, SoftDevice};

use crate::log::Log;
use crate::nodes::{floats, graph, run};
use crate::software::device;

fn silu(options: MetalOptions) -> (MetalBackend<SoftDevice>, Vec<Vec<String>>) {
    let mut backend = MetalBackend::new(device(Mode::Unchecked), options);
    let [x, y] = [1.0, 0.0].map(|value| floats(&mut backend, &[value; 80], 40));
    let silu = graph(Op::Silu, &[(DType::F32, 40)], 40);
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        run(&mut backend, &silu, &[x], y, None).unwrap();
    });
    let entries = log.take();
    (backend, entries)
}

#[test]
fn dispatches_are_logged_on_demand() {
    let (_, entries) = silu(MetalOptions::default());
    assert!(entries.is_empty(), "{entries:?}");
    let options = MetalOptions {
        trace: true,
        ..MetalOptions::default()
    };
    let (_, entries) = silu(options);
    // A thread computes four of 40 features of one of two rows.
    let expected = [
        "label=\"node\"",
        "kernel=\"silu\"",
        "threadgroups=[1, 1, 1]",
        "threadgroup=[32, 2, 1]",
    ];
    assert_eq!(entries, [expected]);
}

#[test]
fn failures_list_the_last_dispatches_and_what_they_ran_when_traced() {
    for (trace, expected) in [
        (false, "last dispatches: node"),
        (true, "last dispatches: node: silu [1, 1, 1] x [32, 2, 1]"),
    ] {
        let (mut backend, _) = silu(MetalOptions {
            trace,
            submit_limit: Duration::ZERO,
            ..MetalOptions::default()
        });
        let error = backend.synchronize().unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}
