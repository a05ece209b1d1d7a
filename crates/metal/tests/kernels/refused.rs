//! Work that is not dispatched: because there is none, or because no kernel can do it.

use std::time::Duration;

use minfer_gguf::TensorType;
use minfer_graph::{KvFormat, KvShape, Rope, RopeStyle};
use minfer_metal::device::{CommandBuffer, ConstantValue, Device, Dispatch, Grid, Order, Size};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::kernels::ELEMENTWISE;
use minfer_metal::ops::{
    Encode, Indices, Kernels, Matrix, OpError, Rows, elementwise, gemm, kv, matvec, norm, rope,
    rows,
};
use minfer_softmetal::{KernelStatistics, SoftBuffer, SoftDevice};

use crate::launch::{library, options};
use crate::weights::TYPES;

pub type Encoding<'a> = Encode<'a, SoftDevice>;

/// A shape to try, and buffers for the output, the input and what is picked from.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    y: &'a SoftBuffer,
    pub x: &'a SoftBuffer,
    table: &'a SoftBuffer,
    pub width: usize,
    rows: usize,
}

impl<'a> Work<'a> {
    pub fn value(self, buffer: &'a SoftBuffer, width: usize) -> Rows<'a, SoftBuffer> {
        Rows {
            buffer,
            offset: 0,
            width,
            stride: width,
            rows: self.rows,
        }
    }

    pub fn output(self) -> Rows<'a, SoftBuffer> {
        self.value(self.y, self.width)
    }

    pub fn input(self) -> Rows<'a, SoftBuffer> {
        self.value(self.x, self.width)
    }

    fn indices(self) -> Indices<'a, SoftBuffer> {
        Indices {
            rows: self.value(self.x, 1),
            values: &[0; 8][..self.rows],
        }
    }

    pub fn matrix(
        self,
        ty: TensorType,
        in_width: usize,
        out_width: usize,
    ) -> Matrix<'a, SoftBuffer> {
        Matrix {
            buffer: self.table,
            offset: 0,
            ty,
            in_width,
            out_width,
        }
    }

    fn cells(self, format: KvFormat) -> kv::Cells<'a, SoftBuffer> {
        kv::Cells {
            buffer: self.table,
            shape: KvShape {
                cells: 4,
                width: self.width,
                head_dim: self.width,
                format,
            },
        }
    }
}

/// Encodes on a new device; how many dispatches ran.
fn attempt(
    width: usize,
    rows: usize,
    op: impl FnOnce(&mut Encoding<'_>, Work<'_>) -> Result<(), OpError>,
) -> Result<u64, OpError> {
    let statistics = encoded(width, rows, op)?;
    Ok(statistics.iter().map(|kernel| kernel.dispatches).sum())
}

/// Encodes on a new device; what ran.
pub fn encoded(
    width: usize,
    rows: usize,
    op: impl FnOnce(&mut Encoding<'_>, Work<'_>) -> Result<(), OpError>,
) -> Result<Vec<KernelStatistics>, OpError> {
    let device = SoftDevice::new(options());
    let buffer = |name| device.buffer(1 << 14, name);
    let (y, x, table) = (buffer("output")?, buffer("input")?, buffer("table")?);
    let work = Work {
        y: &y,
        x: &x,
        table: &table,
        width,
        rows,
    };
    let commands = device.command_buffer("attempt")?;
    let mut encoder = TrackedEncoder::new(commands.compute(Order::Concurrent)?);
    let mut encode = Encode {
        device: &device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "attempt",
    };
    op(&mut encode, work)?;
    encoder.end().submit(Duration::from_secs(60))?;
    Ok(device.statistics())
}

fn refusal(
    width: usize,
    op: impl FnOnce(&mut Encoding<'_>, Work<'_>) -> Result<(), OpError>,
) -> String {
    attempt(width, 1, op).unwrap_err().to_string()
}

fn activations(encode: &mut Encoding<'_>, work: Work<'_>) -> Result<(), OpError> {
    use elementwise::Binary;
    let (y, x) = (work.output(), work.input());
    for op in [Binary::Add, Binary::Mul, Binary::SwiGlu] {
        elementwise::binary(encode, op, y, x, x)?;
    }
    elementwise::scale(encode, y, x, 2.0)?;
    elementwise::silu(encode, y, x)?;
    let gain = Rows {
        rows: 1,
        ..work.value(work.table, 64)
    };
    norm::rms_norm(encode, y, x, gain, 1e-5)?;
    for style in [RopeStyle::Interleaved, RopeStyle::Split] {
        rotate(encode, work, style, 64)?;
    }
    Ok(())
}

fn rotate(
    encode: &mut Encoding<'_>,
    work: Work<'_>,
    style: RopeStyle,
    head_dim: usize,
) -> Result<(), OpError> {
    let rotation = Rope {
        style,
        head_dim,
        n_rot: head_dim,
        freq_base: 1e4,
        freq_scale: 1.0,
        factors: None,
    };
    let turns = rope::Turns::new(&rotation, None)?;
    let positions = work.value(work.table, 1);
    rope::rope(
        encode,
        &rotation,
        work.output(),
        work.input(),
        positions,
        &turns,
    )
}

fn rows_by_index(encode: &mut Encoding<'_>, work: Work<'_>) -> Result<(), OpError> {
    let source = Rows {
        rows: 3,
        ..work.value(work.table, work.width)
    };
    rows::get_rows(encode, work.output(), source, work.indices())?;
    for weight in &TYPES {
        let table = work.matrix(weight.ty, work.width, 3);
        rows::embed(encode, work.output(), table, work.indices())?;
    }
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        kv::store(encode, work.cells(format), work.input(), work.indices())?;
        // There is no region of cells without features to load from.
        if work.width > 0 {
            kv::load(encode, work.output(), work.cells(format), work.indices())?;
        }
    }
    Ok(())
}

