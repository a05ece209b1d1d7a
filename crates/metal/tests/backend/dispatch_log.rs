//! The log of dispatches, and what failures say of them.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use minfer_graph::{Backend, DType, Op};
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_softmetal::{Mode, SoftDevice};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::nodes::{floats, graph, run};
use crate::software::device;

/// Keeps the fields of events about dispatches.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Vec<String>>>>);

struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "minfer::dispatch"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn silu(options: MetalOptions) -> (MetalBackend<SoftDevice>, Vec<Vec<String>>) {
    let mut backend = MetalBackend::new(device(Mode::Unchecked), options);
    let [x, y] = [1.0, 0.0].map(|value| floats(&mut backend, &[value; 80], 40));
    let silu = graph(Op::Silu, &[(DType::F32, 40)], 40);
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        run(&mut backend, &silu, &[x], y, None).unwrap();
    });
    let entries = std::mem::take(&mut *log.0.lock().unwrap());
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
