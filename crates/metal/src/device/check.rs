//! What every Metal device refuses before anything runs, so that a caller finds it on all of them.

use super::{
    Argument, Buffer, BufferCopy, BufferRange, Device, DeviceError, DeviceInfo, Dispatch, Pipeline,
    Size,
};

/// Highest `n` of `[[buffer(n)]]` and `[[threadgroup(n)]]`.
pub const MAX_INDEX: u32 = 30;

/// Largest value that is bound by copy, in bytes: the limit of Metal's `setBytes`.
pub const MAX_BYTES: usize = 4096;

/// Metal's `setThreadgroupMemoryLength` takes multiples of this many bytes.
const THREADGROUP_MEMORY_STEP: usize = 16;

/// On macOS, copies and fills of buffers start at multiples of this many bytes and have such a length.
const BLIT_STEP: usize = 4;

/// Checks what needs no knowledge of the kernel: extents, indices, sizes and ranges.
pub fn dispatch<D: Device>(
    dispatch: &Dispatch<'_, D>,
    limits: &DeviceInfo,
) -> Result<(), DeviceError> {
    let error = |message: String| encode_error(dispatch, message);
    extents(dispatch).map_err(error)?;
    let mut memory = 0usize;
    for (at, argument) in dispatch.arguments.iter().enumerate() {
        if let Argument::Buffer { range, .. } = argument {
            range.check()?;
        }
        self::argument(argument).map_err(error)?;
        let slot = slot(argument);
        let earlier = &dispatch.arguments[..at];
        if earlier.iter().any(|earlier| self::slot(earlier) == slot) {
            return Err(error(format!("{} {} is set twice", slot.0, slot.1)));
        }
        if let Argument::Threadgroup { bytes, .. } = argument {
            memory = memory.saturating_add(*bytes);
        }
    }
    threadgroup_memory(memory, limits).map_err(error)
}

/// An error of a dispatch that names its kernel.
pub fn encode_error<D: Device>(dispatch: &Dispatch<'_, D>, message: String) -> DeviceError {
    DeviceError::Encode {
        label: dispatch.label.to_owned(),
        message: format!("kernel `{}`: {message}", dispatch.pipeline.kernel()),
    }
}

/// Checks the bytes of threadgroup memory that a threadgroup takes in all.
pub fn threadgroup_memory(bytes: usize, limits: &DeviceInfo) -> Result<(), String> {
    let limit = limits.max_threadgroup_memory;
    if bytes > limit {
        return Err(format!(
            "{bytes} bytes of threadgroup memory, the device has {limit}"
        ));
    }
    Ok(())
}

fn extents<D: Device>(dispatch: &Dispatch<'_, D>) -> Result<(), String> {
    let Size(threadgroup) = dispatch.threadgroup;
    let Size(groups) = dispatch.grid.threadgroups(dispatch.threadgroup);
    let threads = dispatch.threadgroup.count();
    let limit = dispatch.pipeline.max_threads_per_threadgroup();
    if threads == 0 || threads > limit as u64 {
        return Err(format!(
            "{threads} threads in a threadgroup {threadgroup:?}, 1 to {limit} are possible"
        ));
    }
    if groups.contains(&0) {
        return Err(format!("a grid of {groups:?} threadgroups is empty"));
    }
    // Positions in a grid are 32-bit numbers in kernels.
    let linear = Size(groups).count().checked_mul(threads);
    if linear.is_none_or(|linear| linear > u64::from(u32::MAX)) {
        return Err(format!(
            "a grid of {groups:?} threadgroups of {threads} has 2^32 threads or more"
        ));
    }
    Ok(())
}

/// Kind and index of a parameter; buffers and copied values share indices.
fn slot<B>(argument: &Argument<'_, B>) -> (&'static str, u32) {
    match argument {
        Argument::Buffer { index, .. } | Argument::Bytes { index, .. } => ("buffer", *index),
        Argument::Threadgroup { index, .. } => ("threadgroup memory", *index),
    }
}

fn argument<B>(argument: &Argument<'_, B>) -> Result<(), String> {
    let (kind, index) = slot(argument);
    if index > MAX_INDEX {
        return Err(format!("{kind} {index}: the highest index is {MAX_INDEX}"));
    }
    match argument {
        Argument::Bytes { bytes, .. } if bytes.is_empty() || bytes.len() > MAX_BYTES => {
            Err(format!(
                "a copied value has 1 to {MAX_BYTES} bytes, not {}",
                bytes.len()
            ))
        }
        Argument::Threadgroup { bytes, .. }
            if *bytes == 0 || !bytes.is_multiple_of(THREADGROUP_MEMORY_STEP) =>
        {
            Err(format!(
                "threadgroup memory {index}: {bytes} is no multiple of {THREADGROUP_MEMORY_STEP}"
            ))
        }
        _ => Ok(()),
    }
}

/// Checks a copy; the range that it writes.
pub fn copy<'a, B: Buffer>(copy: &BufferCopy<'a, B>) -> Result<BufferRange<'a, B>, DeviceError> {
    let to = BufferRange {
        buffer: copy.to,
        offset: copy.to_offset,
        bytes: copy.from.bytes,
    };
    blit_range(&copy.from)?;
    blit_range(&to)?;
    let (from, bytes) = (copy.from.offset, to.bytes);
    let apart = to.offset + bytes <= from || from + bytes <= to.offset;
    if to.buffer.id() == copy.from.buffer.id() && !apart {
        return Err(DeviceError::Encode {
            label: format!("copy within {}", to.buffer.label()),
            message: format!("{bytes} bytes at {from} and {} overlap", to.offset),
        });
    }
    Ok(to)
}

/// Checks the range of a fill or of one side of a copy.
pub fn blit_range<B: Buffer>(range: &BufferRange<'_, B>) -> Result<(), DeviceError> {
    range.check()?;
    if range.offset.is_multiple_of(BLIT_STEP) && range.bytes.is_multiple_of(BLIT_STEP) {
        return Ok(());
    }
    Err(DeviceError::Encode {
        label: format!("copy or fill of {}", range.buffer.label()),
        message: format!(
            "{} bytes at {}: both must be multiples of {BLIT_STEP}",
            range.bytes, range.offset
        ),
    })
}
