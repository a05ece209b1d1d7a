//! Encoded work that never runs must not pass for work that did.

use minfer_graph::{Backend, Operand};

use crate::failing::Failing;
use crate::nodes::{add, floats, read};
use crate::{backend, checked_device};

fn read_error(backend: &mut dyn Backend, value: Operand) -> String {
    let error = backend.read(value.buffer, 0, &mut [0; 16]).unwrap_err();
    error.to_string()
}

#[test]
fn work_lost_with_its_command_buffer_is_an_error_until_the_step_is_abandoned() {
    let Some(device) = checked_device().map(Failing::new) else {
        return;
    };
    let mut backend = backend(device.clone());
    let [a, b, c, d] = [1.0, 2.0, 0.0, 0.0].map(|x| floats(&mut backend, &[x; 4], 4));
    add(&mut backend, [a, b, c]).unwrap();
    device.set(true);
    // The copy ends the encoder that the addition is in, and gets none.
    let error = backend.capture(c).unwrap_err().to_string();
    assert_eq!(error, "metal: `step`: no encoder, on purpose");
    device.set(false);
    let lost = "metal: work encoded before is lost: `step`: no encoder, on purpose";
    for _ in 0..2 {
        assert_eq!(backend.synchronize().unwrap_err().to_string(), lost);
        assert_eq!(read_error(&mut backend, c), lost);
        let error = add(&mut backend, [a, b, d]).unwrap_err();
        assert_eq!(error, lost);
        assert_eq!(
            backend.write(a.buffer, 0, &[0; 4]).unwrap_err().to_string(),
            lost
        );
    }
    backend.abandon();
    backend.synchronize().unwrap();
    assert_eq!(read(&mut backend, c), [0.0; 4]);
    add(&mut backend, [a, b, c]).unwrap();
    assert_eq!(read(&mut backend, c), [3.0; 4]);
}

/// What fails before anything is encoded loses nothing.
#[test]
fn a_command_buffer_without_work_is_no_loss() {
    let Some(device) = checked_device().map(Failing::new) else {
        return;
    };
    let mut backend = backend(device.clone());
    let [a, b, c] = [1.0, 2.0, 0.0].map(|x| floats(&mut backend, &[x; 4], 4));
    device.set(true);
    assert!(add(&mut backend, [a, b, c]).is_err());
    device.set(false);
    backend.synchronize().unwrap();
    add(&mut backend, [a, b, c]).unwrap();
    assert_eq!(read(&mut backend, c), [3.0; 4]);
}