/// The width is that of the output.
fn products(encode: &mut Encoding<'_>, work: Work<'_>) -> Result<(), OpError> {
    for weight in &TYPES {
        let matrix = work.matrix(weight.ty, 256, work.width.min(8));
        let y = work.value(work.y, work.width.min(8));
        matvec::matvec(encode, y, matrix, work.value(work.x, 256))?;
        gemm::gemm(encode, y, matrix, work.value(work.x, 256))?;
    }
    Ok(())
}

type Operations = fn(&mut Encoding<'_>, Work<'_>) -> Result<(), OpError>;

/// Operations, and how many there are.
const ALL: [(Operations, u64); 3] = [(activations, 8), (rows_by_index, 18), (products, 22)];

#[test]
fn work_without_rows_or_features_dispatches_nothing() {
    for (op, count) in ALL {
        assert_eq!(attempt(256, 1, op).unwrap(), count);
        for (width, rows) in [(0, 3), (256, 0), (0, 0)] {
            assert_eq!(attempt(width, rows, op).unwrap(), 0, "{width} by {rows}");
        }
    }
}

#[test]
fn rows_of_weights_are_whole_blocks() {
    for weight in TYPES.iter().filter(|weight| weight.ty.block_len() > 1) {
        let block = weight.ty.block_len();
        for width in [1, 31, 33, 255, 257, 897] {
            let rows = format!(
                "the width of a weight is {width}, whole blocks of {block} ({})",
                weight.ty
            );
            let product = |encode: &mut Encoding<'_>, work: Work<'_>| {
                matvec::matvec(
                    encode,
                    work.value(work.y, 2),
                    work.matrix(weight.ty, width, 2),
                    work.input(),
                )
            };
            assert_eq!(
                refusal(width, product),
                format!("matvec_{}: {rows} is needed", weight.name)
            );
            let tiled = |encode: &mut Encoding<'_>, work: Work<'_>| {
                gemm::gemm(
                    encode,
                    work.value(work.y, 2),
                    work.matrix(weight.ty, width, 2),
                    work.input(),
                )
            };
            assert_eq!(
                refusal(width, tiled),
                format!("gemm_{}: {rows} is needed", weight.name)
            );
            let embedding = |encode: &mut Encoding<'_>, work: Work<'_>| {
                rows::embed(
                    encode,
                    work.output(),
                    work.matrix(weight.ty, width, 2),
                    work.indices(),
                )
            };
            assert_eq!(
                refusal(width, embedding),
                format!("embed: {rows} is needed")
            );
        }
    }
}

#[test]
fn a_product_needs_inputs_an_aligned_weight_and_a_kernel() {
    type Product = fn(
        &mut Encoding<'_>,
        Rows<'_, SoftBuffer>,
        Matrix<'_, SoftBuffer>,
        Rows<'_, SoftBuffer>,
    ) -> Result<(), OpError>;
    let products: [(&str, Product); 2] = [("matvec", matvec::matvec), ("gemm", gemm::gemm)];
    for (name, product) in products {
        let with = |ty, in_width, offset| {
            move |encode: &mut Encoding<'_>, work: Work<'_>| {
                let matrix = Matrix {
                    offset,
                    ..work.matrix(ty, in_width, work.width)
                };
                product(encode, work.output(), matrix, work.value(work.x, in_width))
            }
        };
        assert_eq!(
            refusal(4, with(TensorType::Q8_0, 0, 0)),
            format!("{name}_q8_0: the width of the input is 0, at least 1 is needed")
        );
        assert_eq!(
            refusal(4, with(TensorType::Q4_K, 256, 8)),
            format!("{name}_q4_k: the first byte of a weight is 8, a multiple of 16 is needed")
        );
        assert_eq!(
            refusal(4, with(TensorType::Q2_K, 256, 0)),
            format!("{name}: no kernel reads weights of type Q2_K")
        );
    }
}

#[test]
fn heads_that_turn_have_pairs() {
    for width in [1, 31, 33, 255, 257] {
        let turn = |encode: &mut Encoding<'_>, work: Work<'_>| {
            rotate(encode, work, RopeStyle::Split, width)
        };
        let message = refusal(width, turn);
        assert!(message.starts_with("rope: "), "{message}");
        assert!(message.contains(&format!(" is {width}, even")), "{message}");
    }
}

/// The kernel takes a whole simdgroup per block.
#[test]
fn cells_of_blocks_hold_whole_blocks() {
    for width in [1, 31, 33, 48, 255, 257] {
        let store = |encode: &mut Encoding<'_>, work: Work<'_>| {
            kv::store(
                encode,
                work.cells(KvFormat::Q8_0),
                work.input(),
                work.indices(),
            )
        };
        let message = refusal(width, store);
        assert!(
            message.starts_with("kv_store_q8_0: the region is"),
            "{message}"
        );
        assert!(message.contains(&width.to_string()), "{message}");
    }
}

#[test]
fn the_device_refuses_an_empty_grid() {
    let device = SoftDevice::new(options());
    let library = library(&device, ELEMENTWISE, true);
    let constants = [(0, ConstantValue::Bool(false))];
    let pipeline = device.pipeline(&library, "add", &constants).unwrap();
    let groups = Size([3, 0, 1]);
    for grid in [Grid::Threads(groups), Grid::Threadgroups(groups)] {
        let dispatch = Dispatch {
            label: "nothing",
            pipeline: &pipeline,
            arguments: &[],
            grid,
            threadgroup: Size::linear(1),
        };
        let error = device.run(&dispatch, Duration::from_secs(60)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`nothing`: kernel `add`: a grid of [3, 0, 1] threadgroups is empty"
        );
    }
}
