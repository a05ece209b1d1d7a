//! Compute encoders.

use std::ffi::c_void;
use std::ptr::NonNull;

use objc2::rc::autoreleasepool;
use objc2_foundation::NSString;
use objc2_metal::{
    MTLBarrierScope, MTLCommandBuffer, MTLCommandEncoder, MTLComputeCommandEncoder,
    MTLDispatchType, MTLSize,
};

use super::commands::{AppleCommandBuffer, Encoding, Fence};
use super::pipeline::{Parameter, Slot};
use super::{AppleBuffer, AppleDevice};
use crate::device::{
    Access, Argument, ComputeEncoder, DeviceError, Dispatch, Grid, Order, Size, check,
};

/// A compute encoder of a GPU.
///
/// Metal's serial encoders ignore barriers, and nothing says that they order buffers that Metal does not track. So
/// both orders are concurrent encoders, and a serial one has a barrier between any two dispatches.
pub struct AppleComputeEncoder {
    encoding: Encoding<dyn MTLComputeCommandEncoder>,
    commands: AppleCommandBuffer,
    order: Order,
    /// For the end, when buffers were used that Metal does not track.
    fence: Option<Fence>,
    /// Indices whose threadgroup memory has a length, as bits.
    threadgroup_memory: u32,
    is_empty: bool,
}

// SAFETY: as `AppleCommandBuffer`.
unsafe impl Send for AppleComputeEncoder {}

impl AppleComputeEncoder {
    pub(super) fn new(commands: AppleCommandBuffer, order: Order) -> Result<Self, DeviceError> {
        let metal = autoreleasepool(|_| {
            let metal = commands.metal();
            metal.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent)
        });
        let metal = metal.ok_or_else(|| commands.error("Metal gives no compute encoder"))?;
        let encoding = Encoding::new(metal, commands.label());
        autoreleasepool(|_| {
            for fence in commands.awaited() {
                encoding.metal().waitForFence(fence);
            }
        });
        Ok(AppleComputeEncoder {
            encoding,
            commands,
            order,
            fence: None,
            threadgroup_memory: 0,
            is_empty: true,
        })
    }

    fn bind(&mut self, argument: &Argument<'_, AppleBuffer>) {
        let metal = self.encoding.metal();
        match *argument {
            Argument::Buffer { index, range, .. } => {
                // SAFETY: the index is at most 30 and the offset within the buffer, which the command buffer holds.
                unsafe {
                    metal.setBuffer_offset_atIndex(
                        Some(range.buffer.metal()),
                        range.offset,
                        index as usize,
                    );
                }
            }
            Argument::Bytes { index, bytes } => {
                let pointer: NonNull<c_void> = NonNull::from(bytes).cast();
                // SAFETY: as above; Metal copies the 1 to 4096 bytes.
                unsafe { metal.setBytes_length_atIndex(pointer, bytes.len(), index as usize) };
            }
            Argument::Threadgroup { index, bytes } => {
                // SAFETY: the index is at most 30, the length a multiple of 16 within the device's limit.
                unsafe { metal.setThreadgroupMemoryLength_atIndex(bytes, index as usize) };
            }
        }
    }

    /// Takes the lengths back that earlier dispatches gave and this one does not: they would count.
    fn bind_threadgroup_memory(&mut self, dispatch: &Dispatch<'_, AppleDevice>) {
        let given = dispatch
            .arguments
            .iter()
            .fold(0, |given, argument| match argument {
                Argument::Threadgroup { index, .. } => given | 1 << index,
                _ => given,
            });
        let left = self.threadgroup_memory & !given;
        for index in (0..=check::MAX_INDEX).filter(|index| left & 1 << index != 0) {
            // SAFETY: the index is at most 30.
            unsafe {
                self.encoding
                    .metal()
                    .setThreadgroupMemoryLength_atIndex(0, index as usize);
            }
        }
        self.threadgroup_memory = given;
    }

    fn encode(&mut self, dispatch: &Dispatch<'_, AppleDevice>) {
        if self.order == Order::Serial && !self.is_empty {
            self.barrier();
        }
        self.is_empty = false;
        let groups = self.commands.device.0.debug_groups;
        if groups {
            let label = NSString::from_str(dispatch.label);
            self.encoding.metal().pushDebugGroup(&label);
        }
        self.encoding
            .metal()
            .setComputePipelineState(dispatch.pipeline.metal());
        self.bind_threadgroup_memory(dispatch);
        for argument in dispatch.arguments {
            self.bind(argument);
        }
        let metal = self.encoding.metal();
        let threadgroup = size(dispatch.threadgroup);
        match dispatch.grid {
            Grid::Threads(threads) => {
                metal.dispatchThreads_threadsPerThreadgroup(size(threads), threadgroup);
            }
            Grid::Threadgroups(groups) => {
                metal.dispatchThreadgroups_threadsPerThreadgroup(size(groups), threadgroup);
            }
        }
        if groups {
            metal.popDebugGroup();
        }
    }
}

