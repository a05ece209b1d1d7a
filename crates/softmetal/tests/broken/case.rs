//! How a case is run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, Device, Dispatch, Grid, LibrarySource, Size, SourceFile,
};
use minfer_softmetal::report::Report;
use minfer_softmetal::{Options, SoftDevice, SoftLibrary};

/// A kernel with a fault, and how to launch it.
pub struct Case {
    /// File of the kernel.
    pub file: &'static str,
    /// Its name; the host names end with `.broken` and `.correct`.
    pub kernel: &'static str,
    /// Threadgroups and threads in each.
    pub grid: [u32; 2],
    /// Floats in the output `y` and the input `x`.
    pub floats: [usize; 2],
    /// Severity of the report.
    pub severity: &'static str,
    /// The rest of its headline, before the place.
    pub message: &'static str,
}

/// What a run left behind.
pub struct Outcome {
    pub completed: bool,
    pub reports: Vec<Report>,
}

impl Outcome {
    pub fn headlines(&self) -> Vec<String> {
        self.reports.iter().map(Report::headline).collect()
    }
}

const FILES: [SourceFile<'static>; 5] = [
    SourceFile {
        name: "races.metal",
        text: include_str!("kernels/races.metal"),
    },
    SourceFile {
        name: "memory.metal",
        text: include_str!("kernels/memory.metal"),
    },
    SourceFile {
        name: "divergence.metal",
        text: include_str!("kernels/divergence.metal"),
    },
    SourceFile {
        name: "pointers.metal",
        text: include_str!("kernels/pointers.metal"),
    },
    SourceFile {
        name: "thread.metal",
        text: include_str!("kernels/thread.metal"),
    },
];

static LIBRARIES: LazyLock<HashMap<&str, SoftLibrary>> = LazyLock::new(|| {
    let compile = |file: SourceFile<'static>| {
        let source = LibrarySource::new(file, &[]).unwrap();
        (file.name, device().library(&source).unwrap())
    };
    FILES.into_iter().map(compile).collect()
});

/// A device that keeps what it compiled between test runs.
pub fn device() -> SoftDevice {
    SoftDevice::new(options())
}

/// The options of such a device.
pub fn options() -> Options {
    Options {
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    }
}

impl Case {
    /// Whether a report is the expected one: its headline, and the marked line on either side.
    pub fn is_expected(&self, report: &Report) -> bool {
        let accesses = [Some(&report.now), report.before.as_ref()];
        let mut lines = accesses
            .into_iter()
            .flatten()
            .filter_map(|access| access.line.as_deref());
        let marker = format!("// fault: {}", self.kernel);
        let headline = format!("{}: {} at {}:", self.severity, self.message, self.file);
        report.headline().starts_with(&headline) && lines.any(|line| line.ends_with(&marker))
    }

    /// Runs one of the two kernels on a new device.
    pub fn run(&self, twin: &str) -> Outcome {
        let device = device();
        let name = format!("{}.{twin}", self.kernel);
        let pipeline = device.pipeline(&LIBRARIES[self.file], &name, &[]).unwrap();
        let y = device.buffer(4 * self.floats[0], "output").unwrap();
        let x = device.buffer(4 * self.floats[1], "input").unwrap();
        // The first element is 0, a divisor in one case.
        let values: Vec<u8> = (0..self.floats[1])
            .flat_map(|i| (i as f32).to_le_bytes())
            .collect();
        x.write(0, &values).unwrap();
        let dispatch = Dispatch {
            label: self.kernel,
            pipeline: &pipeline,
            arguments: &[
                Argument::Buffer {
                    index: 0,
                    range: BufferRange::whole(&y),
                    access: Access::Write,
                },
                Argument::Buffer {
                    index: 1,
                    range: BufferRange::whole(&x),
                    access: Access::Read,
                },
            ],
            grid: Grid::Threadgroups(Size::linear(self.grid[0])),
            threadgroup: Size::linear(self.grid[1]),
        };
        Outcome {
            completed: device.run(&dispatch, Duration::from_secs(60)).is_ok(),
            reports: device.take_reports(),
        }
    }
}
