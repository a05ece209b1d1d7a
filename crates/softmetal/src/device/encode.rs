//! Encoders: they check what can be checked before anything runs.

use minfer_metal::device::{
    Access, Argument, BlitEncoder, Buffer, BufferCopy, BufferRange, ComputeEncoder, DeviceError,
    Dispatch, Grid, Order, Pipeline, Size,
};

use super::SoftDevice;
use super::commands::{Bound, Command, Recorded, SoftCommandBuffer, Value};
use super::memory::SoftBuffer;
use crate::module::{MAX_INDEX, Parameter, Slot};

/// Largest value that is bound by copy, in bytes.
const MAX_BYTES: usize = 4096;

/// Compute encoder of the software device.
pub struct SoftComputeEncoder {
    buffer: SoftCommandBuffer,
    order: Order,
}

impl SoftComputeEncoder {
    pub(super) fn new(buffer: SoftCommandBuffer, order: Order) -> Self {
        SoftComputeEncoder { buffer, order }
    }
}

impl ComputeEncoder<SoftDevice> for SoftComputeEncoder {
    fn dispatch(&mut self, dispatch: &Dispatch<'_, SoftDevice>) -> Result<(), DeviceError> {
        let recorded = Box::new(record(&self.buffer.device, dispatch)?);
        self.buffer.commands.push(Command::Dispatch(recorded));
        if self.order == Order::Serial {
            self.barrier();
        }
        Ok(())
    }

    fn barrier(&mut self) {
        self.buffer.commands.push(Command::Barrier);
    }

    fn end(mut self) -> SoftCommandBuffer {
        self.barrier();
        self.buffer
    }
}

fn record(
    device: &SoftDevice,
    dispatch: &Dispatch<'_, SoftDevice>,
) -> Result<Recorded, DeviceError> {
    let error = |message: String| DeviceError::Encode {
        label: dispatch.label.to_owned(),
        message: format!("kernel `{}`: {message}", dispatch.pipeline.kernel()),
    };
    check_extents(dispatch).map_err(error)?;
    let mut buffers = Vec::new();
    let mut threadgroup_memory = Vec::new();
    for argument in dispatch.arguments {
        match argument {
            Argument::Buffer {
                index,
                range,
                access,
            } => {
                range.check()?;
                own(device, range.buffer)?;
                buffers.push((*index, buffer(range, *access).map_err(error)?));
            }
            Argument::Bytes { index, bytes } => {
                buffers.push((*index, copied(bytes).map_err(error)?))
            }
            Argument::Threadgroup { index, bytes } => {
                if *bytes == 0 || !bytes.is_multiple_of(16) {
                    return Err(error(format!(
                        "threadgroup memory {index}: {bytes} is no multiple of 16"
                    )));
                }
                if *index > MAX_INDEX {
                    return Err(error(format!(
                        "threadgroup memory {index}: the highest index is {MAX_INDEX}"
                    )));
                }
                let index = *index as usize;
                threadgroup_memory.resize(threadgroup_memory.len().max(index + 1), 0);
                threadgroup_memory[index] = *bytes;
            }
        }
    }
    let total = threadgroup_memory
        .iter()
        .fold(0usize, |total, &bytes| total.saturating_add(bytes));
    let limit = device.0.info.max_threadgroup_memory;
    if total > limit {
        return Err(error(format!(
            "{total} bytes of threadgroup memory, the device has {limit}"
        )));
    }
    for parameter in &dispatch.pipeline.entry().parameters {
        check_parameter(parameter, &buffers, &threadgroup_memory).map_err(error)?;
    }
    check_indices(&buffers, &dispatch.pipeline.entry().parameters).map_err(error)?;
    let threadgroups = dispatch.grid.threadgroups(dispatch.threadgroup);
    let threads = match dispatch.grid {
        Grid::Threads(threads) => threads.0,
        Grid::Threadgroups(groups) => {
            [0, 1, 2].map(|axis| groups.0[axis] * dispatch.threadgroup.0[axis])
        }
    };
    Ok(Recorded {
        label: dispatch.label.to_owned(),
        pipeline: dispatch.pipeline.clone(),
        buffers,
        threadgroup_memory,
        threads,
        threadgroup: dispatch.threadgroup.0,
        threadgroups: threadgroups.0,
    })
}

fn check_extents(dispatch: &Dispatch<'_, SoftDevice>) -> Result<(), String> {
    let Size(threadgroup) = dispatch.threadgroup;
    let Size(groups) = dispatch.grid.threadgroups(dispatch.threadgroup);
    let threads = dispatch.threadgroup.count();
    let limit = dispatch.pipeline.max_threads_per_threadgroup();
    if threads == 0 || threads > limit as u64 {
        return Err(format!(
            "{threads} threads in a threadgroup {threadgroup:?}, 1 to {limit} are possible"
        ));
    }
    let linear = Size(groups).count().checked_mul(threads);
    if groups.contains(&0) || linear.is_none_or(|linear| linear > u64::from(u32::MAX)) {
        return Err(format!(
            "a grid of {groups:?} threadgroups is empty or has more than 2^32 threads"
        ));
    }
    Ok(())
}

fn buffer(range: &BufferRange<'_, SoftBuffer>, access: Access) -> Result<Value, String> {
    let writable = access == Access::Write;
    if writable && !range.buffer.is_writable() {
        return Err(format!(
            "buffer `{}` wraps memory that may only be read",
            range.buffer.label()
        ));
    }
    Ok(Value::Buffer {
        range: bound(range),
        writable,
    })
}

