//! Runs expressions in a kernel of one simdgroup.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::{Mode, Options, SoftDevice};

pub const LANES: usize = 32;

/// An expression of MSL with its value in each lane.
pub struct Case {
    pub msl: &'static str,
    pub expected: fn(lane: usize) -> f64,
}

/// Compares every expression with its value, exactly or within `tolerance` relative to it. `before` stands
/// before the expressions; `lane` is the lane and `x` the same as a float.
pub fn check(name: &str, before: &str, cases: &[Case], tolerance: f64) {
    for mode in [Mode::Checked, Mode::CheckedFreeRunning, Mode::Unchecked] {
        let found = run(name, before, cases, mode);
        for (case, found) in cases.iter().zip(found.chunks(LANES)) {
            for (lane, found) in found.iter().enumerate() {
                let expected = (case.expected)(lane);
                let same = f64::from(*found) == expected || (found.is_nan() && expected.is_nan());
                let near = (f64::from(*found) - expected).abs() <= tolerance * expected.abs();
                assert!(
                    same || near,
                    "{} in lane {lane}: {found}, not {expected}",
                    case.msl
                );
            }
        }
    }
}

fn run(name: &str, before: &str, cases: &[Case], mode: Mode) -> Vec<f32> {
    let mut text = format!(
        "#include <metal_stdlib>\nusing namespace metal;\n\
         kernel void expressions(device float* y [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]]) {{\n\
         const float x = float(lane);\n{before}\n"
    );
    for (index, case) in cases.iter().enumerate() {
        writeln!(text, "y[{} + lane] = float({});", index * LANES, case.msl).unwrap();
    }
    text += "}\n";
    let device = SoftDevice::new(Options {
        mode,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    });
    let file = SourceFile { name, text: &text };
    let library = device
        .library(&LibrarySource::new(file, &[]).unwrap())
        .unwrap();
    let pipeline = device.pipeline(&library, "expressions", &[]).unwrap();
    let y = device.buffer(4 * LANES * cases.len(), "y").unwrap();
    let arguments = [Argument::Buffer {
        index: 0,
        range: BufferRange::whole(&y),
        access: Access::Write,
    }];
    let dispatch = Dispatch {
        label: name,
        pipeline: &pipeline,
        arguments: &arguments,
        grid: Grid::Threads(Size::linear(LANES as u32)),
        threadgroup: Size::linear(LANES as u32),
    };
    device.run(&dispatch, Duration::from_secs(60)).unwrap();
    assert_eq!(device.take_reports(), []);
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| f32::from_le_bytes(*chunk))
        .collect()
}
