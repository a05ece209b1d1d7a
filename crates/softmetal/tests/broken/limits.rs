//! What a device refuses or cuts short.

use std::sync::Arc;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, CommandBuffer, ComputeEncoder, ConstantValue, Device,
    DeviceError, Dispatch, Grid, LibrarySource, Order, Size, SourceFile, StableBytes,
};
use minfer_softmetal::report::Report;
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice};

use crate::case::options;

const SOURCE: SourceFile<'static> = SourceFile {
    name: "limits.metal",
    text: "#include <metal_stdlib>
using namespace metal;
constant uint width [[function_constant(0)]];
constant uint extra [[function_constant(1)]];
constant uint most = width * 2;
constant uint next = most + 1;
constant uint more = is_function_constant_defined(extra) ? extra : 7;
kernel void endless(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i < 2) y[2] = float(i);
    while (y[i] >= 0.0f) y[i] += 1.0f;
}
kernel void constants(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = float(width + 10 * most + 100 * more);
}
kernel void computed(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i] = float(more + next); // fault: `next` comes from `width` by way of `most`
}
kernel void allowed(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[0] = float(i); // softmetal: allow(race-in-threadgroup): any of the values will do
}
kernel void without_reason(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[0] = float(i); // softmetal: allow(race-in-threadgroup):
}
kernel void of_another_kind(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[0] = float(i); // softmetal: allow(race-between-threadgroups): any of the values will do
}
kernel void parted(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i < 16) threadgroup_barrier(mem_flags::mem_device);
    y[i] = 1.0f;
}
kernel void beyond(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    y[i + 16] = 1.0f; // softmetal: allow(out-of-bounds): the buffer is larger elsewhere
}
",
};

struct Bench {
    device: SoftDevice,
    y: SoftBuffer,
    /// Bytes of it that a dispatch declares.
    declared: usize,
}

impl Bench {
    fn new(mode: Mode) -> Self {
        let device = SoftDevice::new(Options { mode, ..options() });
        Bench {
            y: device.buffer(128, "y").unwrap(),
            declared: 128,
            device,
        }
    }

