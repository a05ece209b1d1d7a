//! Operations on a device, and what they leave in memory.

use std::time::Duration;

use minfer_metal::device::{Buffer, CommandBuffer, Device, Order};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::{Encode, Indices, Kernels, Matrix, OpError, Rows};
use minfer_softmetal::report::Report;
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice};

use crate::launch;
use crate::weights::WeightType;

/// Words before and after a value, and between its rows: not numbers, so that what reads one shows.
const GUARD: u32 = 0x7fc0_1234;
const GUARDS: usize = 32;

/// A device with its kernels.
pub struct Stage {
    pub device: SoftDevice,
    kernels: Kernels<SoftDevice>,
}

impl Stage {
    pub fn new(options: Options) -> Self {
        Stage {
            device: SoftDevice::new(options),
            kernels: Kernels::default(),
        }
    }

    /// The fastest, without checks.
    pub fn unchecked() -> Self {
        Self::new(Options {
            mode: Mode::Unchecked,
            ..launch::options()
        })
    }

    pub fn bytes(&self, bytes: &[u8]) -> SoftBuffer {
        let buffer = self.device.buffer(bytes.len().max(4), "bytes").unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    }

    pub fn integers(&self, values: &[i32]) -> SoftBuffer {
        let bytes: Vec<_> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.bytes(&bytes)
    }

    /// Rows of `width` with `beyond` words between them. They start at a multiple of four words if `beyond` is one.
    pub fn value(&self, width: usize, beyond: usize, values: &[f32]) -> Value {
        let [stride, rows] = [width + beyond, values.len() / width];
        let offset = GUARDS + beyond % 4;
        let mut words = vec![GUARD; offset + rows * stride + GUARDS];
        for (row, values) in values.chunks(width).enumerate() {
            let words = words[offset + row * stride..].iter_mut();
            for (word, value) in words.zip(values) {
                *word = value.to_bits();
            }
        }
        let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Value {
            buffer: self.bytes(&bytes),
            offset,
            width,
            stride,
            rows,
        }
    }

    /// Encodes and runs; the device must have nothing to report.
    pub fn run(
        &mut self,
        encode: impl FnOnce(&mut Encode<'_, SoftDevice>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let commands = self.device.command_buffer("stage")?;
        let mut encoder = TrackedEncoder::logged(commands.compute(Order::Concurrent)?);
        encode(&mut Encode {
            device: &self.device,
            kernels: &mut self.kernels,
            encoder: &mut encoder,
            label: "stage",
        })?;
        let done = encoder.end().submit(Duration::from_secs(60));
        let reports: Vec<_> = self
            .device
            .take_reports()
            .iter()
            .map(Report::to_string)
            .collect();
        assert_eq!(reports, [""; 0]);
        Ok(done?)
    }
}

/// What `run` returns, the same in every mode of the device.
pub fn in_every_mode<T: PartialEq>(run: impl Fn(&mut Stage) -> T) -> T {
    let modes = [Mode::Checked, Mode::CheckedFreeRunning, Mode::Unchecked];
    let mut results = modes
        .iter()
        .flat_map(|&mode| [(mode, false), (mode, true)])
        .map(|(mode, reversed)| {
            let options = Options {
                mode,
                reversed,
                ..launch::options()
            };
            (options.clone(), run(&mut Stage::new(options)))
        });
    let (_, first) = results.next().unwrap();
    for (options, other) in results {
        assert!(other == first, "another result in {options:?}");
    }
    first
}

/// Rows in memory, between guards.
pub struct Value {
    buffer: SoftBuffer,
    offset: usize,
    width: usize,
    stride: usize,
    rows: usize,
}

impl Value {
    pub fn rows(&self) -> Rows<'_, SoftBuffer> {
        Rows {
            buffer: &self.buffer,
            offset: self.offset,
            width: self.width,
            stride: self.stride,
            rows: self.rows,
        }
    }

    pub fn row(&self, row: usize) -> Rows<'_, SoftBuffer> {
        Rows {
            offset: self.offset + row * self.stride,
            rows: 1,
            ..self.rows()
        }
    }

    /// The words of all rows; those around must be as they were.
    pub fn words(&self) -> Vec<u32> {
        let words = words(&self.buffer);
        let end = self.offset + self.rows * self.stride;
        let (mut rows, mut guards) = (Vec::new(), Vec::new());
        for (at, word) in words.into_iter().enumerate() {
            let is_inside =
                (self.offset..end).contains(&at) && (at - self.offset) % self.stride < self.width;
            if is_inside {
                rows.push(word)
            } else {
                guards.push(word)
            }
        }
        assert!(
            guards.iter().all(|word| *word == GUARD),
            "a guard was written"
        );
        rows
    }
}

pub fn words(buffer: &SoftBuffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.read(0, &mut bytes).unwrap();
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u32::from_le_bytes(*word)).collect()
}

/// A weight in memory.
pub struct Weight {
    pub ty: &'static WeightType,
    pub bytes: Vec<u8>,
    pub shape: [usize; 2],
}

impl Weight {
    /// Random blocks of a weight of `[in_width, out_width]`.
    pub fn random(ty: &'static WeightType, shape: [usize; 2], seed: u32) -> Self {
        Weight {
            ty,
            bytes: ty.random(shape[0] * shape[1], seed),
            shape,
        }
    }

    /// Blocks as models have them.
    pub fn quantized(ty: &'static WeightType, shape: [usize; 2], seed: u32) -> Self {
        Weight {
            ty,
            bytes: ty.quantized(shape[0] * shape[1], seed),
            shape,
        }
    }

    pub fn matrix<'a>(&self, buffer: &'a SoftBuffer) -> Matrix<'a, SoftBuffer> {
        Matrix {
            buffer,
            offset: 0,
            ty: self.ty.ty,
            in_width: self.shape[0],
            out_width: self.shape[1],
        }
    }

    /// Products with rows of f64, with the sum of magnitudes of each.
    pub fn products(&self, x: &[f64]) -> Vec<[f64; 2]> {
        let decoded = self.ty.decode(&self.bytes);
        let rows = x.chunks(self.shape[0]);
        let products = |x: &[f64], w: &[f32]| {
            let terms = x.iter().zip(w).map(|(x, w)| x * f64::from(*w));
            [terms.clone().sum(), terms.map(f64::abs).sum()]
        };
        rows.flat_map(|x| decoded.chunks(self.shape[0]).map(move |w| products(x, w)))
            .collect()
    }
}

/// A list of row numbers in a buffer.
pub fn indices<'a>(buffer: &'a SoftBuffer, values: &'a [i32]) -> Indices<'a, SoftBuffer> {
    Indices {
        rows: list(buffer, values.len()),
        values,
    }
}

/// A list of `rows` integers in a buffer.
pub fn list(buffer: &SoftBuffer, rows: usize) -> Rows<'_, SoftBuffer> {
    Rows {
        buffer,
        offset: 0,
        width: 1,
        stride: 1,
        rows,
    }
}

/// Rows of `x` normalized in double precision.
pub fn normalized(x: &[f32], gain: &[f32], eps: f32) -> Vec<f64> {
    let row = |row: &[f32]| {
        let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
        let root = (squares / row.len() as f64 + f64::from(eps)).sqrt();
        let scaled = row
            .iter()
            .zip(gain)
            .map(|(x, gain)| f64::from(*x) / root * f64::from(*gain));
        scaled.collect::<Vec<_>>()
    };
    x.chunks(gain.len()).flat_map(row).collect()
}
