//! Bindings in which the memory of one argument is not like that of others.

use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::SoftBuffer;
use minfer_softmetal::report::Report;

use crate::case::device;

const SOURCE: SourceFile<'static> = SourceFile {
    name: "bindings.metal",
    text: "#include <metal_stdlib>
using namespace metal;
kernel void reverse(device float* y [[buffer(0)]],
                    device const float* x [[buffer(1)]],
                    uint i [[thread_index_in_threadgroup]]) {
    y[i] = x[63 - i];
}
kernel void copy(device float* y [[buffer(0)]],
                 device const float* x [[buffer(1)]],
                 uint i [[thread_index_in_threadgroup]]) {
    y[i] = x[i] + 1.0f;
}
kernel void scratch(device float* y [[buffer(0)]],
                    device const float* x [[buffer(1)]],
                    threadgroup float* given [[threadgroup(0)]],
                    uint i [[thread_index_in_threadgroup]]) {
    threadgroup float own[4096];
    own[i] = x[i];
    given[i] = x[63 - i];
    y[i] = own[i] + given[i];
}
kernel void row(device float* y [[buffer(0)]],
                device const float* x [[buffer(1)]],
                uint i [[thread_index_in_threadgroup]]) {
    threadgroup float tile[8][8];
    tile[i / 8][i % 8] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = tile[0][i];
}
kernel void beyond_the_tile(device float* y [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            uint i [[thread_index_in_threadgroup]]) {
    threadgroup float tile[8][8];
    tile[i / 8][i % 8] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = tile[1][i];
}
",
};

/// Runs a kernel on parts of one buffer, in 64 threads; the headlines.
fn run(kernel: &str, ranges: [[usize; 2]; 2], threadgroup: Option<usize>) -> Vec<String> {
    let device = device();
    let library = device.library(&LibrarySource::new(SOURCE, &[]).unwrap());
    let pipeline = device.pipeline(&library.unwrap(), kernel, &[]).unwrap();
    let buffer: SoftBuffer = device.buffer(1024, "both").unwrap();
    let range = |[offset, bytes]: [usize; 2]| BufferRange {
        buffer: &buffer,
        offset,
        bytes,
    };
    let bound = |index, range, access| Argument::Buffer {
        index,
        range,
        access,
    };
    let mut arguments = vec![
        bound(0, range(ranges[0]), Access::Write),
        bound(1, range(ranges[1]), Access::Read),
    ];
    arguments.extend(threadgroup.map(|bytes| Argument::Threadgroup { index: 0, bytes }));
    let dispatch = Dispatch {
        label: kernel,
        pipeline: &pipeline,
        arguments: &arguments,
        grid: Grid::Threadgroups(Size::linear(1)),
        threadgroup: Size::linear(64),
    };
    let completed = device.run(&dispatch, Duration::from_secs(60)).is_ok();
    let reports = device.take_reports();
    assert_eq!(completed, reports.is_empty());
    reports.iter().map(Report::headline).collect()
}

const APART: [[usize; 2]; 2] = [[0, 256], [256, 256]];
const SAME: [[usize; 2]; 2] = [[0, 256], [0, 256]];

#[test]
fn one_range_may_have_two_names_but_threads_do_not_share_its_bytes() {
    assert_eq!(run("reverse", APART, None), [""; 0]);
    assert_eq!(
        run("copy", SAME, None),
        [""; 0],
        "each thread its own element"
    );
    let race = "error: race within a threadgroup: device memory `both` (parameter `x`) + 124 at bindings.metal:6";
    let reports = run("reverse", SAME, None);
    assert!(reports.contains(&race.to_owned()), "{reports:#?}");
}

#[test]
fn an_empty_range_has_no_element() {
    let expected = "error: access out of bounds: device memory `both` (parameter `x`) + 256 at bindings.metal:11";
    assert_eq!(run("copy", [[0, 256], [256, 0]], None), [expected]);
}

#[test]
fn threadgroup_memory_of_arguments_and_of_variables_counts_together() {
    // The variable takes half of the 32 KiB.
    assert_eq!(run("scratch", APART, Some(16 * 1024)), [""; 0]);
    let limit = "error: limit of the device exceeded at bindings.metal:17";
    assert_eq!(run("scratch", APART, Some(16 * 1024 + 16)), [limit]);
    let outside =
        "error: access out of bounds: threadgroup memory `given` + 128 at bindings.metal:19";
    assert_eq!(run("scratch", APART, Some(128)), [outside]);
}

#[test]
fn a_row_of_a_threadgroup_variable_may_go_on_in_the_next_but_not_beyond_the_last() {
    assert_eq!(run("row", APART, None), [""; 0]);
    let outside =
        "error: access out of bounds: threadgroup memory `tile` + 256 at bindings.metal:36";
    assert_eq!(run("beyond_the_tile", APART, None), [outside]);
}
