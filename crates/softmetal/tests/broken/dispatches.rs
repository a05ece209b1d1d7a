//! Faults of the host's side: missing barriers between dispatches, and bindings that do not fit.

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, BlitEncoder, Buffer, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder,
    Device, DeviceError, Dispatch, Grid, LibrarySource, Order, Size, SourceFile,
};
use minfer_metal::hazard::TrackedEncoder;
use minfer_softmetal::{SoftBuffer, SoftDevice, SoftPipeline, Submissions};

use serde_json::json;

use crate::case::device;

const SOURCE: SourceFile<'static> = SourceFile {
    name: "copy.metal",
    text: "#include <metal_stdlib>
kernel void copy(device float* to [[buffer(0)]],
                 device const float* from [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
    to[i] = from[i] + 1.0f;
}
kernel void shared(device float4& to [[buffer(0)]],
                   threadgroup float* scratch [[threadgroup(0)]],
                   uint i [[thread_index_in_threadgroup]]) {
    scratch[i] = float(i);
    to.x = 1.0f;
}
",
};

const FLOATS: usize = 32;

/// A device with a kernel and three buffers.
struct Bench {
    device: SoftDevice,
    copy: SoftPipeline,
    buffers: [SoftBuffer; 3],
}

impl Bench {
    fn new() -> Self {
        let device = device();
        let source = LibrarySource::new(SOURCE, &[]).unwrap();
        let library = device.library(&source).unwrap();
        let buffer = |name| device.buffer(4 * FLOATS, name).unwrap();
        Bench {
            copy: device.pipeline(&library, "copy", &[]).unwrap(),
            buffers: ["a", "b", "c"].map(buffer),
            device,
        }
    }

    /// Runs copies `(from, to)` in a concurrent encoder, with barriers before some; the headlines.
    fn run(&self, copies: &[(usize, usize, bool)]) -> Vec<String> {
        let commands = self.device.command_buffer("copies").unwrap();
        let mut encoder = commands.compute(Order::Concurrent).unwrap();
        for &(from, to, barrier) in copies {
            if barrier {
                encoder.barrier();
            }
            self.with_dispatch(from, to, |dispatch| encoder.dispatch(dispatch).unwrap());
        }
        let completed = encoder.end().submit(Duration::from_secs(60)).is_ok();
        let reports = self.device.take_reports();
        assert_eq!(completed, reports.is_empty());
        reports
            .iter()
            .map(minfer_softmetal::report::Report::headline)
            .collect()
    }

