//! Encoded work that outlives what it was encoded from.

use super::format::{Binding, Constant, HexBytes, InlineValue, Launch, Role, ThreadgroupMemory};
use super::recorder::{RecordedPipeline, Recorder};
use crate::device::{
    Access, Argument, Buffer, BufferCopy, BufferRange, Device, DeviceError, Dispatch, Grid,
    Pipeline, Size,
};

/// Alignment of a memory's part: no MSL type needs more, so that a replay aligns everything as it was.
const PART_ALIGNMENT: usize = 16;

/// One command.
pub(super) enum Work<D: Device> {
    Dispatch(OwnedDispatch<D>),
    Copy(OwnedCopy<D::Buffer>),
    Fill(Fill<D::Buffer>),
}

/// A range of a buffer.
#[derive(Clone)]
pub(super) struct OwnedRange<B> {
    buffer: B,
    offset: usize,
    bytes: usize,
}

impl<B: Buffer> OwnedRange<B> {
    fn new(range: &BufferRange<'_, B>) -> Self {
        OwnedRange {
            buffer: range.buffer.clone(),
            offset: range.offset,
            bytes: range.bytes,
        }
    }

    pub fn borrowed(&self) -> BufferRange<'_, B> {
        BufferRange {
            buffer: &self.buffer,
            offset: self.offset,
            bytes: self.bytes,
        }
    }
}

/// A copy.
pub(super) struct OwnedCopy<B> {
    from: OwnedRange<B>,
    to: B,
    to_offset: usize,
}

impl<B: Buffer> OwnedCopy<B> {
    pub fn new(copy: &BufferCopy<'_, B>) -> Self {
        OwnedCopy {
            from: OwnedRange::new(&copy.from),
            to: copy.to.clone(),
            to_offset: copy.to_offset,
        }
    }

    pub fn borrowed(&self) -> BufferCopy<'_, B> {
        BufferCopy {
            from: self.from.borrowed(),
            to: &self.to,
            to_offset: self.to_offset,
        }
    }
}

/// A fill.
pub(super) struct Fill<B> {
    pub range: OwnedRange<B>,
    pub value: u8,
}

impl<B: Buffer> Fill<B> {
    pub fn new(range: BufferRange<'_, B>, value: u8) -> Self {
        let range = OwnedRange::new(&range);
        Fill { range, value }
    }
}

enum OwnedArgument<B> {
    Buffer {
        index: u32,
        range: OwnedRange<B>,
        access: Access,
    },
    Bytes {
        index: u32,
        bytes: Box<[u8]>,
    },
    Threadgroup {
        index: u32,
        bytes: usize,
    },
}

/// A dispatch.
pub(super) struct OwnedDispatch<D: Device> {
    pub label: String,
    pub pipeline: RecordedPipeline<D>,
    arguments: Vec<OwnedArgument<D::Buffer>>,
    grid: Grid,
    threadgroup: Size,
}

/// Part of a buffer that a dispatch touches.
pub(super) struct Part<B> {
    pub buffer: B,
    pub start: usize,
    pub end: usize,
    pub written: bool,
}

impl<B: Buffer> Part<B> {
    /// Its contents now. Bytes that were discarded, which a device may refuse to read, are zeros.
    pub fn read(&self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; self.end - self.start];
        let mut at = self.start;
        loop {
            let rest = &mut bytes[at - self.start..];
            let discarded = match self.buffer.read(at, rest) {
                Ok(()) => return Ok(bytes),
                Err(DeviceError::Discarded { offset, .. }) => offset,
                Err(error) => return Err(error),
            };
            self.buffer.read(at, &mut rest[..discarded - at])?;
            at = discarded + 1;
        }
    }
}

impl<D: Device> OwnedDispatch<D> {
    pub fn new(dispatch: &Dispatch<'_, Recorder<D>>) -> Self {
        let arguments = dispatch.arguments.iter().map(|argument| match argument {
            Argument::Buffer {
                index,
                range,
                access,
            } => OwnedArgument::Buffer {
                index: *index,
                range: OwnedRange::new(range),
                access: *access,
            },
            Argument::Bytes { index, bytes } => OwnedArgument::Bytes {
                index: *index,
                bytes: (*bytes).into(),
            },
            Argument::Threadgroup { index, bytes } => OwnedArgument::Threadgroup {
                index: *index,
                bytes: *bytes,
            },
        });
        OwnedDispatch {
            label: dispatch.label.to_owned(),
            pipeline: dispatch.pipeline.clone(),
            arguments: arguments.collect(),
            grid: dispatch.grid,
            threadgroup: dispatch.threadgroup,
        }
    }

