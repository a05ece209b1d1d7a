//! What is asked of a Metal device.
//!
//! A dispatch is one value: pipeline, arguments with the ranges they touch, and a grid. Nothing is left over
//! from the dispatch before it.

#[cfg(any(target_vendor = "apple", minfer_check_apple))]
pub mod apple;
pub mod check;
mod dispatch;
mod error;
mod info;
#[cfg(any(test, target_vendor = "apple", minfer_check_apple))]
mod queue;
mod recent;
mod source;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use dispatch::copy_references;
pub use dispatch::{
    Access, Argument, BufferCopy, BufferRange, ConstantValue, Dispatch, Grid, Order, Size,
};
pub use error::DeviceError;
pub use info::DeviceInfo;
pub use recent::RecentLabels;
pub use source::{LibrarySource, SourceError, SourceFile};

/// What to say where there is no GPU whose work Xcode could show.
pub const CAPTURE_ELSEWHERE: &str = "GPU traces are of Apple's GPUs; elsewhere `minfer metal export` writes dispatches into a replay bundle";

/// A GPU, or what stands for one.
pub trait Device: Sized + Send + Sync {
    /// Memory that the host and kernels see.
    type Buffer: Buffer;
    /// Compiled kernels. Clones are the same library.
    type Library: Clone + Send + Sync;
    /// One kernel with its function constants, ready to run.
    type Pipeline: Pipeline;
    /// Work to be submitted as a whole.
    type CommandBuffer: CommandBuffer<Self>;

    /// Limits and properties, as the device reports them.
    fn info(&self) -> &DeviceInfo;

    /// A new zeroed buffer. Fails when `bytes` is 0 or more than the device gives.
    ///
    /// The device orders its uses (`MTLHazardTrackingModeTracked`): encoders of a command buffer, and dispatches of a
    /// serial encoder, wait for earlier ones that use it, unless both only read. In a concurrent encoder, barriers
    /// order the dispatches.
    fn buffer(&self, bytes: usize, label: &str) -> Result<Self::Buffer, DeviceError>;

    /// A new zeroed buffer whose uses the device does not order (`MTLHazardTrackingModeUntracked`), which saves it the
    /// bookkeeping. Dispatches of an encoder, also of a serial one, are ordered by [`ComputeEncoder::barrier`] alone,
    /// encoders of a command buffer by [`CommandBuffer::fence`] alone, and nothing orders the copies of one encoder.
    /// Command buffers are ordered: each has completed when [`CommandBuffer::submit`] returns.
    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<Self::Buffer, DeviceError>;

    /// A buffer over existing memory, without a copy. Address and length must be multiples of
    /// [`DeviceInfo::page_bytes`], and Apple's devices want a mapping: not memory of the allocator. Kernels may only
    /// read it.
    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<Self::Buffer, DeviceError>;

    /// Optional: says that the contents of a range mean nothing any more, as when a pool takes a buffer back. A
    /// device that checks reports reads from it before a write, and refuses the host's.
    fn discard(&self, range: BufferRange<'_, Self::Buffer>) -> Result<(), DeviceError> {
        range.check()
    }

    /// Compiles a source. Infinities and NaNs keep their meaning, divisions are correctly rounded: no fast math.
    fn library(&self, source: &LibrarySource) -> Result<Self::Library, DeviceError>;

    /// Looks a kernel up and fixes its function constants, each given by its index.
    fn pipeline(
        &self,
        library: &Self::Library,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<Self::Pipeline, DeviceError>;

    /// Starts a command buffer.
    fn command_buffer(&self, label: &str) -> Result<Self::CommandBuffer, DeviceError>;

    /// Runs one dispatch alone, and waits until it has completed, at most `limit`.
    fn run(&self, dispatch: &Dispatch<'_, Self>, limit: Duration) -> Result<(), DeviceError> {
        let commands = self.command_buffer(dispatch.label)?;
        let mut encoder = commands.compute(Order::Serial)?;
        encoder.dispatch(dispatch)?;
        encoder.end().submit(limit)
    }
}

/// Bytes that stay where they are.
///
/// # Safety
///
/// `bytes` must return the same address and length for as long as the value lives, and nothing may
/// write to that memory meanwhile.
pub unsafe trait StableBytes: Send + Sync {
    /// The memory.
    fn bytes(&self) -> &[u8];
}

/// Memory that the host and kernels see. Clones are the same memory.
pub trait Buffer: Clone + Send + Sync {
    /// Number that no other buffer of the device has.
    fn id(&self) -> u64;

    /// Name for errors and traces.
    fn label(&self) -> &str;

    /// Size in bytes.
    fn bytes(&self) -> usize;

    /// Copies bytes out. The caller has submitted whatever wrote them. May fail while work that timed out can still
    /// write them.
    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies bytes in. The caller has submitted whatever reads what was there. May fail while work that timed out
    /// can still use it.
    fn write(&self, offset: usize, from: &[u8]) -> Result<(), DeviceError>;
}

/// One kernel with its function constants. Clones are the same pipeline.
pub trait Pipeline: Clone + Send + Sync {
    /// Name of the kernel.
    fn kernel(&self) -> &str;

    /// Most threads that a threadgroup of this kernel may have.
    fn max_threads_per_threadgroup(&self) -> usize;
}

/// Work to be submitted as a whole. Dropped without [`CommandBuffer::submit`], it never runs.
pub trait CommandBuffer<D: Device>: Sized + Send {
    /// Encodes dispatches.
    type Compute: ComputeEncoder<D>;
    /// Encodes copies.
    type Blit: BlitEncoder<D>;

    /// Starts a compute encoder, which gives the command buffer back at its end.
    fn compute(self, order: Order) -> Result<Self::Compute, DeviceError>;

    /// Starts a blit encoder, which gives the command buffer back at its end.
    fn blit(self) -> Result<Self::Blit, DeviceError>;

    /// Everything encoded before has taken effect for everything encoded after (`MTLFence`, updated at the end of an
    /// encoder and waited for at the start of the next). Only untracked buffers need it.
    fn fence(&mut self);

    /// Runs everything encoded and waits until it has completed, at most `limit`.
    fn submit(self, limit: Duration) -> Result<(), DeviceError>;
}

/// Encodes dispatches. Dropped without its end, its command buffer is dropped with it.
pub trait ComputeEncoder<D: Device>: Sized + Send {
    /// Appends a dispatch.
    fn dispatch(&mut self, dispatch: &Dispatch<'_, D>) -> Result<(), DeviceError>;

    /// Orders all accesses of this encoder to buffers before this point with those after it.
    fn barrier(&mut self);

    /// Ends the encoder.
    fn end(self) -> D::CommandBuffer;
}

/// Encodes copies, which take effect in order on tracked buffers.
pub trait BlitEncoder<D: Device>: Sized + Send {
    /// Copies within or between buffers; overlapping ranges of one buffer are an error.
    fn copy(&mut self, copy: BufferCopy<'_, D::Buffer>) -> Result<(), DeviceError>;

    /// Sets every byte of a range.
    fn fill(&mut self, range: BufferRange<'_, D::Buffer>, value: u8) -> Result<(), DeviceError>;

    /// Ends the encoder.
    fn end(self) -> D::CommandBuffer;
}
