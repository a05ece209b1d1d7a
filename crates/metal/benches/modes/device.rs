//! Kernels in every mode of the software device.

use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use minfer_metal::arguments::{Elementwise, KernelArguments, Norm, Product};
use minfer_metal::device::{
    Access, Argument, BufferRange, ConstantValue, Device, Dispatch, Grid, Size, SourceFile,
};
use minfer_metal::kernels::{self, ELEMENTWISE, GEMM, MATVEC, NORM};
use minfer_softmetal::{Mode, Options, SoftDevice};

const WIDTH: u32 = 896;
const ROWS: u32 = 32;
const MODES: [(&str, Mode); 3] = [
    ("checked", Mode::Checked),
    ("free-running", Mode::CheckedFreeRunning),
    ("unchecked", Mode::Unchecked),
];

struct Setup<'a> {
    file: SourceFile<'static>,
    kernel: &'static str,
    constants: &'a [(u32, ConstantValue)],
    arguments: &'a [u8],
    grid: Grid,
    threadgroup: Size,
    /// Of the whole dispatch.
    lane_operations: u32,
}

fn bench(c: &mut Criterion, setup: &Setup<'_>) {
    let mut group = c.benchmark_group(setup.kernel);
    group.throughput(Throughput::Elements(setup.lane_operations.into()));
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(2));
    for (name, mode) in MODES {
        let device = SoftDevice::new(Options {
            mode,
            cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
            ..Options::default()
        });
        let library = device
            .library(&kernels::library(setup.file).expect("complete"))
            .expect("compiles");
        let pipeline = device
            .pipeline(&library, setup.kernel, setup.constants)
            .expect("a kernel");
        // Enough for every operand; zeros take as long as other values.
        let buffers = ["y", "a", "b"].map(|name| device.buffer(1 << 20, name).expect("memory"));
        let mut arguments = vec![Argument::Bytes {
            index: 0,
            bytes: setup.arguments,
        }];
        arguments.extend(
            buffers
                .iter()
                .zip(1..)
                .map(|(buffer, index)| Argument::Buffer {
                    index,
                    range: BufferRange::whole(buffer),
                    access: if index == 1 {
                        Access::Write
                    } else {
                        Access::Read
                    },
                }),
        );
        let run = || {
            let dispatch = Dispatch {
                label: setup.kernel,
                pipeline: &pipeline,
                arguments: &arguments,
                grid: setup.grid,
                threadgroup: setup.threadgroup,
            };
            device
                .run(&dispatch, Duration::from_secs(60))
                .expect("completes");
        };
        group.bench_function(BenchmarkId::from_parameter(name), |b| b.iter(run));
    }
    group.finish();
}

fn modes(c: &mut Criterion) {
    let elementwise = Elementwise {
        width: WIDTH,
        y_stride: WIDTH,
        a_stride: WIDTH,
        b_stride: WIDTH,
        factor: 0.0,
    };
    bench(
        c,
        &Setup {
            file: ELEMENTWISE,
            kernel: "swiglu",
            constants: &[(0, ConstantValue::Bool(true))],
            arguments: elementwise.as_bytes(),
            grid: Grid::Threads(Size([WIDTH / 4, ROWS, 1])),
            threadgroup: Size([WIDTH / 4, 1, 1]),
            // a / (1 + exp(-a)) * b
            lane_operations: 5 * WIDTH * ROWS,
        },
    );
    let norm = Norm {
        width: WIDTH,
        heads: 1,
        y_stride: WIDTH,
        x_stride: WIDTH,
        eps: 1e-5,
    };
    bench(
        c,
        &Setup {
            file: NORM,
            kernel: "rms_norm",
            constants: &[],
            arguments: norm.as_bytes(),
            grid: Grid::Threadgroups(Size([1, ROWS, 1])),
            threadgroup: Size::linear(256),
            // A sum of squares, and two products for an element of the output.
            lane_operations: 4 * WIDTH * ROWS,
        },
    );
    let product = Product {
        in_width: WIDTH,
        out_width: WIDTH,
        rows: ROWS,
        x_stride: WIDTH,
        y_stride: WIDTH,
        row_bytes: WIDTH / 32 * 18,
    };
    bench(
        c,
        &Setup {
            file: MATVEC,
            kernel: "matvec_q4_0",
            constants: &[(0, ConstantValue::Bool(true))],
            arguments: product.as_bytes(),
            // Two simdgroups of four outputs.
            grid: Grid::Threadgroups(Size([WIDTH / 8, 1, 1])),
            threadgroup: Size::linear(64),
            lane_operations: 2 * WIDTH * WIDTH,
        },
    );
    bench(
        c,
        &Setup {
            file: GEMM,
            kernel: "gemm_q4_0",
            constants: &[(0, ConstantValue::Bool(true))],
            arguments: product.as_bytes(),
            // Tiles of 64 outputs, for all rows.
            grid: Grid::Threadgroups(Size([1, WIDTH / 64, 1])),
            threadgroup: Size::linear(128),
            lane_operations: 2 * WIDTH * WIDTH * ROWS,
        },
    );
}

criterion_group!(benches, modes);