    fn run(
        &self,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
        limit: Duration,
    ) -> Result<f32, DeviceError> {
        let library = self
            .device
            .library(&LibrarySource::new(SOURCE, &[]).unwrap())?;
        let pipeline = self.device.pipeline(&library, kernel, constants)?;
        let dispatch = Dispatch {
            label: kernel,
            pipeline: &pipeline,
            arguments: &[Argument::Buffer {
                index: 0,
                range: BufferRange {
                    bytes: self.declared,
                    ..BufferRange::whole(&self.y)
                },
                access: Access::Write,
            }],
            grid: Grid::Threads(Size::linear(32)),
            threadgroup: Size::linear(32),
        };
        self.device.run(&dispatch, limit)?;
        let mut first = [0; 4];
        self.y.read(0, &mut first)?;
        Ok(f32::from_le_bytes(first))
    }
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_kernel_without_an_end_is_cut_off() {
    let bench = Bench::new(Mode::Checked);
    let limit = Duration::from_millis(50);
    let error = bench.run("endless", &[], limit).unwrap_err();
    let expected =
        "command buffer `endless` did not complete within 50ms; last dispatches: endless";
    assert_eq!(error.to_string(), expected);
    let race =
        "error: race within a threadgroup: device memory `y` (parameter `y`) + 8 at limits.metal:9";
    assert_eq!(bench.device.take_reports()[0].headline(), race);
}

#[test]
fn a_buffer_that_goes_on_does_not_extend_the_range_that_a_dispatch_declares() {
    let mut bench = Bench::new(Mode::Checked);
    bench.declared = 124;
    assert!(
        bench
            .run("constants", &[(0, ConstantValue::U32(1))], LONG)
            .is_err()
    );
    let report = &bench.device.take_reports()[0];
    let expected =
        "error: access out of bounds: device memory `y` (parameter `y`) + 124 at limits.metal:13";
    assert_eq!(report.headline(), expected);
    assert_eq!(
        report.detail,
        "the dispatch declares 124 bytes at offset 0 of a buffer of 128"
    );
}

#[test]
fn function_constants_have_their_values_or_are_missed() {
    let (width, extra) = ((0, ConstantValue::U32(3)), (1, ConstantValue::U32(5)));
    for mode in [Mode::Checked, Mode::Unchecked] {
        let bench = Bench::new(mode);
        let run = |constants: &[_]| bench.run("constants", constants, LONG).unwrap();
        assert_eq!(run(&[width]), 763.0);
        assert_eq!(run(&[width, extra]), 563.0);
    }
    let bench = Bench::new(Mode::Checked);
    assert!(bench.run("constants", &[], LONG).is_err());
    let reports: Vec<_> = bench
        .device
        .take_reports()
        .iter()
        .map(Report::headline)
        .collect();
    assert_eq!(
        reports,
        ["error: function constant without a value at limits.metal:13"]
    );
    bench.run("computed", &[width], LONG).unwrap();
    assert!(bench.run("computed", &[], LONG).is_err());
    let report = &bench.device.take_reports()[0];
    assert_eq!(
        report.headline(),
        "error: function constant without a value at limits.metal:16"
    );
    assert_eq!(report.detail, "`next` has no value");
    let refused = |constant| {
        bench
            .run("constants", &[constant], LONG)
            .unwrap_err()
            .to_string()
    };
    let of = "kernel `constants`, function constant";
    assert_eq!(
        refused((2, ConstantValue::U32(1))),
        format!("{of} 2: the library has no such constant")
    );
    assert_eq!(
        refused((0, ConstantValue::U16(1))),
        format!("{of} 0: the value has 2 bytes, the constant 4")
    );
    let error = bench.run("missing", &[], LONG).unwrap_err().to_string();
    assert_eq!(error, "library `limits.metal` has no kernel `missing`");
}

#[test]
fn a_fault_is_allowed_by_its_name_and_a_reason() {
    let bench = Bench::new(Mode::Checked);
    bench.run("allowed", &[], LONG).unwrap();
    assert_eq!(bench.device.take_reports(), []);
    // The last is a fault after which its thread did not go on.
    for kernel in ["without_reason", "of_another_kind", "beyond"] {
        bench.run(kernel, &[], LONG).unwrap_err();
        assert_eq!(bench.device.take_reports().len(), 1, "{kernel}");
    }
}

#[test]
fn threads_that_do_not_meet_fail_without_checks_too() {
    let error = Bench::new(Mode::Unchecked)
        .run("parted", &[], LONG)
        .unwrap_err();
    let expected = "command buffer `parted` failed: divergent barrier at limits.metal:28: run it with checks; \
                    last dispatches: parted";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn sizes_that_no_device_has_are_refused() {
    let bench = Bench::new(Mode::Unchecked);
    let source = LibrarySource::new(SOURCE, &[]).unwrap();
    let library = bench.device.library(&source).unwrap();
    let pipeline = bench.device.pipeline(&library, "parted", &[]).unwrap();
    let refused = |buffer: &SoftBuffer, memory: &[(u32, usize)], grid: [u32; 3]| {
        let mut arguments = vec![Argument::Buffer {
            index: 0,
            range: BufferRange::whole(buffer),
            access: Access::Write,
        }];
        let memory = memory.iter();
        arguments.extend(memory.map(|&(index, bytes)| Argument::Threadgroup { index, bytes }));
        let commands = bench.device.command_buffer("sizes").unwrap();
        let mut encoder = commands.compute(Order::Serial).unwrap();
        let dispatch = Dispatch {
            label: "sizes",
            pipeline: &pipeline,
            arguments: &arguments,
            grid: Grid::Threadgroups(Size(grid)),
            threadgroup: Size::linear(32),
        };
        encoder
            .dispatch(&dispatch)
            .map_err(|error| error.to_string())
    };
    let one = [1; 3];
    assert_eq!(refused(&bench.y, &[], one), Ok(()));
    // The product of these extents is 2^64.
    let error = refused(&bench.y, &[], [1 << 22, 1 << 21, 1 << 21]).unwrap_err();
    assert!(error.contains("2^32 threads or more"), "{error}");
    let error = refused(&bench.y, &[(u32::MAX, 16)], one).unwrap_err();
    assert!(error.contains("the highest index is 30"), "{error}");
    let half = 1 << (usize::BITS - 1);
    let error = refused(&bench.y, &[(0, half), (1, half)], one).unwrap_err();
    assert!(error.contains("bytes of threadgroup memory"), "{error}");
    let other = SoftDevice::new(options()).buffer(128, "y").unwrap();
    let error = refused(&other, &[], one).unwrap_err();
    assert!(error.contains("belongs to another device"), "{error}");
}

#[test]
fn a_library_is_for_devices_of_its_build() {
    let build = |mode| Bench::new(mode).device;
    let source = LibrarySource::new(SOURCE, &[]).unwrap();
    let [checked, unchecked] = [Mode::Checked, Mode::Unchecked].map(build);
    let free = build(Mode::CheckedFreeRunning);
    let with = checked.library(&source).unwrap();
    let without = unchecked.library(&source).unwrap();
    assert!(free.pipeline(&with, "parted", &[]).is_ok());
    let refused = |device: &SoftDevice, library| {
        let error = device.pipeline(library, "parted", &[]).err().unwrap();
        error.to_string()
    };
    let of = "library `limits.metal` cannot be used here: it was compiled";
    assert_eq!(
        refused(&checked, &without),
        format!("{of} without checks, and this device checks")
    );
    assert_eq!(
        refused(&unchecked, &with),
        format!("{of} with checks, and this device does not check")
    );
}

#[test]
fn names_beyond_ascii_are_names() {
    // The second letter is an `a` with a separate accent.
    let text = "#include <metal_stdlib>\nkernel void größe(device float* äa\u{301} [[buffer(0)]]) { äa\u{301}[0] = 1.0f; }\n";
    let name = "names.metal";
    let source = LibrarySource::new(SourceFile { name, text }, &[]).unwrap();
    let device = SoftDevice::new(options());
    let library = device.library(&source).unwrap();
    assert_eq!(library.kernels().collect::<Vec<_>>(), ["größe"]);
    let pipeline = device.pipeline(&library, "größe", &[]).unwrap();
    let dispatch = Dispatch {
        label: "names",
        pipeline: &pipeline,
        arguments: &[],
        grid: Grid::Threads(Size::linear(1)),
        threadgroup: Size::linear(1),
    };
    let error = device.run(&dispatch, LONG).unwrap_err().to_string();
    assert!(
        error.ends_with("buffer 0 (`äa\u{301}`) is not set"),
        "{error}"
    );
}

#[test]
fn the_longest_limit_is_one() {
    let bench = Bench::new(Mode::Checked);
    let width = (0, ConstantValue::U32(3));
    assert_eq!(
        bench.run("constants", &[width], Duration::MAX).unwrap(),
        763.0
    );
}

#[test]
fn compiler_messages_name_the_source() {
    let text = "#include <metal_stdlib>\nkernel void k(device float* y [[buffer(0)]]) {\n    y[0] = missing;\n}\n";
    let file = SourceFile {
        name: "wrong.metal",
        text,
    };
    let device = SoftDevice::new(options());
    let error = device
        .library(&LibrarySource::new(file, &[]).unwrap())
        .err()
        .unwrap()
        .to_string();
    let expected = "library `wrong.metal` does not compile: wrong.metal:3:12: error: use of undeclared identifier 'missing'";
    assert!(error.starts_with(expected), "{error}");
}

/// Memory that starts and ends on 16 KiB pages, or one byte later.
struct Pages {
    memory: Vec<u8>,
    beyond: usize,
}

const PAGE: usize = 16 * 1024;

// SAFETY: a vector that is not changed stays where it is.
unsafe impl StableBytes for Pages {
    fn bytes(&self) -> &[u8] {
        let start = self.memory.as_ptr().align_offset(PAGE) + self.beyond;
        &self.memory[start..][..PAGE]
    }
}

#[test]
fn memory_is_shared_without_a_copy_where_pages_allow() {
    let device = SoftDevice::new(options());
    let pages = |beyond| {
        let memory = (0..3 * PAGE).map(|at| (at % 251) as u8).collect();
        Arc::new(Pages { memory, beyond })
    };
    let aligned = pages(0);
    let buffer = device.wrap(aligned.clone(), "part").unwrap();
    let mut read = [0; 8];
    buffer.read(PAGE - 8, &mut read).unwrap();
    assert_eq!(read, aligned.bytes()[PAGE - 8..]);
    let error = buffer.write(0, &[1]).unwrap_err().to_string();
    assert_eq!(error, "buffer `part` wraps memory that may only be read");
    let error = device.wrap(pages(1), "part").err().unwrap();
    assert!(
        matches!(
            error,
            DeviceError::Unaligned {
                length: PAGE,
                page: PAGE,
                ..
            }
        ),
        "{error}"
    );
}
