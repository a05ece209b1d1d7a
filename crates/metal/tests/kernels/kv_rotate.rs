//! Rotation of stored keys, byte for byte.

use std::time::Duration;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_gguf::quantize::{dequantize, quantize};
use minfer_graph::{KeyRope, KvFormat, KvShape, RopeStyle, Rotation};
use minfer_metal::arguments::{KernelArguments, KvRotate};
use minfer_metal::device::{Buffer, CommandBuffer, ConstantValue, Device, Grid, Order, Size};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::kernels::KV_ROTATE;
use minfer_metal::ops::kv::Cells;
use minfer_metal::ops::kv_rotate::kv_rotate;
use minfer_metal::ops::{Encode, Kernels, OpError};
use minfer_softmetal::SoftDevice;

use crate::launch::{Launch, Operand, options};
use crate::values::values;

const HEADS: usize = 3;
const CELLS: usize = 5;
const BASE: f32 = 10_000.0;
const FREQ_SCALE: f32 = 0.5;
const PADDING: u8 = 0xa5;

#[derive(Clone, Copy, Debug)]
struct Case {
    ty: TensorType,
    style: RopeStyle,
    head_dim: usize,
    n_rot: usize,
    /// Positions to turn back by.
    by: usize,
    factors: bool,
}

const CASE: Case = Case {
    ty: Q8_0,
    style: RopeStyle::Split,
    head_dim: 64,
    n_rot: 64,
    by: 77,
    factors: false,
};

impl Case {
    fn width(&self) -> usize {
        HEADS * self.head_dim
    }

    fn cell_bytes(&self) -> usize {
        self.ty.row_bytes(self.width()).unwrap().next_multiple_of(4)
    }

    fn cells(&self) -> Vec<u8> {
        let rows = values(CELLS * self.width(), 30);
        let cells = rows.chunks(self.width()).flat_map(|row| {
            let mut cell = quantize(self.ty, row).unwrap();
            if self.ty == Q8_0 {
                shrink_levels(&mut cell);
            }
            cell.resize(self.cell_bytes(), PADDING);
            cell
        });
        cells.collect()
    }

    fn factors(&self) -> Option<Vec<f32>> {
        let factors = values(self.n_rot / 2, 31).into_iter();
        self.factors
            .then(|| factors.map(|x| x.abs() + 0.5).collect())
    }

    /// Cosine and sine of each pair.
    fn turns(&self) -> Vec<[f32; 2]> {
        let factors = self.factors();
        let turn = |pair: usize| {
            let frequency = f64::from(BASE).powf(-2.0 * pair as f64 / self.n_rot as f64);
            let factor = factors.as_ref().map_or(1.0, |factors| factors[pair].into());
            let angle = -(self.by as f64) * (f64::from(FREQ_SCALE) * frequency / factor);
            [angle.cos() as f32, angle.sin() as f32]
        };
        (0..self.n_rot / 2).map(turn).collect()
    }

    /// The cells with every head decoded, turned and encoded again, as far as its blocks have a rotated feature.
    fn expected(&self) -> Vec<u8> {
        let mut cells = self.cells();
        let rotated = self.n_rot.next_multiple_of(self.ty.block_len());
        let head_bytes = self.ty.row_bytes(self.head_dim).unwrap();
        let rotated_bytes = self.ty.row_bytes(rotated).unwrap();
        for cell in cells.chunks_mut(self.cell_bytes()) {
            for head in cell.chunks_exact_mut(head_bytes) {
                let mut x = vec![0.0f32; rotated];
                dequantize(self.ty, &head[..rotated_bytes], &mut x).unwrap();
                for (pair, [c, s]) in self.turns().into_iter().enumerate() {
                    let (first, second) = match self.style {
                        RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                        RopeStyle::Split => (pair, pair + self.n_rot / 2),
                    };
                    let (a, b) = (x[first], x[second]);
                    (x[first], x[second]) = (a * c - b * s, a * s + b * c);
                }
                head[..rotated_bytes].copy_from_slice(&quantize(self.ty, &x).unwrap());
            }
        }
        cells
    }

    fn launch(&self) -> Launch {
        let pairs = self.n_rot as u32 / 2;
        let args = KvRotate {
            pairs,
            head_dim: self.head_dim as u32,
            cell_bytes: self.cell_bytes() as u32,
        };
        let threads = if self.ty == Q8_0 { 32 } else { pairs };
        let keys = Operand::bytes(&self.cells());
        let interleaved = self.style == RopeStyle::Interleaved;
        Launch {
            file: KV_ROTATE,
            kernel: format!("kv_rotate_{}", self.ty).to_lowercase(),
            constants: vec![(0, ConstantValue::Bool(interleaved))],
            arguments: args.as_bytes().to_vec(),
            operands: vec![keys, Operand::input(2, &self.turns().concat())],
            bindings: vec![0, 1],
            grid: Grid::Threads(Size([threads, HEADS as u32, CELLS as u32])),
            threadgroup: [32, 2, 2],
        }
    }

