//! Runs a kernel in every mode of the software device.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use minfer_metal::device::{
    Access, Argument, Buffer, BufferRange, ConstantValue, Device, Dispatch, Grid, Size, SourceFile,
};
use minfer_metal::kernels;
use minfer_softmetal::report::{Report, SourcePlace};
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice, SoftLibrary};

/// Widths with every kind of tail.
pub const WIDTHS: [usize; 9] = [1, 31, 32, 33, 255, 256, 257, 896, 1536];

/// Words before and after an operand, which no kernel may touch.
const GUARD: usize = 20;
const GUARD_WORD: u32 = 0x7fc0_1234;

/// An operand: `rows` rows of `width` words, `stride` apart.
#[derive(Clone)]
pub struct Operand {
    pub width: usize,
    pub stride: usize,
    pub words: Vec<u32>,
}

impl Operand {
    /// A value to read, contiguous.
    pub fn input(width: usize, values: &[f32]) -> Self {
        Self::words(width, values.iter().map(|value| value.to_bits()).collect())
    }

    /// Integers to read.
    pub fn integers(values: &[i32]) -> Self {
        Self::words(
            values.len(),
            values.iter().map(|value| value.cast_unsigned()).collect(),
        )
    }

    fn words(width: usize, words: Vec<u32>) -> Self {
        Operand {
            width,
            stride: width,
            words,
        }
    }

    /// Bytes to read, padded to whole words.
    pub fn bytes(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        };
        let words: Vec<_> = bytes.chunks(4).map(word).collect();
        Self::words(words.len(), words)
    }

    /// A place to write.
    pub fn output(width: usize, rows: usize) -> Self {
        Self::words(width, vec![0; width * rows])
    }

    /// The same with rows further apart.
    pub fn strided(mut self, stride: usize) -> Self {
        self.stride = stride;
        self
    }

    /// As in memory, with guard words around and between rows.
    fn memory(&self) -> Vec<u32> {
        let rows = self.words.len() / self.width;
        let mut memory = vec![GUARD_WORD; GUARD + rows * self.stride + GUARD];
        for (row, values) in self.words.chunks(self.width).enumerate() {
            memory[GUARD + row * self.stride..][..self.width].copy_from_slice(values);
        }
        memory
    }

    /// Bytes from the first to the last word.
    fn byte_length(&self) -> usize {
        let rows = self.words.len() / self.width;
        4 * ((rows - 1) * self.stride + self.width)
    }
}

/// A kernel with everything it needs.
pub struct Launch<'a> {
    pub file: SourceFile<'static>,
    pub kernel: &'a str,
    pub constants: &'a [(u32, ConstantValue)],
    /// Argument struct, `[[buffer(0)]]`.
    pub arguments: &'a [u8],
    /// Memory; the first is written.
    pub operands: Vec<Operand>,
    /// Operand of each buffer index from 1 on. Index 1 is the output.
    pub bindings: &'a [usize],
    pub grid: Grid,
    pub threadgroup: [u32; 3],
}

/// What one run left behind.
pub struct Outcome {
    pub reports: Vec<Report>,
    pub barriers: Vec<SourcePlace>,
    /// Memory of the operands after the run.
    memory: Vec<Vec<u32>>,
}

type Libraries = Mutex<HashMap<(&'static str, bool), SoftLibrary>>;
static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::default);

