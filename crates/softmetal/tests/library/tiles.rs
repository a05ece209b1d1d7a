//! A kernel with tiles, matrices and barriers: right, silent, and with no barrier to spare.

use std::path::Path;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::report::{Report, SourcePlace};
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice};

const SOURCE: SourceFile<'static> = SourceFile {
    name: "tiles.metal",
    text: include_str!("tiles.metal"),
};

struct Outcome {
    result: Vec<f32>,
    reports: Vec<Report>,
    barriers: Vec<SourcePlace>,
}

fn options(mode: Mode, reversed: bool) -> Options {
    Options {
        mode,
        reversed,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    }
}

/// Small integers: products and sums are exact in any order.
fn element(row: usize, column: usize) -> f32 {
    ((3 * row + 5 * column) % 7) as f32 - 3.0
}

fn matrix(device: &SoftDevice, name: &str, rows: usize, columns: usize) -> SoftBuffer {
    let buffer = device.buffer(4 * rows * columns, name).unwrap();
    let values = (0..rows * columns).map(|at| element(at / columns, at % columns));
    buffer
        .write(0, &values.flat_map(f32::to_le_bytes).collect::<Vec<_>>())
        .unwrap();
    buffer
}

fn run(options: Options, [m, n, k]: [usize; 3]) -> Outcome {
    let device = SoftDevice::new(options);
    let library = device
        .library(&LibrarySource::new(SOURCE, &[]).unwrap())
        .unwrap();
    let pipeline = device.pipeline(&library, "product", &[]).unwrap();
    let c = device.buffer(4 * m * n, "c").unwrap();
    let (a, b) = (matrix(&device, "a", m, k), matrix(&device, "b", k, n));
    let size: Vec<_> = [m, n, k, 0]
        .iter()
        .flat_map(|&extent| (extent as u32).to_le_bytes())
        .collect();
    let buffer = |index, buffer, access| Argument::Buffer {
        index,
        range: BufferRange::whole(buffer),
        access,
    };
    let dispatch = Dispatch {
        label: "product",
        pipeline: &pipeline,
        arguments: &[
            buffer(0, &c, Access::Write),
            buffer(1, &a, Access::Read),
            buffer(2, &b, Access::Read),
            Argument::Bytes {
                index: 3,
                bytes: &size,
            },
            Argument::Threadgroup {
                index: 0,
                bytes: 4096,
            },
        ],
        grid: Grid::Threadgroups(Size([n.div_ceil(32) as u32, m.div_ceil(32) as u32, 1])),
        threadgroup: Size::linear(128),
    };
    let _ = device.run(&dispatch, Duration::from_secs(60));
    let mut bytes = vec![0; c.bytes()];
    c.read(0, &mut bytes).unwrap();
    Outcome {
        result: bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| f32::from_le_bytes(*chunk))
            .collect(),
        reports: device.take_reports(),
        barriers: device.barriers(),
    }
}

fn expected([m, n, k]: [usize; 3]) -> Vec<f32> {
    let sum = |at: usize| {
        (0..k)
            .map(|i| element(at / n, i) * element(i, at % n))
            .sum()
    };
    (0..m * n).map(sum).collect()
}

#[test]
fn products_are_right_and_silent_in_every_mode() {
    for shape in [[32, 32, 16], [33, 40, 20], [64, 31, 48]] {
        for (mode, reversed) in [
            (Mode::Checked, false),
            (Mode::Checked, true),
            (Mode::CheckedFreeRunning, true),
            (Mode::Unchecked, false),
        ] {
            let outcome = run(options(mode, reversed), shape);
            assert_eq!(outcome.reports, [], "{shape:?} {mode:?}");
            assert_eq!(outcome.result, expected(shape), "{shape:?} {mode:?}");
        }
    }
}

#[test]
fn every_barrier_is_missed_when_it_is_left_out() {
    let shape = [33, 40, 48];
    let places = run(options(Mode::Checked, false), shape).barriers;
    let lines: Vec<_> = places.iter().map(|place| place.line).collect();
    let expected = |(_, line): &(u32, &str)| line.contains("threadgroup_barrier(");
    let in_source = (1..)
        .zip(SOURCE.text.lines())
        .filter(expected)
        .map(|(number, _)| number);
    assert_eq!(lines, in_source.collect::<Vec<_>>());
    for place in places {
        let options = Options {
            without_barrier: Some(place.clone()),
            ..options(Mode::Checked, false)
        };
        assert!(!run(options, shape).reports.is_empty(), "{place:?}");
    }
}
