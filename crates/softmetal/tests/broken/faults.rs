//! What would end or hold up the process: the processor's faults, and kernels without an end.

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, DeviceError, Dispatch, Grid, LibrarySource,
    Size, SourceFile,
};
use minfer_softmetal::{Mode, Options, SoftDevice};

use crate::case::options;

const SOURCE: SourceFile<'static> = SourceFile {
    name: "faults.metal",
    text: "#include <metal_stdlib>
using namespace metal;
kernel void stands_still(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    while (true) {}
}
kernel void never_arrives(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    float n = float(i);
    while (n >= 0.0f) n = exp(-n);
    y[i] = n;
}
kernel void waits_for_a_flag(device atomic_uint* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    while (atomic_load_explicit(&y[0], memory_order_relaxed) == 0u) {}
}
kernel void far_away(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i + (1u << 20)] = 1.0f;
}
struct Row { float elements[256]; };
kernel void copies_from_far_away(device Row* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i + (1u << 16)] = y[i + (1u << 17)];
}
kernel void overflows(device int* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = (y[i] - 2147483647 - 1) / (int(i) - 1 - 2 * int(i));
}
kernel void divides_by_zero(device int* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = 7 % y[i];
}
int depth(device int* y, int n) {
    int own[64];
    for (int j = 0; j < 64; j++) own[j] = y[(j + n) % 32]; return n < 0 ? 0 : own[n % 64] + depth(y, n + 1) * own[(n + 1) % 64];
}
kernel void recurses(device int* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = depth(y, int(i));
}
kernel void meets(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = simd_sum(1.0f);
}
",
};

fn run(device: &SoftDevice, kernel: &str, limit: Duration) -> Result<Vec<u8>, DeviceError> {
    let source = LibrarySource::new(SOURCE, &[]).unwrap();
    let pipeline = device.pipeline(&device.library(&source)?, kernel, &[])?;
    let y = device.buffer(128, "y")?;
    let dispatch = Dispatch {
        label: kernel,
        pipeline: &pipeline,
        arguments: &[Argument::Buffer {
            index: 0,
            range: BufferRange::whole(&y),
            access: Access::Write,
        }],
        grid: Grid::Threads(Size::linear(32)),
        threadgroup: Size::linear(32),
    };
    device.run(&dispatch, limit)?;
    let mut bytes = vec![0; 128];
    y.read(0, &mut bytes)?;
    Ok(bytes)
}

/// The device goes on working after whatever happened to it.
fn still_works(device: &SoftDevice) -> bool {
    let sums: Vec<u8> = [32.0f32; 32]
        .iter()
        .flat_map(|sum| sum.to_le_bytes())
        .collect();
    run(device, "meets", Duration::from_secs(60)).unwrap() == sums
}

fn device(mode: Mode) -> SoftDevice {
    SoftDevice::new(Options { mode, ..options() })
}

#[test]
fn a_kernel_without_an_end_is_cut_off_in_every_build() {
    for mode in [Mode::Checked, Mode::CheckedFreeRunning, Mode::Unchecked] {
        let device = device(mode);
        for kernel in ["stands_still", "never_arrives", "waits_for_a_flag"] {
            let error = run(&device, kernel, Duration::from_millis(30)).unwrap_err();
            assert!(
                matches!(&error, DeviceError::TimedOut { recent, .. } if recent == &[kernel]),
                "{kernel}, {mode:?}: {error}"
            );
            assert!(still_works(&device), "{mode:?}");
        }
        assert_eq!(device.take_reports(), [], "{mode:?}");
    }
}

#[test]
fn without_checks_a_fault_fails_the_dispatch_and_says_where() {
    let device = device(Mode::Unchecked);
    let cases = [
        ("far_away", "access out of bounds at faults.metal:15"),
        ("copies_from_far_away", "access out of bounds"),
        (
            "overflows",
            "overflow of an integer division at faults.metal:22",
        ),
        (
            "divides_by_zero",
            "integer division by zero at faults.metal:25",
        ),
        // The build decides which use of the stack is the first beyond its end, so that all are on one line.
        (
            "recurses",
            "limit of the device exceeded at faults.metal:29",
        ),
    ];
    for (kernel, expected) in cases {
        let error = run(&device, kernel, Duration::from_secs(60)).unwrap_err();
        let expected = format!(
            "command buffer `{kernel}` failed: {expected}: run it with checks; last dispatches: {kernel}"
        );
        assert_eq!(error.to_string(), expected);
        assert!(still_works(&device), "{kernel}");
    }
}

#[test]
fn a_thread_with_too_large_arrays_is_refused_with_its_size() {
    let text = "#include <metal_stdlib>
kernel void large(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    float own[40000];
    for (uint j = 0; j < 40000; j++) own[j] = y[j % 32] + float(j);
    y[i] = own[(i * 977) % 40000] + own[i];
}
";
    let file = SourceFile {
        name: "large.metal",
        text,
    };
    let source = LibrarySource::new(file, &[]).unwrap();
    for mode in [Mode::Checked, Mode::Unchecked] {
        let error = device(mode).library(&source).err().unwrap().to_string();
        let before =
            "library `large.metal` does not compile: large.metal:2:13: error: stack frame size (";
        let (size, after) = error.strip_prefix(before).unwrap().split_once(')').unwrap();
        // The array has 160,000 bytes; the compiler may keep a few elements elsewhere.
        assert!(
            (159_000..164_000).contains(&size.parse().unwrap()),
            "{error}"
        );
        assert!(
            after.starts_with(" exceeds limit (131072) in 'large("),
            "{error}"
        );
    }
}
