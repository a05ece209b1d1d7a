//! The static list of barriers is the list of those that threads pass.

use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, BufferRange, CommandBuffer, ComputeEncoder, Device, Dispatch, Grid, Order,
    Size,
};
use minfer_softmetal::lint::barriers;
use minfer_softmetal::{Options, SoftDevice};

use crate::library;

const TEXT: &str = "#include <metal_stdlib>
using namespace metal;
#define SYNC threadgroup_barrier(mem_flags::mem_threadgroup)
#define STORE(x)                                                                                   \\
    SYNC;                                                                                          \\
    y[i] = (x)
// threadgroup_barrier(mem_flags::mem_none);
template <typename T> void exchange(T) {
    /* a */ simdgroup_barrier(mem_flags::mem_threadgroup);
}
kernel void k(device float* y [[buffer(0)]], ushort i [[thread_index_in_threadgroup]]) {
    threadgroup_barrier(mem_flags::mem_none); // softmetal: allow(unneeded-barrier): to be seen
    metal::threadgroup_barrier(mem_flags::mem_none); threadgroup_barrier(mem_flags::mem_none);
    exchange(1.0f);
    exchange(1);
    SYNC; // softmetal: allow(unneeded-barrier):
    STORE(i); // threadgroup_barrier(mem_flags::mem_none)
}
";

#[test]
fn places_are_those_that_threads_pass() {
    let source = library(TEXT);
    let device = SoftDevice::new(Options {
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    });
    let library = device.library(&source).unwrap();
    let pipeline = device.pipeline(&library, "k", &[]).unwrap();
    let y = device.buffer(4 * 64, "y").unwrap();
    let mut encoder = device
        .command_buffer("barriers")
        .unwrap()
        .compute(Order::Serial)
        .unwrap();
    let dispatch = Dispatch {
        label: "k",
        pipeline: &pipeline,
        arguments: &[Argument::Buffer {
            index: 0,
            range: BufferRange::whole(&y),
            access: Access::Write,
        }],
        grid: Grid::Threads(Size::linear(64)),
        threadgroup: Size::linear(64),
    };
    encoder.dispatch(&dispatch).unwrap();
    encoder.end().submit(Duration::from_secs(60)).unwrap();

    let listed = barriers(&source).unwrap();
    let places: Vec<_> = listed.iter().map(|barrier| barrier.place.clone()).collect();
    assert_eq!(places, device.barriers());
    let expected = [(9, 13), (12, 5), (13, 5), (13, 54), (16, 5), (17, 5)];
    let found = places.iter().map(|place| (place.line, place.column));
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn a_reason_is_that_of_its_line_and_not_empty() {
    let listed = barriers(&library(TEXT)).unwrap();
    let reasons: Vec<_> = listed
        .iter()
        .map(|barrier| barrier.reason.as_deref())
        .collect();
    let expected = [None, Some("to be seen"), None, None, None, None];
    assert_eq!(reasons, expected);
}
