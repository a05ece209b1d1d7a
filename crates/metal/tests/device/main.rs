//! What every device does: memory, kernels, errors, order. The software device runs these tests on Linux, the Apple
//! device on a Mac; elsewhere those of the latter are only type-checked.
//!
//! On Apple's systems the tests pass without a check where there is no GPU of the family Apple7, as on virtual
//! machines; `MINFER_REQUIRE_MPS=1` makes that a failure.

#![cfg(any(target_vendor = "apple", target_os = "linux"))]

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
mod apple;
mod kernels;
#[cfg(any(target_vendor = "apple", minfer_check_apple))]
#[path = "../mac/mod.rs"]
mod mac;
mod memory;
mod order;

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, ConstantValue, Device, DeviceError, Dispatch, Grid,
    LibrarySource, Size, SourceFile,
};

/// Longer than any work here takes.
const LONG: Duration = Duration::from_secs(10);

const SOURCE: SourceFile<'static> = SourceFile {
    name: "test.metal",
    text: "#include <metal_stdlib>
using namespace metal;
constant uint factor [[function_constant(0)]];
constant bool negate [[function_constant(1)]];
constant bool negates = is_function_constant_defined(negate) && negate;

kernel void twice(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
    y[i] = 2.0f * x[i];
}
kernel void scaled(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],
                   constant float& bias [[buffer(2)]], uint i [[thread_position_in_grid]]) {
    y[i] = (negates ? -1.0f : 1.0f) * float(factor) * x[i] + bias;
}
kernel void reversed(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],
                     threadgroup float* shared [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]],
                     uint count [[threads_per_threadgroup]]) {
    shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[count - 1 - i];
}
// 1 / x exactly rounded, the larger of x and -inf, and whether x is a number.
kernel void strict(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],
                   uint i [[thread_position_in_grid]]) {
    y[3 * i] = 1.0f / x[i];
    y[3 * i + 1] = x[i] > -INFINITY ? x[i] : -INFINITY;
    y[3 * i + 2] = x[i] == x[i] ? 1.0f : 0.0f;
}
// A chain of 2^24 dependent steps: milliseconds on any GPU, and it ends.
kernel void slow(device uint* y [[buffer(0)]]) {
    uint state = 1;
    for (uint step = 0; step < (1u << 24); ++step) {
        state = state * 1664525u + 1013904223u;
    }
    y[0] = state;
}
",
};

/// A device that tests run on.
trait Tested: Device {
    /// The device, if there is one.
    fn open() -> Option<Self>;
}

#[cfg(all(target_os = "linux", not(minfer_check_apple)))]
impl Tested for minfer_softmetal::SoftDevice {
    fn open() -> Option<Self> {
        use minfer_softmetal::{Options, SoftDevice};
        Some(SoftDevice::new(Options {
            cache: Some(concat!(env!("CARGO_TARGET_TMPDIR"), "/softmetal").into()),
            ..Options::default()
        }))
    }
}

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
impl Tested for minfer_metal::device::apple::AppleDevice {
    fn open() -> Option<Self> {
        mac::device()
    }
}

/// Makes each function, which takes a device, a test of every device there is.
macro_rules! on_every_device {
    ($($test:ident),* $(,)?) => {
        #[cfg(all(target_os = "linux", not(minfer_check_apple)))]
        mod software {
            use crate::Tested;
            $(#[test]
            fn $test() {
                super::$test(&minfer_softmetal::SoftDevice::open().unwrap());
            })*
        }

        #[cfg(any(target_vendor = "apple", minfer_check_apple))]
        mod apple {
            use crate::Tested;
            $(#[test]
            fn $test() {
                if let Some(device) = minfer_metal::device::apple::AppleDevice::open() {
                    super::$test(&device);
                }
            })*
        }
    };
}
use on_every_device;

fn pipeline<D: Device>(
    device: &D,
    kernel: &str,
    constants: &[(u32, ConstantValue)],
) -> Result<D::Pipeline, DeviceError> {
    let source = LibrarySource::new(SOURCE, &[]).unwrap();
    device.pipeline(&device.library(&source)?, kernel, constants)
}

/// A buffer of numbers.
fn floats<D: Device>(device: &D, label: &str, values: &[f32]) -> D::Buffer {
    let buffer = device.buffer(4 * values.len(), label).unwrap();
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    buffer.write(0, &bytes).unwrap();
    buffer
}

fn read(buffer: &impl Buffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.read(0, &mut bytes).unwrap();
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

/// Binds `y` to be written and `x` to be read.
fn to_from<'a, B: Buffer>(y: &'a B, x: &'a B) -> [Argument<'a, B>; 2] {
    let argument = |index, buffer, access| Argument::Buffer {
        index,
        range: BufferRange::whole(buffer),
        access,
    };
    [argument(0, y, Access::Write), argument(1, x, Access::Read)]
}

/// One thread per element, up to 32 threads per threadgroup.
fn dispatch<'a, D: Device>(
    pipeline: &'a D::Pipeline,
    arguments: &'a [Argument<'a, D::Buffer>],
    threads: u32,
) -> Dispatch<'a, D> {
    Dispatch {
        label: "test",
        pipeline,
        arguments,
        grid: Grid::Threads(Size::linear(threads)),
        threadgroup: Size::linear(threads.min(32)),
    }
}
