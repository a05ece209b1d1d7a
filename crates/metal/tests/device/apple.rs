//! What only an Apple device does: work goes on after a time-out, queues are bounded, Metal checks types.

use std::time::{Duration, Instant};

use minfer_metal::device::apple::{AppleDevice, AppleOptions};
use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, ConstantValue, Device, DeviceError,
};
use minfer_metal::kernels;
use minfer_metal::metallib::Metallib;

use crate::{LONG, Tested, dispatch, floats, pipeline, read, to_from};

/// What `slow` computes.
fn slow() -> u32 {
    (0..1 << 24).fold(1u32, |state, _| {
        state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    })
}

#[test]
fn work_beyond_its_limit_times_out_and_keeps_its_buffers() {
    let Some(device) = AppleDevice::open() else {
        return;
    };
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
    let Some(device) = AppleDevice::open() else {
        return;
    };
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
fn a_queue_that_is_full_refuses_rather_than_waits() {
    let Some(device) = AppleDevice::open() else {
        return;
    };
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

#[test]
fn every_kernel_file_compiles() {
    if AppleDevice::open().is_none() {
        return;
    }
    for metallib in [Metallib::Embedded, Metallib::Sources] {
        let options = AppleOptions {
            metallib,
            ..AppleOptions::default()
        };
        let device = AppleDevice::system_default(options).unwrap().unwrap();
        for file in kernels::ALL {
            let library = device.library(&kernels::library(*file).unwrap());
            let library = library.unwrap_or_else(|error| panic!("{error}"));
            assert!(!library.kernels().is_empty(), "{}", file.name);
        }
    }
}

#[test]
fn options_that_cannot_be_followed_are_errors() {
    if AppleDevice::open().is_none() {
        return;
    }
    let error = |options| {
        AppleDevice::system_default(options)
            .err()
            .unwrap()
            .to_string()
    };
    let metallib = error(AppleOptions {
        metallib: Metallib::File("/nowhere/kernels.metallib".into()),
        ..AppleOptions::default()
    });
    assert!(metallib.contains("/nowhere/kernels.metallib"), "{metallib}");
    if std::env::var_os("MTL_CAPTURE_ENABLED").is_none() {
        let capture = error(AppleOptions {
            capture: Some("/nowhere/minfer.gputrace".into()),
            ..AppleOptions::default()
        });
        assert!(capture.contains("MTL_CAPTURE_ENABLED=1"), "{capture}");
    }
}

#[test]
fn constants_have_the_type_that_a_kernel_gives_them() {
    let Some(device) = AppleDevice::open() else {
        return;
    };
    for constants in [vec![], vec![(0, ConstantValue::F32(3.0))]] {
        let error = pipeline(&device, "scaled", &constants).err().unwrap();
        assert!(
            matches!(error, DeviceError::Constant { index: 0, .. }),
            "{error}"
        );
    }
}

#[test]
fn bytes_that_are_no_library_are_refused() {
    let Some(device) = AppleDevice::open() else {
        return;
    };
    let error = device.precompiled("none.metallib", b"no library").err();
    assert!(matches!(error, Some(DeviceError::Library { .. })));
}