    /// Calls `then` with the dispatch as the inner device takes it.
    pub fn with<R>(&self, then: impl FnOnce(&Dispatch<'_, D>) -> R) -> R {
        let arguments = self.arguments.iter().map(|argument| match argument {
            OwnedArgument::Buffer {
                index,
                range,
                access,
            } => Argument::Buffer {
                index: *index,
                range: range.borrowed(),
                access: *access,
            },
            OwnedArgument::Bytes { index, bytes } => Argument::Bytes {
                index: *index,
                bytes,
            },
            OwnedArgument::Threadgroup { index, bytes } => Argument::Threadgroup {
                index: *index,
                bytes: *bytes,
            },
        });
        let arguments: Vec<_> = arguments.collect();
        then(&Dispatch {
            label: &self.label,
            pipeline: &self.pipeline.pipeline,
            arguments: &arguments,
            grid: self.grid,
            threadgroup: self.threadgroup,
        })
    }

    /// What is launched, with its source in the file `source`, and the memory it touches.
    pub fn describe(&self, source: String) -> (Launch, Vec<Part<D::Buffer>>) {
        let parts = self.parts();
        let (grid_unit, grid) = self.grid.into();
        let constants = self.pipeline.constants.iter();
        let mut launch = Launch {
            kernel: self.pipeline.kernel().to_owned(),
            source,
            constants: constants
                .map(|&(index, value)| Constant::new(index, value))
                .collect(),
            grid_unit,
            grid,
            threadgroup: self.threadgroup.0,
            threadgroup_memory: Vec::new(),
            values: Vec::new(),
            buffers: Vec::new(),
        };
        for argument in &self.arguments {
            match argument {
                OwnedArgument::Buffer {
                    index,
                    range,
                    access,
                } => launch
                    .buffers
                    .extend(binding(*index, range, *access, &parts)),
                OwnedArgument::Bytes { index, bytes } => launch.values.push(InlineValue {
                    index: *index,
                    bytes: HexBytes(bytes.to_vec()),
                }),
                OwnedArgument::Threadgroup { index, bytes } => {
                    launch.threadgroup_memory.push(ThreadgroupMemory {
                        index: *index,
                        bytes: *bytes,
                    });
                }
            }
        }
        (launch, parts)
    }

    /// Memory of the buffer arguments: ranges of one buffer that overlap are one part.
    fn parts(&self) -> Vec<Part<D::Buffer>> {
        let mut parts: Vec<Part<D::Buffer>> = Vec::new();
        for argument in &self.arguments {
            let OwnedArgument::Buffer { range, access, .. } = argument else {
                continue;
            };
            let mut part = Part {
                buffer: range.buffer.clone(),
                start: range.offset - range.offset % PART_ALIGNMENT,
                end: range.offset + range.bytes,
                written: *access == Access::Write,
            };
            // What was apart may be joined by this range, so the parts that it touches all go into it.
            let mut at = parts.len();
            for index in (0..parts.len()).rev() {
                if parts[index].overlaps(&part) {
                    part.absorb(&parts.remove(index));
                    at = index;
                }
            }
            parts.insert(at, part);
        }
        parts
    }
}

impl<B: Buffer> Part<B> {
    fn overlaps(&self, other: &Self) -> bool {
        self.buffer.id() == other.buffer.id() && self.start < other.end && other.start < self.end
    }

    fn absorb(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.written |= other.written;
    }
}

/// The binding of a range to the part that has it.
fn binding<B: Buffer>(
    index: u32,
    range: &OwnedRange<B>,
    access: Access,
    parts: &[Part<B>],
) -> Option<Binding> {
    let holds = |part: &Part<B>| {
        let end = range.offset + range.bytes;
        part.buffer.id() == range.buffer.id() && part.start <= range.offset && end <= part.end
    };
    let memory = parts.iter().position(holds)?;
    Some(Binding {
        index,
        memory,
        offset: range.offset - parts[memory].start,
        bytes: range.bytes,
        role: Role::from(access),
    })
}
