//! Values that a thread knows about its place.

use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::{Mode, Options, SoftDevice};

const SOURCE: SourceFile<'static> = SourceFile {
    name: "builtins.metal",
    text: "#include <metal_stdlib>
kernel void builtins(device uint* out [[buffer(0)]],
                     uint3 global [[thread_position_in_grid]],
                     uint3 local [[thread_position_in_threadgroup]],
                     uint3 group [[threadgroup_position_in_grid]],
                     uint3 threads [[threads_per_grid]],
                     ushort3 extent [[threads_per_threadgroup]],
                     uint3 groups [[threadgroups_per_grid]],
                     uint3 nominal [[dispatch_threads_per_threadgroup]],
                     uint index [[thread_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint width [[threads_per_simdgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]],
                     uint quad [[quadgroup_index_in_threadgroup]],
                     uint in_quad [[thread_index_in_quadgroup]],
                     uint execution [[thread_execution_width]],
                     uint quads [[quadgroups_per_threadgroup]],
                     ushort nominal_simdgroups [[dispatch_simdgroups_per_threadgroup]],
                     ushort nominal_quads [[dispatch_quadgroups_per_threadgroup]]) {
    device uint* y = out + 32 * (global.x + threads.x * (global.y + threads.y * global.z));
    for (int i = 0; i < 3; i++) {
        y[i] = global[i];
        y[3 + i] = local[i];
        y[6 + i] = group[i];
        y[9 + i] = threads[i];
        y[12 + i] = extent[i];
        y[15 + i] = groups[i];
        y[18 + i] = nominal[i];
    }
    const uint scalars[11] = {index, lane, simdgroup, width, simdgroups, quad, in_quad,
                              execution, quads, nominal_simdgroups, nominal_quads};
    for (int i = 0; i < 11; i++) y[21 + i] = scalars[i];
}
",
};

const THREADS: [u32; 3] = [13, 7, 2];
const THREADGROUP: [u32; 3] = [8, 5, 1];
const GROUPS: [u32; 3] = [2, 2, 2];

/// What the thread at a position should find.
fn expected(global: [u32; 3]) -> Vec<u32> {
    let group = [0, 1, 2].map(|axis| global[axis] / THREADGROUP[axis]);
    let local = [0, 1, 2].map(|axis| global[axis] % THREADGROUP[axis]);
    // The last threadgroup of a row has 13 - 8 threads, that of a column 7 - 5.
    let extent = [
        if group[0] == 1 { 5 } else { 8 },
        if group[1] == 1 { 2 } else { 5 },
        1,
    ];
    let index = local[0] + extent[0] * local[1];
    let count = extent[0] * extent[1];
    let mut values = [global, local, group, THREADS, extent, GROUPS, THREADGROUP].concat();
    values.extend([
        index,
        index % 32,
        index / 32,
        32,
        count.div_ceil(32),
        index / 4,
        index % 4,
        32,
        count.div_ceil(4),
        // A full threadgroup has 40 threads.
        2,
        10,
    ]);
    values
}

#[test]
fn every_thread_knows_its_place() {
    for (mode, reversed) in [
        (Mode::Checked, false),
        (Mode::Checked, true),
        (Mode::Unchecked, false),
    ] {
        let device = SoftDevice::new(Options {
            mode,
            reversed,
            cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
            ..Options::default()
        });
        let library = device
            .library(&LibrarySource::new(SOURCE, &[]).unwrap())
            .unwrap();
        let pipeline = device.pipeline(&library, "builtins", &[]).unwrap();
        let out = device
            .buffer(128 * THREADS.iter().product::<u32>() as usize, "out")
            .unwrap();
        let dispatch = Dispatch {
            label: "builtins",
            pipeline: &pipeline,
            arguments: &[Argument::Buffer {
                index: 0,
                range: BufferRange::whole(&out),
                access: Access::Write,
            }],
            grid: Grid::Threads(Size(THREADS)),
            threadgroup: Size(THREADGROUP),
        };
        device.run(&dispatch, Duration::from_secs(60)).unwrap();
        assert_eq!(device.take_reports(), []);
        let mut bytes = vec![0; out.bytes()];
        out.read(0, &mut bytes).unwrap();
        let words: Vec<_> = bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| u32::from_le_bytes(*chunk))
            .collect();
        for (index, found) in words.chunks(32).enumerate() {
            let index = index as u32;
            let global = [index % 13, index / 13 % 7, index / 91];
            assert_eq!(found[..32], expected(global), "{global:?}");
        }
    }
}