impl Launch<'_> {
    /// Runs the kernel in every mode; the words of the first operand.
    pub fn run(&self) -> Vec<u32> {
        let modes = [
            (Mode::Checked, false),
            (Mode::Checked, true),
            (Mode::CheckedFreeRunning, false),
            (Mode::CheckedFreeRunning, true),
            (Mode::Unchecked, false),
        ];
        let mut outcomes = modes.map(|(mode, reversed)| {
            let options = Options {
                mode,
                reversed,
                ..options()
            };
            (options.clone(), self.run_with(options))
        });
        let first = std::mem::take(&mut outcomes[0].1.memory);
        for (options, outcome) in &outcomes {
            let texts: Vec<_> = outcome.reports.iter().map(Report::to_string).collect();
            assert_eq!(texts, [""; 0], "{options:?}");
        }
        for (options, outcome) in &outcomes[1..] {
            assert!(outcome.memory == first, "other bits in {options:?}");
        }
        self.check_guards(&first);
        let operand = &self.operands[0];
        first[0][GUARD..]
            .chunks(operand.stride)
            .take(operand.words.len() / operand.width)
            .flat_map(|row| row[..operand.width].to_vec())
            .collect()
    }

    /// The same as floats.
    pub fn run_floats(&self) -> Vec<f32> {
        self.run().into_iter().map(f32::from_bits).collect()
    }

    /// Nothing but the words of written operands has changed.
    fn check_guards(&self, memory: &[Vec<u32>]) {
        for (index, (operand, after)) in self.operands.iter().zip(memory).enumerate() {
            let before = operand.memory();
            let is_row = |at: usize| {
                let offset = at
                    .checked_sub(GUARD)
                    .filter(|offset| *offset < 4 * operand.byte_length());
                offset.is_some_and(|offset| offset % operand.stride < operand.width)
            };
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                let may_change = index == 0 && is_row(at);
                assert!(
                    may_change || before == after,
                    "word {at} of an operand was touched"
                );
            }
        }
    }

    /// Every barrier of the kernel is needed: without it, the checker reports something.
    pub fn assert_barriers_are_needed(&self) {
        let places = self.run_with(options()).barriers;
        assert!(!places.is_empty());
        for place in places {
            let options = Options {
                without_barrier: Some(place.clone()),
                ..options()
            };
            let reports = self.run_with(options).reports;
            assert!(
                !reports.is_empty(),
                "the barrier at {place:?} can be left out"
            );
        }
    }

    fn run_with(&self, options: Options) -> Outcome {
        let checked = options.mode != Mode::Unchecked;
        let device = SoftDevice::new(options);
        let library = library(&device, self.file, checked);
        let pipeline = device
            .pipeline(&library, self.kernel, self.constants)
            .unwrap();
        let buffers: Vec<_> = self
            .operands
            .iter()
            .enumerate()
            .map(|(index, operand)| upload(&device, index, operand))
            .collect();
        let mut arguments = vec![Argument::Bytes {
            index: 0,
            bytes: self.arguments,
        }];
        arguments.extend(self.bindings.iter().enumerate().map(|(index, &operand)| {
            Argument::Buffer {
                index: index as u32 + 1,
                range: BufferRange {
                    buffer: &buffers[operand],
                    offset: 4 * GUARD,
                    bytes: self.operands[operand].byte_length(),
                },
                access: if index == 0 {
                    Access::Write
                } else {
                    Access::Read
                },
            }
        }));
        let dispatch = Dispatch {
            label: self.kernel,
            pipeline: &pipeline,
            arguments: &arguments,
            grid: self.grid,
            threadgroup: Size(self.threadgroup),
        };
        // Reports say more than the error.
        let _ = device.run(&dispatch, Duration::from_secs(60));
        Outcome {
            reports: device.take_reports(),
            barriers: device.barriers(),
            memory: buffers.iter().map(download).collect(),
        }
    }
}

fn options() -> Options {
    Options {
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    }
}

/// Compiled once per build, for all devices.
pub fn library(device: &SoftDevice, file: SourceFile<'static>, checked: bool) -> SoftLibrary {
    let mut libraries = LIBRARIES.lock().unwrap();
    let compile = || device.library(&kernels::library(file).unwrap()).unwrap();
    libraries
        .entry((file.name, checked))
        .or_insert_with(compile)
        .clone()
}

fn upload(device: &SoftDevice, index: usize, operand: &Operand) -> SoftBuffer {
    let memory = operand.memory();
    let buffer = device
        .buffer(4 * memory.len(), &format!("operand {index}"))
        .unwrap();
    let bytes: Vec<_> = memory.iter().flat_map(|word| word.to_le_bytes()).collect();
    buffer.write(0, &bytes).unwrap();
    buffer
}

fn download(buffer: &SoftBuffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes()];
    buffer.read(0, &mut bytes).unwrap();
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u32::from_le_bytes(*chunk))
        .collect()
}

/// Values that look random, between -2 and 2.
pub fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / (1u32 << 30) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// Largest difference from a reference, relative to its largest magnitude.
pub fn difference(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let differences = found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (f64::from(*found) - expected).abs());
    // NaN must not pass.
    differences.fold(0.0, |most: f64, d| if d <= most { most } else { d }) / largest
}
