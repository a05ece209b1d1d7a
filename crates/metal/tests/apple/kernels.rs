//! Libraries, pipelines and what a dispatch binds.

use minfer_metal::device::{
    Argument, BufferRange, ConstantValue, Device, DeviceError, LibrarySource, Order, Pipeline,
    SourceFile,
};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::elementwise::{Binary, binary};
use minfer_metal::ops::{Encode, Kernels, Rows};
use minfer_metal::{device::CommandBuffer, kernels};

use crate::{LONG, device, dispatch, floats, pipeline, read, to_from};

#[test]
fn the_device_tells_its_limits() {
    let Some(device) = device() else { return };
    let info = device.info();
    assert!(!info.name.is_empty());
    assert!(info.apple_family >= Some(7), "{info:?}");
    // True of every Apple GPU so far (Metal feature set tables); kernels are written for it.
    assert_eq!(info.simd_width, 32);
    assert!(info.max_threadgroup_memory >= 32 * 1024, "{info:?}");
    assert!(info.page_bytes.is_power_of_two() && info.page_bytes >= 4096);
    let twice = pipeline(&device, "twice", &[]).unwrap();
    assert_eq!(twice.kernel(), "twice");
    assert!(twice.max_threads_per_threadgroup() <= info.max_threads_per_threadgroup);
}

#[test]
fn every_kernel_file_compiles() {
    let Some(device) = device() else { return };
    for file in kernels::ALL {
        let library = device.library(&kernels::library(*file).unwrap());
        let library = library.unwrap_or_else(|error| panic!("{error}"));
        assert!(!library.kernels().is_empty(), "{}", file.name);
    }
}

#[test]
fn an_operation_of_the_backend_runs() {
    let Some(device) = device() else { return };
    let width = 257;
    let values = |factor: f32| -> Vec<f32> { (0..width).map(|i| factor * i as f32).collect() };
    let [a, b] = [("a", 1.0), ("b", 0.5)].map(|(label, by)| floats(&device, label, &values(by)));
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
        device: &device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "add",
    };
    binary(&mut encode, Binary::Add, row(&y), row(&a), row(&b)).unwrap();
    encoder.end().submit(LONG).unwrap();
    assert_eq!(read(&y), values(1.5));
}

#[test]
fn function_constants_and_copied_values_reach_the_kernel() {
    let Some(device) = device() else { return };
    let x = floats(&device, "x", &[1.0, 2.0, 4.0]);
    let y = floats(&device, "y", &[0.0; 3]);
    let bias = Argument::Bytes {
        index: 2,
        bytes: &0.5f32.to_le_bytes(),
    };
    let [to, from] = to_from(&y, &x);
    let scaled = |constants: &[(u32, ConstantValue)]| {
        let scaled = pipeline(&device, "scaled", constants)?;
        device.run(&dispatch(&scaled, &[to, from, bias], 3), LONG)?;
        Ok::<_, DeviceError>(read(&y))
    };
    let (three, negate) = ((0, ConstantValue::U32(3)), (1, ConstantValue::Bool(true)));
    assert_eq!(scaled(&[three]).unwrap(), [3.5, 6.5, 12.5]);
    assert_eq!(scaled(&[three, negate]).unwrap(), [-2.5, -5.5, -11.5]);
    for constants in [vec![negate], vec![(0, ConstantValue::F32(3.0))]] {
        let error = scaled(&constants).unwrap_err();
        assert!(
            matches!(error, DeviceError::Constant { index: 0, .. }),
            "{error}"
        );
    }
}

#[test]
fn errors_name_what_is_wrong_in_metals_words() {
    let Some(device) = device() else { return };
    let error = pipeline(&device, "missing", &[]).err().unwrap().to_string();
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
    let error = device.precompiled("none.metallib", b"no library");
    assert!(matches!(error, Err(DeviceError::Compile { .. })));
}

#[test]
fn threadgroup_memory_has_the_length_that_a_dispatch_gives() {
    let Some(device) = device() else { return };
    let values: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let x = floats(&device, "x", &values);
    let y = floats(&device, "y", &[0.0; 32]);
    let reversed = pipeline(&device, "reversed", &[]).unwrap();
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

#[test]
fn a_parameter_that_is_not_bound_or_does_not_fit_is_refused() {
    let Some(device) = device() else { return };
    let x = floats(&device, "x", &[0.0; 4]);
    let y = floats(&device, "y", &[0.0; 4]);
    let twice = pipeline(&device, "twice", &[]).unwrap();
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
