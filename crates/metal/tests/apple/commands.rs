//! Submission, time limits, and work that is never submitted.

use std::time::{Duration, Instant};

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, CommandBuffer, ComputeEncoder, Device, DeviceError,
    Order,
};

use crate::{LONG, device, dispatch, floats, pipeline, read, to_from};

/// What `slow` computes.
fn slow() -> u32 {
    (0..1 << 24).fold(1u32, |state, _| {
        state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    })
}

#[test]
fn work_beyond_its_limit_times_out_and_keeps_its_buffers() {
    let Some(device) = device() else { return };
    let y = device.buffer(4, "y").unwrap();
    let pipeline = pipeline(&device, "slow", &[]).unwrap();
    let arguments = [Argument::Buffer {
        index: 0,
        range: BufferRange::whole(&y),
        access: Access::Write,
    }];
    let error = device
        .run(&dispatch(&pipeline, &arguments, 1), Duration::ZERO)
        .unwrap_err();
    let expected =
        "command buffer `test` did not complete within 0ns; last dispatches: test".to_owned();
    assert_eq!(error.to_string(), expected);
    // The host may not look before the GPU is done, and sees all of the result then.
    let start = Instant::now();
    let mut result = [0; 4];
    while let Err(error) = y.read(0, &mut result) {
        assert!(matches!(error, DeviceError::Busy { .. }), "{error}");
        assert!(start.elapsed() < LONG, "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(u32::from_le_bytes(result), slow());
}

#[test]
fn a_buffer_lives_until_work_that_timed_out_is_done() {
    let Some(device) = device() else { return };
    let pipeline = pipeline(&device, "slow", &[]).unwrap();
    for _ in 0..4 {
        let y = device.buffer(4, "y").unwrap();
        let arguments = [Argument::Buffer {
            index: 0,
            range: BufferRange::whole(&y),
            access: Access::Write,
        }];
        let work = dispatch(&pipeline, &arguments, 1);
        assert!(matches!(
            device.run(&work, Duration::ZERO),
            Err(DeviceError::TimedOut { .. })
        ));
    }
    // The queue is in order: this ends after all of them.
    let x = floats(&device, "x", &[1.0]);
    let y = floats(&device, "y", &[0.0]);
    let twice = crate::pipeline(&device, "twice", &[]).unwrap();
    device
        .run(&dispatch(&twice, &to_from(&y, &x), 1), LONG)
        .unwrap();
    assert_eq!(read(&y), [2.0]);
}

#[test]
fn what_is_not_submitted_never_runs() {
    let Some(device) = device() else { return };
    let x = floats(&device, "x", &[1.0]);
    let y = floats(&device, "y", &[0.0]);
    let twice = pipeline(&device, "twice", &[]).unwrap();
    let arguments = to_from(&y, &x);
    let encoder = || {
        let commands = device.command_buffer("dropped").unwrap();
        let mut encoder = commands.compute(Order::Serial).unwrap();
        encoder.dispatch(&dispatch(&twice, &arguments, 1)).unwrap();
        encoder
    };
    drop(encoder());
    drop(encoder().end());
    // One in the queue after them shows that they are not waited for.
    let empty = device.command_buffer("empty").unwrap();
    empty.submit(LONG).unwrap();
    assert_eq!(read(&y), [0.0]);
    encoder().end().submit(LONG).unwrap();
    assert_eq!(read(&y), [2.0]);
}

#[test]
fn a_queue_that_is_full_refuses_rather_than_waits() {
    let Some(device) = device() else { return };
    let mut held: Vec<_> = (0..32)
        .map(|_| device.command_buffer("held").unwrap())
        .collect();
    let error = device.command_buffer("more").err().unwrap().to_string();
    assert_eq!(
        error,
        "`more`: 32 command buffers have not completed or are not submitted"
    );
    held.pop();
    assert!(device.command_buffer("more").is_ok());
}
