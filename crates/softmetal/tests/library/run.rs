//! Runs expressions in a kernel of one simdgroup.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, DeviceError, Dispatch, Grid, LibrarySource,
    Size, SourceFile,
};
use minfer_softmetal::{Mode, Options, SoftDevice, SoftLibrary, lint};

pub const LANES: usize = 32;

/// An expression of MSL with its value in each lane.
pub struct Case<'a> {
    pub msl: &'a str,
    pub expected: Box<dyn Fn(usize) -> f64 + 'a>,
}

/// An expression of MSL with its value in each lane, as `ulong` converts it.
pub struct Words {
    pub msl: String,
    pub expected: Vec<u64>,
}

impl Words {
    pub fn new(msl: impl Into<String>, expected: impl Fn(usize) -> u64) -> Self {
        Words {
            msl: msl.into(),
            expected: (0..LANES).map(expected).collect(),
        }
    }
}

/// Compares every expression with its value, exactly or within `tolerance` relative to it. `before` stands
/// before the expressions; `lane` is the lane and `x` the same as a float.
pub fn check(name: &str, before: &str, cases: &[Case<'_>], tolerance: f64) {
    let bits = cases
        .iter()
        .map(|case| format!("as_type<uint>(float({}))", case.msl));
    let bits: Vec<_> = bits.collect();
    for mode in [Mode::Checked, Mode::CheckedFreeRunning, Mode::Unchecked] {
        let found = run(name, before, &bits, mode);
        for (case, found) in cases.iter().zip(found.chunks(LANES)) {
            for (lane, &bits) in found.iter().enumerate() {
                let found = f64::from(f32::from_bits(bits as u32));
                let expected = (case.expected)(lane);
                let same = found == expected || (found.is_nan() && expected.is_nan());
                let near = (found - expected).abs() <= tolerance * expected.abs();
                let msl = case.msl;
                assert!(
                    same || near,
                    "{msl} in lane {lane}: {found}, not {expected}"
                );
            }
        }
    }
}

/// Compares every expression with its value.
pub fn check_words(name: &str, before: &str, cases: &[Words]) {
    let expressions: Vec<_> = cases.iter().map(|case| case.msl.clone()).collect();
    for mode in [Mode::Checked, Mode::Unchecked] {
        let found = run(name, before, &expressions, mode);
        for (case, found) in cases.iter().zip(found.chunks(LANES)) {
            for (lane, (found, expected)) in found.iter().zip(&case.expected).enumerate() {
                let msl = &case.msl;
                assert!(
                    found == expected,
                    "{msl} in lane {lane}: {found:#x}, not {expected:#x}"
                );
            }
        }
    }
}

/// A device that keeps what it compiles between runs of the tests.
pub fn device(mode: Mode) -> SoftDevice {
    SoftDevice::new(Options {
        mode,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    })
}

/// A library of one file, or what the compiler says against it.
pub fn library(device: &SoftDevice, name: &str, text: &str) -> Result<SoftLibrary, DeviceError> {
    let file = SourceFile { name, text };
    device.library(&LibrarySource::new(file, &[]).unwrap())
}

/// The strict parse knows the same library.
fn parse(name: &str, text: &str) {
    let source = LibrarySource::new(SourceFile { name, text }, &[]).unwrap();
    let found = lint::parse_address_spaces(&source, Path::new("clang-19")).unwrap();
    let line = |finding: &lint::LintFinding| {
        let line = text.lines().nth(finding.place.line as usize - 1);
        format!("{finding}: {}", line.unwrap_or_default())
    };
    assert_eq!(found.iter().map(line).collect::<Vec<_>>(), [""; 0]);
}

/// The values of expressions, all lanes of the first, then all of the second.
fn run(name: &str, before: &str, expressions: &[String], mode: Mode) -> Vec<u64> {
    let mut text = format!(
        "#include <metal_stdlib>\nusing namespace metal;\n\
         kernel void expressions(device ulong* y [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]]) {{\n\
         const float x = float(lane);\n{before}\n"
    );
    for (index, expression) in expressions.iter().enumerate() {
        writeln!(text, "y[{} + lane] = ulong({expression});", index * LANES).unwrap();
    }
    text += "}\n";
    if mode == Mode::Unchecked {
        parse(name, &text);
    }
    let device = device(mode);
    let library = library(&device, name, &text).unwrap();
    let pipeline = device.pipeline(&library, "expressions", &[]).unwrap();
    let y = device.buffer(8 * LANES * expressions.len(), "y").unwrap();
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
    let completed = device.run(&dispatch, Duration::from_secs(60));
    assert_eq!(device.take_reports(), []);
    completed.unwrap();
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes).unwrap();
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}
