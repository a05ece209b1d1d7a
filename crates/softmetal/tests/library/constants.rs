//! Function constants, and parameters that depend on them.

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, ConstantValue, Device, DeviceError, Dispatch, Grid, Size,
};
use minfer_softmetal::Mode;

use crate::run::{device, library};

const TEXT: &str = "#include <metal_stdlib>
using namespace metal;
constant bool has_bias [[function_constant(0)]];
constant float scale [[function_constant(1)]];
constant float4 weights [[function_constant(2)]];
constant float factor = is_function_constant_defined(scale) ? scale : 2.0f;
constant float4 chosen = is_function_constant_defined(weights) ? weights : float4(1, 2, 3, 4);
kernel void affine(device float* y [[buffer(0)]],
                   device const float* bias [[buffer(1), function_constant(has_bias)]],
                   threadgroup float* memory [[threadgroup(3)]] [[function_constant(has_bias)]],
                   uint i [[thread_position_in_grid]]) {
    float value = factor * chosen.z;
    if (has_bias) {
        memory[i] = bias[i];
        value += memory[i];
    }
    y[i] = value;
}
";

/// What a single thread computes.
fn run(mode: Mode, constants: &[(u32, ConstantValue)], bias: bool) -> Result<f32, DeviceError> {
    let device = device(mode);
    let library = library(&device, "constants.metal", TEXT)?;
    let pipeline = device.pipeline(&library, "affine", constants)?;
    let y = device.buffer(4, "y")?;
    let values = device.buffer(4, "bias")?;
    values.write(0, &0.5f32.to_le_bytes())?;
    let mut arguments = vec![Argument::Buffer {
        index: 0,
        range: BufferRange::whole(&y),
        access: Access::Write,
    }];
    if bias {
        arguments.push(Argument::Buffer {
            index: 1,
            range: BufferRange::whole(&values),
            access: Access::Read,
        });
        arguments.push(Argument::Threadgroup {
            index: 3,
            bytes: 16,
        });
    }
    let dispatch = Dispatch {
        label: "affine",
        pipeline: &pipeline,
        arguments: &arguments,
        grid: Grid::Threads(Size::linear(1)),
        threadgroup: Size::linear(1),
    };
    let completed = device.run(&dispatch, Duration::from_secs(60));
    assert_eq!(device.take_reports(), []);
    completed?;
    let mut bytes = [0; 4];
    y.read(0, &mut bytes)?;
    Ok(f32::from_le_bytes(bytes))
}

#[test]
fn parameters_exist_where_their_constant_says_so() {
    let without = [(0, ConstantValue::Bool(false))];
    let with = [
        (0, ConstantValue::Bool(true)),
        (1, ConstantValue::F32(10.0)),
    ];
    for mode in [Mode::Checked, Mode::Unchecked] {
        assert_eq!(run(mode, &without, false).unwrap(), 6.0);
        assert_eq!(run(mode, &with, true).unwrap(), 30.5);
        let missing = run(mode, &with, false).unwrap_err().to_string();
        assert!(
            missing.contains("buffer 1 (`bias`) is not set"),
            "{missing}"
        );
    }
}

#[test]
fn a_value_that_divides_by_a_constant_of_zero_is_an_error() {
    let text = "#include <metal_stdlib>
using namespace metal;
constant int heads [[function_constant(0)]];
constant int width = 64 / heads;
kernel void k(device int* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = width; }
";
    for mode in [Mode::Checked, Mode::Unchecked] {
        let device = device(mode);
        let library = library(&device, "heads.metal", text).unwrap();
        let pipeline = |heads| device.pipeline(&library, "k", &[(0, ConstantValue::I32(heads))]);
        for _ in 0..2 {
            let error = pipeline(0).err().unwrap().to_string();
            assert!(error.contains("divides by zero"), "{error}");
            assert!(pipeline(4).is_ok());
        }
    }
}
