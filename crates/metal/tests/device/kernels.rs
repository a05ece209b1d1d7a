//! Libraries, pipelines and what a dispatch binds.

use minfer_metal::device::{
    Argument, BufferRange, CommandBuffer, ConstantValue, Device, DeviceError, LibrarySource, Order,
    Pipeline, SourceFile,
};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::elementwise::{Binary, binary};
use minfer_metal::ops::{Encode, Kernels, Rows};

use crate::{LONG, dispatch, floats, on_every_device, pipeline, read, to_from};

on_every_device!(
    the_device_tells_its_limits,
    an_operation_of_the_backend_runs,
    function_constants_and_copied_values_reach_the_kernel,
    kernels_are_compiled_without_fast_math,
    errors_name_what_is_wrong,
    threadgroup_memory_has_the_length_that_a_dispatch_gives,
    a_parameter_that_is_not_bound_or_does_not_fit_is_refused,
);

fn the_device_tells_its_limits<D: Device>(device: &D) {
    let info = device.info();
    assert!(!info.name.is_empty());
    assert!(info.apple_family >= Some(7), "{info:?}");
    // True of every Apple GPU so far (Metal feature set tables); kernels are written for it.
    assert_eq!(info.simd_width, 32);
    assert!(info.max_threadgroup_memory >= 32 * 1024, "{info:?}");
    assert!(info.page_bytes.is_power_of_two() && info.page_bytes >= 4096);
    let twice = pipeline(device, "twice", &[]).unwrap();
    assert_eq!(twice.kernel(), "twice");
    assert!(twice.max_threads_per_threadgroup() <= info.max_threads_per_threadgroup);
}

fn an_operation_of_the_backend_runs<D: Device>(device: &D) {
    let width = 257;
    let values = |factor: f32| -> Vec<f32> { (0..width).map(|i| factor * i as f32).collect() };
    let [a, b] = [("a", 1.0), ("b", 0.5)].map(|(label, by)| floats(device, label, &values(by)));
    let y = device.buffer(4 * width, "y").unwrap();
    let row = |buffer| Rows {
        buffer,
        offset: 0,
        width,
        stride: width,
        rows: 1,
    };
    let commands = device.command_buffer("add").unwrap();
    let mut encoder = TrackedEncoder::new(commands.compute(Order::Concurrent).unwrap());
    let mut encode = Encode {
        device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "add",
    };
    binary(&mut encode, Binary::Add, row(&y), row(&a), row(&b)).unwrap();
    encoder.end().submit(LONG).unwrap();
    assert_eq!(read(&y), values(1.5));
}

fn function_constants_and_copied_values_reach_the_kernel<D: Device>(device: &D) {
    let x = floats(device, "x", &[1.0, 2.0, 4.0]);
    let y = floats(device, "y", &[0.0; 3]);
    let bias = Argument::Bytes {
        index: 2,
        bytes: &0.5f32.to_le_bytes(),
    };
    let [to, from] = to_from(&y, &x);
    let scaled = |constants: &[(u32, ConstantValue)]| {
        let scaled = pipeline(device, "scaled", constants)?;
        device.run(&dispatch(&scaled, &[to, from, bias], 3), LONG)?;
        Ok::<_, DeviceError>(read(&y))
    };
    let (three, negate) = ((0, ConstantValue::U32(3)), (1, ConstantValue::Bool(true)));
    assert_eq!(scaled(&[three]).unwrap(), [3.5, 6.5, 12.5]);
    assert_eq!(scaled(&[three, negate]).unwrap(), [-2.5, -5.5, -11.5]);
    assert!(scaled(&[negate]).is_err(), "`factor` has no value");
    let error = scaled(&[(0, ConstantValue::U16(3))]).unwrap_err();
    assert!(
        matches!(error, DeviceError::Constant { index: 0, .. }),
        "{error}"
    );
}

