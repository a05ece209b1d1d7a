//! The log of dispatches.

use minfer_graph::{DType, Op};
use minfer_metal::backend::{MetalBackend, MetalOptions};

use crate::log::Log;
use crate::nodes::{floats, graph, run};
use crate::{fast_device, options};

/// What is logged meanwhile.
fn logged(work: impl FnOnce()) -> Vec<Vec<String>> {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), work);
    log.take()
}

/// Names of the kernels that a backend with a trace dispatches meanwhile, each once.
pub fn kernels(work: impl FnOnce()) -> Vec<String> {
    let fields = logged(work).into_iter().flatten();
    let mut names: Vec<_> = fields
        .filter_map(|field| {
            Some(
                field
                    .strip_prefix("kernel=\"")?
                    .strip_suffix('"')?
                    .to_owned(),
            )
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn dispatches_are_logged_on_demand() {
    // A thread computes four of 40 features of one of two rows.
    let silu = [
        "label=\"node\"",
        "kernel=\"silu\"",
        "threadgroups=[1, 1, 1]",
        "threadgroup=[32, 2, 1]",
    ];
    for (trace, expected) in [(false, &[][..]), (true, &[silu])] {
        let Some(device) = fast_device() else { return };
        let options = MetalOptions { trace, ..options() };
        let mut backend = MetalBackend::new(device, options);
        let [x, y] = [1.0, 0.0].map(|value| floats(&mut backend, &[value; 80], 40));
        let silu = graph(Op::Silu, &[(DType::F32, 40)], 40);
        let entries = logged(|| run(&mut backend, &silu, &[x], y, None).unwrap());
        assert_eq!(entries, expected);
    }
}
