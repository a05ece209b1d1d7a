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
use minfer_softmetal::{KernelStatistics, Mode, Options, SoftBuffer, SoftDevice, SoftLibrary};

/// Words before and after an operand, which no kernel may touch: whole segments of memory.
const GUARD: usize = 32;
const GUARD_WORD: u32 = 0x7fc0_1234;

/// An operand: `rows` rows of `width` words, `stride` apart.
#[derive(Clone)]
pub struct Operand {
    pub width: usize,
    pub stride: usize,
    pub words: Vec<u32>,
    /// Bytes of the last word that are beyond the end.
    padding: usize,
    is_output: bool,
}

/// The binding of a parameter that the function constants leave out.
pub const ABSENT: usize = usize::MAX;

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
            padding: 0,
            is_output: false,
        }
    }

    /// Bytes to read, in whole words; what fills the last is out of bounds.
    pub fn bytes(bytes: &[u8]) -> Self {
        let word = |chunk: &[u8]| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        };
        let words: Vec<_> = bytes.chunks(4).map(word).collect();
        Operand {
            padding: 4 * words.len() - bytes.len(),
            ..Self::words(words.len(), words)
        }
    }

    /// A place to write.
    pub fn output(width: usize, rows: usize) -> Self {
        Operand {
            is_output: true,
            ..Self::words(width, vec![0; width * rows])
        }
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

    /// Bytes from the first to the last element.
    fn byte_length(&self) -> usize {
        let rows = self.words.len() / self.width;
        4 * ((rows - 1) * self.stride + self.width) - self.padding
    }
}

/// A kernel with everything it needs.
pub struct Launch {
    pub file: SourceFile<'static>,
    pub kernel: String,
    pub constants: Vec<(u32, ConstantValue)>,
    /// Argument struct, `[[buffer(0)]]`.
    pub arguments: Vec<u8>,
    /// Memory; the first is written, and so are outputs.
    pub operands: Vec<Operand>,
    /// Operand of each buffer index from 1 on, [`ABSENT`] for none. Index 1 is an output.
    pub bindings: Vec<usize>,
    pub grid: Grid,
    pub threadgroup: [u32; 3],
}

/// What one run left behind.
pub struct Outcome {
    pub reports: Vec<Report>,
    pub barriers: Vec<SourcePlace>,
    pub statistics: KernelStatistics,
    /// Memory of the operands after the run.
    memory: Vec<Vec<u32>>,
}

type Libraries = Mutex<HashMap<(&'static str, bool), SoftLibrary>>;
static LIBRARIES: LazyLock<Libraries> = LazyLock::new(Libraries::default);

impl Launch {
    /// Runs the kernel in every mode; the words of the first operand.
    pub fn run(&self) -> Vec<u32> {
        let modes = [
            (Mode::Checked, false),
            (Mode::Checked, true),
            (Mode::CheckedFreeRunning, false),
            (Mode::CheckedFreeRunning, true),
            (Mode::Unchecked, false),
            (Mode::Unchecked, true),
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
        self.output(&first)
    }

    /// Runs the kernel in one mode; the words of the first operand.
    pub fn words(&self, options: Options) -> Vec<u32> {
        let outcome = self.run_with(options);
        assert!(outcome.reports.is_empty(), "{}", outcome.reports[0]);
        self.output(&outcome.memory)
    }

    fn output(&self, memory: &[Vec<u32>]) -> Vec<u32> {
        let operand = &self.operands[0];
        memory[0][GUARD..]
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
                let may_change = (index == 0 || operand.is_output) && is_row(at);
                assert!(
                    may_change || before == after,
                    "word {at} of an operand was touched"
                );
            }
        }
    }

    /// Runs the kernel in one mode.
    pub fn run_with(&self, options: Options) -> Outcome {
        let checked = options.mode != Mode::Unchecked;
        let device = SoftDevice::new(options);
        let library = library(&device, self.file, checked);
        let pipeline = device
            .pipeline(&library, &self.kernel, &self.constants)
            .unwrap();
        let buffers: Vec<_> = self
            .operands
            .iter()
            .enumerate()
            .map(|(index, operand)| upload(&device, index, operand))
            .collect();
        let mut arguments = vec![Argument::Bytes {
            index: 0,
            bytes: &self.arguments,
        }];
        let bound = |(index, &operand): (u32, &usize)| {
            let described = self.operands.get(operand)?;
            Some(Argument::Buffer {
                index,
                range: BufferRange {
                    buffer: &buffers[operand],
                    offset: 4 * GUARD,
                    bytes: described.byte_length(),
                },
                access: if index == 1 || described.is_output {
                    Access::Write
                } else {
                    Access::Read
                },
            })
        };
        arguments.extend((1..).zip(&self.bindings).filter_map(bound));
        let dispatch = Dispatch {
            label: &self.kernel,
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
            statistics: device.statistics().pop().unwrap(),
            memory: buffers.iter().map(download).collect(),
        }
    }
}

/// Lockstep with checks; compiled kernels are kept between test runs.
pub fn options() -> Options {
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
