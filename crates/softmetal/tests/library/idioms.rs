//! A source with the idioms of public kernels: it compiles, and does what it says.

use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::{Options, SoftDevice};

const SOURCE: SourceFile<'static> = SourceFile {
    name: "idioms.metal",
    text: include_str!("idioms.metal"),
};

#[test]
fn a_source_with_many_idioms_runs() {
    let device = SoftDevice::new(Options {
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    });
    let library = device
        .library(&LibrarySource::new(SOURCE, &[]).unwrap())
        .unwrap();
    assert_eq!(
        library.kernels().collect::<Vec<_>>(),
        ["mul_h", "mul_f", "attr"]
    );
    // A block of scale 1 whose first value is 1: the sums are -1 + 1 and 0.5 + 2.
    let mut block = [0; 18];
    block[..3].copy_from_slice(&[0x00, 0x3c, 0x01]);
    let x = device.buffer(18, "x").unwrap();
    x.write(0, &block).unwrap();
    let y = device.buffer(4, "y").unwrap();
    let pipeline = device.pipeline(&library, "mul_h", &[]).unwrap();
    let dispatch = Dispatch {
        label: "mul_h",
        pipeline: &pipeline,
        arguments: &[
            Argument::Buffer {
                index: 0,
                range: BufferRange::whole(&x),
                access: Access::Read,
            },
            Argument::Buffer {
                index: 1,
                range: BufferRange::whole(&y),
                access: Access::Write,
            },
            Argument::Bytes {
                index: 2,
                bytes: &1u32.to_le_bytes(),
            },
            Argument::Threadgroup {
                index: 0,
                bytes: 96,
            },
        ],
        grid: Grid::Threadgroups(Size::linear(1)),
        threadgroup: Size::linear(32),
    };
    let completed = device.run(&dispatch, Duration::from_secs(60));
    assert_eq!(device.take_reports(), []);
    completed.unwrap();
    let mut result = [0; 4];
    y.read(0, &mut result).unwrap();
    // 32 lanes of 0 + 1 + 1 + 1, then 0 + 2 + 16.
    assert_eq!(f32::from_le_bytes(result), 114.0);
}