impl ComputeEncoder<AppleDevice> for AppleComputeEncoder {
    fn dispatch(&mut self, dispatch: &Dispatch<'_, AppleDevice>) -> Result<(), DeviceError> {
        let device = &self.commands.device;
        check::dispatch(dispatch, &device.0.info)?;
        check_memory(dispatch, device)?;
        for parameter in dispatch.pipeline.parameters() {
            check_parameter(parameter, dispatch.arguments)
                .map_err(|message| check::encode_error(dispatch, message))?;
        }
        for argument in dispatch.arguments {
            if let Argument::Buffer { range, access, .. } = argument {
                self.commands.device.own(range.buffer)?;
                if *access == Access::Write {
                    range
                        .buffer
                        .check_writable()
                        .map_err(|error| check::encode_error(dispatch, error.to_string()))?;
                }
                self.commands
                    .touch(range.buffer, *access, &mut self.fence)?;
            }
        }
        autoreleasepool(|_| self.encode(dispatch));
        self.commands.recent.push(dispatch.label);
        Ok(())
    }

    fn barrier(&mut self) {
        let metal = self.encoding.metal();
        autoreleasepool(|_| metal.memoryBarrierWithScope(MTLBarrierScope::Buffers));
    }

    fn end(self) -> AppleCommandBuffer {
        if let Some(fence) = &self.fence {
            autoreleasepool(|_| self.encoding.metal().updateFence(fence));
        }
        drop(self.encoding);
        self.commands
    }
}

fn size(Size([width, height, depth]): Size) -> MTLSize {
    MTLSize {
        width: width as usize,
        height: height as usize,
        depth: depth as usize,
    }
}

/// The kernel's own threadgroup variables take memory too.
fn check_memory(
    dispatch: &Dispatch<'_, AppleDevice>,
    device: &AppleDevice,
) -> Result<(), DeviceError> {
    let given = dispatch.arguments.iter().map(|argument| match argument {
        Argument::Threadgroup { bytes, .. } => *bytes,
        _ => 0,
    });
    let bytes = given.sum::<usize>() + dispatch.pipeline.static_threadgroup_memory();
    check::threadgroup_memory(bytes, &device.0.info)
        .map_err(|message| check::encode_error(dispatch, message))
}

/// A parameter that the kernel uses is bound to something that is large enough and aligned for its type.
fn check_parameter(
    parameter: &Parameter,
    arguments: &[Argument<'_, AppleBuffer>],
) -> Result<(), String> {
    let name = &parameter.name;
    match parameter.slot {
        Slot::Threadgroup { index } => {
            let mut memory = arguments.iter().filter_map(|argument| match argument {
                Argument::Threadgroup { index, .. } => Some(*index),
                _ => None,
            });
            let found = memory.find(|&given| given == index).map(|_| ());
            found.ok_or_else(|| format!("threadgroup memory {index} (`{name}`) is not set"))
        }
        Slot::Buffer {
            index,
            bytes: needs,
            align,
        } => {
            let mut bound = arguments.iter().filter_map(|argument| match argument {
                Argument::Buffer { index, range, .. } => Some((*index, range.bytes, range.offset)),
                Argument::Bytes { index, bytes } => Some((*index, bytes.len(), 0)),
                Argument::Threadgroup { .. } => None,
            });
            let found = bound.find(|&(given, ..)| given == index);
            let (_, bytes, offset) =
                found.ok_or_else(|| format!("buffer {index} (`{name}`) is not set"))?;
            if bytes < needs {
                return Err(format!(
                    "buffer {index} (`{name}`) has {bytes} bytes, its type {needs}"
                ));
            }
            if !offset.is_multiple_of(align) {
                return Err(format!(
                    "buffer {index} (`{name}`): offset {offset} is no multiple of {align}"
                ));
            }
            Ok(())
        }
    }
}