    fn check(&self) {
        let words = self.launch().run();
        let found: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(found == self.expected(), "{self:?}");
    }
}

/// Makes blocks that would not have the same bytes if they were encoded again.
fn shrink_levels(blocks: &mut [u8]) {
    for block in blocks.chunks_mut(34) {
        for level in &mut block[2..] {
            *level = (level.cast_signed() / 2).cast_unsigned();
        }
    }
}

/// A launch of every format.
pub fn launches() -> Vec<Launch> {
    [F32, F16, Q8_0]
        .map(|ty| Case { ty, ..CASE }.launch())
        .into()
}

#[test]
fn floats_whole_and_partial_heads() {
    for ty in [F32, F16] {
        for style in [RopeStyle::Interleaved, RopeStyle::Split] {
            for (head_dim, n_rot) in [(64, 64), (80, 20), (13, 6)] {
                Case {
                    ty,
                    style,
                    head_dim,
                    n_rot,
                    ..CASE
                }
                .check();
            }
        }
    }
}

#[test]
fn blocks_are_those_of_the_reference_quantizer() {
    for style in [RopeStyle::Interleaved, RopeStyle::Split] {
        // Pairs within a block, in different ones, across the middle of one, and blocks that are not rotated.
        for (head_dim, n_rot) in [(32, 32), (64, 64), (96, 48), (128, 96), (128, 20)] {
            Case {
                style,
                head_dim,
                n_rot,
                ..CASE
            }
            .check();
        }
    }
}

/// Rotates some cells of a region by the operation.
fn rotate(case: &Case, shape: KvShape, rotation: Rotation) -> Result<Vec<u8>, OpError> {
    let device = SoftDevice::new(options());
    let cells = case.cells();
    let buffer = device.buffer(cells.len(), "keys").unwrap();
    buffer.write(0, &cells).unwrap();
    let rope = KeyRope {
        style: case.style,
        n_rot: case.n_rot,
        freq_base: BASE,
        freq_scale: FREQ_SCALE,
        factors: None,
    };
    let keys = Cells {
        buffer: &buffer,
        shape,
    };
    let command_buffer = device.command_buffer("shift").unwrap();
    let mut encoder = TrackedEncoder::new(command_buffer.compute(Order::Concurrent).unwrap());
    let mut encode = Encode {
        device: &device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "shift",
    };
    kv_rotate(
        &mut encode,
        keys,
        rotation,
        &rope,
        case.factors().as_deref(),
    )?;
    encoder
        .end::<SoftDevice>()
        .submit(Duration::from_secs(60))?;
    let mut found = vec![0; cells.len()];
    buffer.read(0, &mut found)?;
    Ok(found)
}

fn shape(case: &Case) -> KvShape {
    KvShape {
        cells: CELLS,
        width: case.width(),
        head_dim: case.head_dim,
        format: match case.ty {
            F32 => KvFormat::F32,
            F16 => KvFormat::F16,
            _ => KvFormat::Q8_0,
        },
    }
}

#[test]
fn only_the_cells_of_the_rotation_are_turned() {
    for ty in [F32, F16, Q8_0] {
        for (by, factors) in [(0, false), (1_000_000, true)] {
            let case = Case {
                ty,
                by,
                factors,
                ..CASE
            };
            let size = case.cell_bytes();
            let mut expected = case.cells();
            expected[size..4 * size].copy_from_slice(&case.expected()[size..4 * size]);
            let found = rotate(
                &case,
                shape(&case),
                Rotation {
                    cell: 1,
                    len: 3,
                    by,
                },
            )
            .unwrap();
            assert!(found == expected, "{case:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |case: Case, cell, len| {
        let rotation = Rotation { cell, len, by: 1 };
        rotate(&case, shape(&case), rotation)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(CASE, 3, 3),
        "kv_rotate_q8_0: the cells is 3..6, within 0..5 is needed"
    );
    assert_eq!(
        refusal(CASE, usize::MAX, 2),
        format!(
            "kv_rotate_q8_0: the cells is {0}..{0}, within 0..5 is needed",
            usize::MAX
        )
    );
    for n_rot in [0, 7, 66] {
        let message = refusal(Case { n_rot, ..CASE }, 0, 1);
        let expected = format!("kv_rotate_q8_0: n_rot is {n_rot}, even and at most 64 is needed");
        assert_eq!(message, expected);
    }
}
