//! Work that is given up, or for which there is no time: a GPU may be done with it regardless.

use std::time::Duration;

use minfer_graph::Backend;
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_softmetal::{Mode, SoftDevice};

use super::device;
use crate::backend;
use crate::nodes::{add, floats};

#[test]
fn work_that_nobody_waited_for_is_dropped_with_the_backend() {
    let device = device(Mode::Unchecked);
    let mut backend = backend(device.clone());
    let [a, b] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 4], 4));
    add(&mut backend, [a, b, a]).unwrap();
    drop(backend);
    assert!(device.statistics().is_empty());
}

/// A backend whose work never ends in time.
fn hasty(trace: bool) -> MetalBackend<SoftDevice> {
    let options = MetalOptions {
        trace,
        submit_limit: Duration::ZERO,
        ..MetalOptions::default()
    };
    MetalBackend::new(device(Mode::Unchecked), options)
}

#[test]
fn a_submit_ends_in_time_and_names_its_work() {
    for (trace, last) in [(false, "node"), (true, "node: add [1, 1, 1] x [32, 1, 1]")] {
        let mut backend = hasty(trace);
        let [a, b] = [1.0, 2.0].map(|x| floats(&mut backend, &[x; 4], 4));
        add(&mut backend, [a, b, a]).unwrap();
        let error = backend.synchronize().unwrap_err().to_string();
        let expected = format!(
            "metal: command buffer `step` did not complete within 0ns; last dispatches: {last}"
        );
        assert_eq!(error, expected);
        // Nothing is encoded any more.
        backend.abandon();
        backend.synchronize().unwrap();
    }
}

#[test]
fn results_of_work_that_did_not_end_in_time_are_not_read() {
    let mut backend = hasty(false);
    let [a, b, c] = [1.0, 2.0, 0.0].map(|x| floats(&mut backend, &[x; 4], 4));
    add(&mut backend, [a, b, c]).unwrap();
    assert!(backend.synchronize().is_err());
    let mut bytes = [0; 16];
    let error = backend.read(c.buffer, 0, &mut bytes).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("metal: work encoded before is lost: command buffer"),
        "{error}"
    );
    backend.abandon();
    assert!(backend.read(c.buffer, 0, &mut bytes).is_ok());
}
