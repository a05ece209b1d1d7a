//! Encoders: they check what can be checked before anything runs.

use minfer_metal::device::{
    Access, Argument, BlitEncoder, Buffer, BufferCopy, BufferRange, ComputeEncoder, DeviceError,
    Dispatch, Grid, Order, check,
};

use super::SoftDevice;
use super::commands::{Bound, Command, Line, Recorded, SoftCommandBuffer, Value};
use super::memory::SoftBuffer;
use crate::module::{Parameter, Slot};

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
            self.buffer.commands.push(Command::Ordered);
        }
        Ok(())
    }

    fn barrier(&mut self) {
        self.buffer.commands.push(Command::Barrier);
    }

    fn end(mut self) -> SoftCommandBuffer {
        self.buffer.commands.push(Command::End);
        self.buffer
    }
}

fn record(
    device: &SoftDevice,
    dispatch: &Dispatch<'_, SoftDevice>,
) -> Result<Recorded, DeviceError> {
    check::dispatch(dispatch, &device.0.info)?;
    let error = |message: String| check::encode_error(dispatch, message);
    let mut buffers = Vec::new();
    let mut threadgroup_memory = Vec::new();
    for argument in dispatch.arguments {
        match argument {
            Argument::Buffer {
                index,
                range,
                access,
            } => {
                own(device, range.buffer)?;
                buffers.push((*index, buffer(range, *access).map_err(error)?));
            }
            Argument::Bytes { index, bytes } => buffers.push((*index, copied(bytes))),
            Argument::Threadgroup { index, bytes } => {
                let index = *index as usize;
                threadgroup_memory.resize(threadgroup_memory.len().max(index + 1), 0);
                threadgroup_memory[index] = *bytes;
            }
        }
    }
    for parameter in dispatch.pipeline.parameters() {
        check_parameter(parameter, &buffers, &threadgroup_memory).map_err(error)?;
    }
    check_indices(&buffers, &dispatch.pipeline.entry().parameters).map_err(error)?;
    for parameter in &dispatch.pipeline.entry().parameters {
        if let Slot::Threadgroup(index) = parameter.slot {
            let count = threadgroup_memory.len().max(index as usize + 1);
            threadgroup_memory.resize(count, 0);
        }
    }
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

fn copied(bytes: &[u8]) -> Value {
    let lines = bytes.chunks(64).map(|chunk| {
        let mut line = [0; 64];
        line[..chunk.len()].copy_from_slice(chunk);
        Line(line)
    });
    Value::Bytes(lines.collect(), bytes.len())
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

/// Every buffer belongs to a parameter.
fn check_indices(buffers: &[(u32, Value)], parameters: &[Parameter]) -> Result<(), String> {
    for (index, _) in buffers {
        if !parameters
            .iter()
            .any(|parameter| parameter.slot == Slot::Buffer(*index))
        {
            return Err(format!("no parameter has [[buffer({index})]]"));
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
        let to = check::copy(&copy)?;
        own(&self.buffer.device, copy.from.buffer)?;
        own(&self.buffer.device, to.buffer)?;
        writable(&to)?;
        let (from, to) = (bound(&copy.from), bound(&to));
        let copy = Command::Copy { from, to };
        self.buffer.commands.extend([copy, Command::Ordered]);
        Ok(())
    }

    fn fill(&mut self, range: BufferRange<'_, SoftBuffer>, value: u8) -> Result<(), DeviceError> {
        check::blit_range(&range)?;
        own(&self.buffer.device, range.buffer)?;
        writable(&range)?;
        let range = bound(&range);
        let fill = Command::Fill { range, value };
        self.buffer.commands.extend([fill, Command::Ordered]);
        Ok(())
    }

    fn end(mut self) -> SoftCommandBuffer {
        self.buffer.commands.push(Command::End);
        self.buffer
    }
}

/// Only the device's own lock keeps the host away from a buffer while commands run.
fn own(device: &SoftDevice, buffer: &SoftBuffer) -> Result<(), DeviceError> {
    if buffer.is_of(&device.0.busy) {
        return Ok(());
    }
    Err(DeviceError::Encode {
        label: format!("buffer {}", buffer.label()),
        message: "it belongs to another device".into(),
    })
}

fn writable(range: &BufferRange<'_, SoftBuffer>) -> Result<(), DeviceError> {
    if range.buffer.is_writable() {
        return Ok(());
    }
    Err(DeviceError::ReadOnly {
        buffer: range.buffer.label().to_owned(),
    })
}