fn copied(bytes: &[u8]) -> Result<Value, String> {
    if bytes.is_empty() || bytes.len() > MAX_BYTES {
        return Err(format!(
            "a copied value has 1 to {MAX_BYTES} bytes, not {}",
            bytes.len()
        ));
    }
    let words = bytes.chunks(16).map(|chunk| {
        let mut word = [0; 16];
        word[..chunk.len()].copy_from_slice(chunk);
        u128::from_ne_bytes(word)
    });
    Ok(Value::Bytes(words.collect(), bytes.len()))
}

fn bound(range: &BufferRange<'_, SoftBuffer>) -> Bound {
    Bound {
        buffer: range.buffer.clone(),
        offset: range.offset,
        bytes: range.bytes,
    }
}

/// Every parameter is bound to something that is large enough and aligned for its type.
fn check_parameter(
    parameter: &Parameter,
    buffers: &[(u32, Value)],
    memory: &[usize],
) -> Result<(), String> {
    let name = &parameter.name;
    let index = match parameter.slot {
        Slot::Builtin { .. } => return Ok(()),
        Slot::Threadgroup(index) => {
            return match memory.get(index as usize).copied().unwrap_or(0) {
                0 => Err(format!("threadgroup memory {index} (`{name}`) is not set")),
                _ => Ok(()),
            };
        }
        Slot::Buffer(index) => index,
    };
    let value = buffers.iter().find(|(at, _)| *at == index);
    if parameter.read_only && matches!(value, Some((_, Value::Buffer { writable: true, .. }))) {
        return Err(format!(
            "buffer {index} (`{name}`) is const, and bound for writing"
        ));
    }
    let (bytes, offset) = match value {
        Some((_, Value::Buffer { range, .. })) => (range.bytes, range.offset),
        Some((_, Value::Bytes(_, bytes))) => (*bytes, 0),
        None => return Err(format!("buffer {index} (`{name}`) is not set")),
    };
    if bytes < parameter.needs {
        return Err(format!(
            "buffer {index} (`{name}`) has {bytes} bytes, its type {}",
            parameter.needs
        ));
    }
    if !offset.is_multiple_of(parameter.align) {
        let align = parameter.align;
        return Err(format!(
            "buffer {index} (`{name}`): offset {offset} is no multiple of {align}"
        ));
    }
    Ok(())
}

/// Every buffer belongs to a parameter, and no index is used twice.
fn check_indices(buffers: &[(u32, Value)], parameters: &[Parameter]) -> Result<(), String> {
    for (at, (index, _)) in buffers.iter().enumerate() {
        if !parameters
            .iter()
            .any(|parameter| parameter.slot == Slot::Buffer(*index))
        {
            return Err(format!("no parameter has [[buffer({index})]]"));
        }
        if buffers[..at].iter().any(|(other, _)| other == index) {
            return Err(format!("buffer {index} is set twice"));
        }
    }
    Ok(())
}

/// Blit encoder of the software device.
pub struct SoftBlitEncoder {
    buffer: SoftCommandBuffer,
}

impl SoftBlitEncoder {
    pub(super) fn new(buffer: SoftCommandBuffer) -> Self {
        SoftBlitEncoder { buffer }
    }
}

impl BlitEncoder<SoftDevice> for SoftBlitEncoder {
    fn copy(&mut self, copy: BufferCopy<'_, SoftBuffer>) -> Result<(), DeviceError> {
        let to = BufferRange {
            buffer: copy.to,
            offset: copy.to_offset,
            bytes: copy.from.bytes,
        };
        copy.from.check()?;
        own(&self.buffer.device, copy.from.buffer)?;
        own(&self.buffer.device, to.buffer)?;
        writable(&to)?;
        let apart =
            to.offset + to.bytes <= copy.from.offset || copy.from.offset + to.bytes <= to.offset;
        if to.buffer.id() == copy.from.buffer.id() && !apart {
            return Err(DeviceError::Encode {
                label: format!("copy within `{}`", to.buffer.label()),
                message: format!(
                    "{} bytes at {} and {} overlap",
                    to.bytes, copy.from.offset, to.offset
                ),
            });
        }
        let (from, to) = (bound(&copy.from), bound(&to));
        self.buffer.commands.push(Command::Copy { from, to });
        Ok(())
    }

    fn fill(&mut self, range: BufferRange<'_, SoftBuffer>, value: u8) -> Result<(), DeviceError> {
        own(&self.buffer.device, range.buffer)?;
        writable(&range)?;
        let range = bound(&range);
        self.buffer.commands.push(Command::Fill { range, value });
        Ok(())
    }

    fn end(mut self) -> SoftCommandBuffer {
        self.buffer.commands.push(Command::Barrier);
        self.buffer
    }
}

/// Only the device's own lock keeps the host away from a buffer while commands run.
fn own(device: &SoftDevice, buffer: &SoftBuffer) -> Result<(), DeviceError> {
    if buffer.is_of(&device.0.busy) {
        return Ok(());
    }
    Err(DeviceError::Encode {
        label: format!("buffer `{}`", buffer.label()),
        message: "it belongs to another device".into(),
    })
}

fn writable(range: &BufferRange<'_, SoftBuffer>) -> Result<(), DeviceError> {
    range.check()?;
    if range.buffer.is_writable() {
        return Ok(());
    }
    Err(DeviceError::ReadOnly {
        buffer: range.buffer.label().to_owned(),
    })
}