/// Fast math would assume that neither exists, and multiply by an approximate reciprocal.
fn kernels_are_compiled_without_fast_math<D: Device>(device: &D) {
    let values = [
        3.0,
        0.1,
        49.0,
        -0.0,
        f32::NEG_INFINITY,
        f32::INFINITY,
        f32::NAN,
    ];
    let x = floats(device, "x", &values);
    let y = floats(device, "y", &[0.0; 21]);
    let strict = pipeline(device, "strict", &[]).unwrap();
    let work = to_from(&y, &x);
    device.run(&dispatch(&strict, &work, 7), LONG).unwrap();
    let expected = values.map(|x| [1.0 / x, x.max(f32::NEG_INFINITY), f32::from(!x.is_nan())]);
    let bits = |values: &[f32]| -> Vec<Option<u32>> {
        let number = |value: &f32| (!value.is_nan()).then_some(value.to_bits());
        values.iter().map(number).collect()
    };
    assert_eq!(bits(&read(&y)), bits(expected.as_flattened()));
}

fn errors_name_what_is_wrong<D: Device>(device: &D) {
    let error = pipeline(device, "missing", &[]).err().unwrap().to_string();
    assert_eq!(error, "library `test.metal` has no kernel `missing`");
    let file = SourceFile {
        name: "wrong.metal",
        text: "#include <metal_stdlib>\nkernel void k(device float* y [[buffer(0)]]) {\n    y[0] = missing;\n}\n",
    };
    let source = LibrarySource::new(file, &[]).unwrap();
    let error = device.library(&source).err().unwrap().to_string();
    assert!(
        error.starts_with("library `wrong.metal` does not compile: "),
        "{error}"
    );
    let word = "use of undeclared identifier 'missing'";
    assert!(error.contains(word), "{error}");
    assert!(error.contains("wrong.metal:3"), "{error}");
}

fn threadgroup_memory_has_the_length_that_a_dispatch_gives<D: Device>(device: &D) {
    let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let x = floats(device, "x", &values);
    let y = floats(device, "y", &[0.0; 32]);
    let reversed = pipeline(device, "reversed", &[]).unwrap();
    let [to, from] = to_from(&y, &x);
    let run = |bytes| {
        let memory = Argument::Threadgroup { index: 0, bytes };
        device.run(&dispatch(&reversed, &[to, from, memory], 32), LONG)
    };
    run(128).unwrap();
    let expected: Vec<f32> = values.iter().rev().copied().collect();
    assert_eq!(read(&y), expected);
    let limit = device.info().max_threadgroup_memory;
    let error = run(limit + 16).unwrap_err().to_string();
    let expected = format!(
        "`test`: kernel `reversed`: {} bytes of threadgroup memory, the device has {limit}",
        limit + 16
    );
    assert_eq!(error, expected);
}

fn a_parameter_that_is_not_bound_or_does_not_fit_is_refused<D: Device>(device: &D) {
    let x = floats(device, "x", &[0.0; 4]);
    let y = floats(device, "y", &[0.0; 4]);
    let twice = pipeline(device, "twice", &[]).unwrap();
    let [to, from] = to_from(&y, &x);
    let refused = |arguments: &[_]| {
        let result = device.run(&dispatch(&twice, arguments, 1), LONG);
        result.unwrap_err().to_string()
    };
    assert_eq!(
        refused(&[to]),
        "`test`: kernel `twice`: buffer 1 (`x`) is not set"
    );
    let Argument::Buffer { access, .. } = from else {
        unreachable!("`to_from` gives buffers")
    };
    let misaligned = Argument::Buffer {
        index: 1,
        range: BufferRange {
            buffer: &x,
            offset: 2,
            bytes: 8,
        },
        access,
    };
    assert_eq!(
        refused(&[to, misaligned]),
        "`test`: kernel `twice`: buffer 1 (`x`): offset 2 is no multiple of 4"
    );
}