    fn with_dispatch<R>(
        &self,
        from: usize,
        to: usize,
        then: impl FnOnce(&Dispatch<'_, SoftDevice>) -> R,
    ) -> R {
        let arguments = [
            Argument::Buffer {
                index: 0,
                range: BufferRange::whole(&self.buffers[to]),
                access: Access::Write,
            },
            Argument::Buffer {
                index: 1,
                range: BufferRange::whole(&self.buffers[from]),
                access: Access::Read,
            },
        ];
        then(&Dispatch {
            label: &format!("{from} to {to}"),
            pipeline: &self.copy,
            arguments: &arguments,
            grid: Grid::Threads(Size::linear(FLOATS as u32)),
            threadgroup: Size::linear(32),
        })
    }

    fn floats(&self, buffer: usize) -> Vec<f32> {
        let mut bytes = vec![0; 4 * FLOATS];
        self.buffers[buffer].read(0, &mut bytes).unwrap();
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect()
    }
}

#[test]
fn dispatches_that_touch_the_same_bytes_need_a_barrier() {
    let bench = Bench::new();
    let line = "error: commands that nothing orders: device memory";
    let cases = [
        (
            "a read after a write",
            [(0, 1), (1, 2)],
            format!("{line} `b` (parameter `from`) + 0 at copy.metal:5"),
        ),
        (
            "a write after a read",
            [(0, 1), (2, 0)],
            format!("{line} `a` (parameter `to`) + 0 at copy.metal:5"),
        ),
        (
            "a write after a write",
            [(0, 1), (2, 1)],
            format!("{line} `b` (parameter `to`) + 0 at copy.metal:5"),
        ),
    ];
    for (what, [first, second], expected) in cases {
        let run = |barrier| bench.run(&[(first.0, first.1, false), (second.0, second.1, barrier)]);
        assert_eq!(run(false), [expected], "{what}");
        assert_eq!(run(true), [""; 0], "{what}, with a barrier");
    }
    assert_eq!(
        bench.run(&[(0, 1, false), (0, 2, false)]),
        [""; 0],
        "two reads"
    );
}

#[test]
fn a_hazard_names_both_dispatches() {
    let bench = Bench::new();
    let commands = bench.device.command_buffer("copies").unwrap();
    let mut encoder = commands.compute(Order::Concurrent).unwrap();
    bench.with_dispatch(0, 1, |dispatch| encoder.dispatch(dispatch).unwrap());
    bench.with_dispatch(1, 2, |dispatch| encoder.dispatch(dispatch).unwrap());
    let error = encoder.end().submit(Duration::from_secs(60)).unwrap_err();
    assert!(matches!(error, DeviceError::Failed { recent, .. } if recent == ["0 to 1", "1 to 2"]));
    let expected = "\
error: commands that nothing orders: device memory `b` (parameter `from`) + 0
  an encoder's barrier must stand between them
  read of 4 bytes by thread (0, 0, 0) of threadgroup (0, 0, 0), simdgroup 0 lane 0
    --> copy.metal:5:13
    5 |     to[i] = from[i] + 1.0f;
      |             ^
  conflicts with the earlier
  write of 4 bytes by thread (0, 0, 0) of threadgroup (0, 0, 0), simdgroup 0 lane 0 of dispatch `0 to 1`
    --> copy.metal:5:11
    5 |     to[i] = from[i] + 1.0f;
      |           ^
  in kernel `copy`, dispatch `1 to 2`";
    assert_eq!(bench.device.take_reports()[0].to_string(), expected);
}

#[test]
fn tracked_encoders_place_the_barriers_that_are_needed() {
    let bench = Bench::new();
    let commands = bench.device.command_buffer("copies").unwrap();
    let mut encoder = TrackedEncoder::new(commands.compute(Order::Concurrent).unwrap());
    // 0 to 1 and 0 to 2 may run together; 1 to 0 waits for both.
    for (from, to) in [(0, 1), (0, 2), (1, 0), (0, 2)] {
        bench.with_dispatch(from, to, |dispatch| encoder.dispatch(dispatch).unwrap());
    }
    assert_eq!(encoder.barriers(), 2);
    encoder.end().submit(Duration::from_secs(60)).unwrap();
    assert_eq!(bench.device.take_reports(), []);
    assert_eq!(bench.floats(0), [2.0; FLOATS]);
    assert_eq!(bench.floats(2), [3.0; FLOATS]);
}

#[test]
fn blits_run_in_order_with_dispatches() {
    let bench = Bench::new();
    let [a, b, _] = &bench.buffers;
    let commands = bench.device.command_buffer("blits").unwrap();
    let mut blit = commands.blit().unwrap();
    blit.fill(BufferRange::whole(b), 0).unwrap();
    let mut encoder = blit.end().compute(Order::Concurrent).unwrap();
    bench.with_dispatch(0, 1, |dispatch| encoder.dispatch(dispatch).unwrap());
    let half = BufferRange {
        bytes: 2 * FLOATS,
        ..BufferRange::whole(b)
    };
    let copy = BufferCopy {
        from: half,
        to: a,
        to_offset: 2 * FLOATS,
    };
    let mut blit = encoder.end().blit().unwrap();
    blit.copy(copy).unwrap();
    let mut refused = |to_offset| {
        let copy = BufferCopy {
            to: b,
            to_offset,
            ..copy
        };
        blit.copy(copy).unwrap_err().to_string()
    };
    assert_eq!(refused(4), "`copy within b`: 64 bytes at 0 and 4 overlap");
    assert_eq!(
        refused(62),
        "`copy or fill of b`: 64 bytes at 62: both must be multiples of 4"
    );
    blit.end().submit(Duration::from_secs(60)).unwrap();
    assert_eq!(
        bench.floats(0),
        [[0.0; FLOATS / 2], [1.0; FLOATS / 2]].concat()
    );
}

#[test]
fn bindings_that_do_not_fit_are_refused_with_their_values() {
    let bench = Bench::new();
    let source = LibrarySource::new(SOURCE, &[]).unwrap();
    let library = bench.device.library(&source).unwrap();
    let shared = bench.device.pipeline(&library, "shared", &[]).unwrap();
    let to = |offset, bytes| Argument::Buffer {
        index: 0,
        range: BufferRange {
            buffer: &bench.buffers[0],
            offset,
            bytes,
        },
        access: Access::Write,
    };
    let scratch = |bytes| Argument::Threadgroup { index: 0, bytes };
    let refused = |arguments: &[Argument<'_, SoftBuffer>], threads| {
        let commands = bench.device.command_buffer("refused").unwrap();
        let dispatch = Dispatch {
            label: "node",
            pipeline: &shared,
            arguments,
            grid: Grid::Threadgroups(Size::linear(1)),
            threadgroup: Size::linear(threads),
        };
        let result = commands.compute(Order::Serial).unwrap().dispatch(&dispatch);
        result.map_or_else(|error| error.to_string(), |()| String::new())
    };
    let cases = [
        (vec![to(0, 16), scratch(4096)], 32, ""),
        (
            vec![to(0, 16), scratch(4096)],
            1025,
            "1025 threads in a threadgroup [1025, 1, 1], 1 to 1024 are possible",
        ),
        (
            vec![to(0, 16), scratch(40_000)],
            32,
            "40000 bytes of threadgroup memory, the device has 32768",
        ),
        (
            vec![to(0, 16)],
            32,
            "threadgroup memory 0 (`scratch`) is not set",
        ),
        (vec![scratch(4096)], 32, "buffer 0 (`to`) is not set"),
        (
            vec![to(0, 12), scratch(4096)],
            32,
            "buffer 0 (`to`) has 12 bytes, its type 16",
        ),
        (
            vec![to(4, 16), scratch(4096)],
            32,
            "buffer 0 (`to`): offset 4 is no multiple of 16",
        ),
        (
            vec![to(0, 16), to(0, 16), scratch(16)],
            32,
            "buffer 0 is set twice",
        ),
    ];
    for (arguments, threads, expected) in cases {
        let expected = match expected {
            "" => String::new(),
            message => format!("`node`: kernel `shared`: {message}"),
        };
        assert_eq!(refused(&arguments, threads), expected);
    }
    let outside = "buffer `a` of 128 bytes has no range of 16 bytes at 120";
    assert_eq!(refused(&[to(120, 16), scratch(16)], 32), outside);
}

#[test]
fn a_pool_that_gives_a_buffer_out_again_must_write_it_before_it_reads() {
    let bench = Bench::new();
    let stale = "error: read of a buffer without contents: device memory `a` (parameter `from`)";
    let range = BufferRange {
        buffer: &bench.buffers[0],
        offset: 64,
        bytes: 32,
    };
    let run = || bench.run(&[(0, 1, false)]);
    bench.device.discard(range).unwrap();
    assert_eq!(run(), [format!("{stale} + 64 at copy.metal:5")]);
    assert_eq!(
        run(),
        [format!("{stale} + 64 at copy.metal:5")],
        "a read gives no contents"
    );
    bench.buffers[0].write(64, &[0; 28]).unwrap();
    assert_eq!(run(), [format!("{stale} + 92 at copy.metal:5")]);
    let written = bench.run(&[(2, 0, false), (0, 1, true)]);
    assert_eq!(written, [""; 0], "a kernel has written it");
    bench.device.discard(range).unwrap();
    let commands = bench.device.command_buffer("fill").unwrap();
    let mut blit = commands.blit().unwrap();
    blit.fill(range, 0).unwrap();
    blit.end().submit(Duration::from_secs(60)).unwrap();
    assert_eq!(run(), [""; 0], "a fill has written it");
}

#[test]
fn reports_and_statistics_are_data() {
    let bench = Bench::new();
    let commands = bench.device.command_buffer("copies").unwrap();
    let mut encoder = commands.compute(Order::Concurrent).unwrap();
    bench.with_dispatch(0, 1, |dispatch| encoder.dispatch(dispatch).unwrap());
    bench.with_dispatch(1, 2, |dispatch| encoder.dispatch(dispatch).unwrap());
    assert!(encoder.end().submit(Duration::from_secs(60)).is_err());
    let access = |action: &str, dispatch: Option<&str>, column: u32| {
        json!({
            "action": action, "dispatch": dispatch,
            "place": {"file": "copy.metal", "line": 5, "column": column}, "line": "    to[i] = from[i] + 1.0f;",
            "thread": [0, 0, 0], "simdgroup": 0, "lane": 0, "threadgroup": [0, 0, 0],
        })
    };
    let expected = json!([{
        "severity": "error", "kind": "missing-hazard", "kernel": "copy", "dispatch": "1 to 2",
        "now": access("read of 4 bytes", None, 13),
        "before": access("write of 4 bytes", Some("0 to 1"), 11),
        "memory": {"space": "device", "name": "b", "parameter": "from", "offset": 0},
        "detail": "an encoder's barrier must stand between them", "count": 1,
    }]);
    assert_eq!(
        serde_json::to_value(bench.device.take_reports()).unwrap(),
        expected
    );
    // Two dispatches over 128 bytes each: a simdgroup reads and writes two segments.
    let expected = json!([{
        "kernel": "copy", "dispatches": 2, "distinct_bytes_read": 256, "distinct_bytes_written": 256,
        "bytes_read": 256, "bytes_written": 256, "segments": 8, "threadgroup_barriers": 0,
        "simdgroup_barriers": 0, "simd_operations": 0, "matrix_operations": 0,
    }]);
    assert_eq!(
        serde_json::to_value(bench.device.statistics()).unwrap(),
        expected
    );
}

#[test]
fn waiting_is_counted_once_for_the_work_that_waits() {
    let bench = Bench::new();
    let submissions = || {
        let statistics = bench.device.take_statistics();
        let Submissions {
            command_buffers,
            dispatches,
            copies,
            barriers,
        } = statistics.submissions;
        [command_buffers, dispatches, copies, barriers]
    };
    // A barrier at the start has nothing to wait for.
    bench.run(&[(0, 1, true), (0, 2, false), (1, 0, true), (0, 2, true)]);
    assert_eq!(submissions(), [1, 4, 0, 2]);
    let commands = bench.device.command_buffer("both").unwrap();
    let mut encoder = commands.compute(Order::Serial).unwrap();
    for _ in 0..3 {
        bench.with_dispatch(0, 1, |dispatch| encoder.dispatch(dispatch).unwrap());
    }
    encoder.barrier();
    let mut blit = encoder.end().blit().unwrap();
    blit.fill(BufferRange::whole(&bench.buffers[2]), 0).unwrap();
    blit.end().submit(Duration::from_secs(60)).unwrap();
    assert_eq!(submissions(), [1, 3, 1, 3]);
    assert_eq!(submissions(), [0; 4]);
}

#[test]
fn signatures_that_metal_refuses_are_refused() {
    let cases = [
        (
            "device float* y [[buffer(31)]]",
            "parameter `y`: index 31 is more than 30",
        ),
        (
            "device float* y [[buffer(1)]], device float* z [[buffer(1)]]",
            "parameter `z`: `y` has the same attribute",
        ),
        (
            "uint2 a [[thread_position_in_grid]], uint3 b [[threads_per_grid]]",
            "parameter `b`: positions and extents need the same number of components",
        ),
        (
            "uint2 a [[thread_index_in_simdgroup]]",
            "parameter `a`: this attribute needs a scalar",
        ),
    ];
    for (parameters, expected) in cases {
        let text = format!("#include <metal_stdlib>\nkernel void k({parameters}) {{}}\n");
        let file = SourceFile {
            name: "signature.metal",
            text: &text,
        };
        let error = device()
            .library(&LibrarySource::new(file, &[]).unwrap())
            .err()
            .unwrap();
        let expected =
            format!("library `signature.metal` does not compile: kernel `k`, {expected}");
        assert_eq!(error.to_string(), expected);
    }
}
