//! The software device behind the interface of `minfer-metal`.

mod commands;
mod encode;
mod hazards;
mod memory;
mod pipeline;
mod profile;
mod results;
mod run;
mod statistics;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use minfer_metal::device::{
    BufferRange, ConstantValue, Device, DeviceError, DeviceInfo, LibrarySource, StableBytes,
};

pub use commands::SoftCommandBuffer;
pub use encode::{SoftBlitEncoder, SoftComputeEncoder};
pub use memory::SoftBuffer;
pub use pipeline::{SoftLibrary, SoftPipeline};
pub use profile::Profile;
pub use statistics::{KernelStatistics, Statistics, Submissions};

use crate::compile::{Build, Compiler};
use crate::report::{Report, SourcePlace};
use results::Results;

/// How kernels are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With checks, the lanes of a simdgroup in lockstep.
    Checked,
    /// With checks, each lane running on to its next simdgroup operation.
    CheckedFreeRunning,
    /// Without checks, for speed.
    Unchecked,
}

/// Choices for a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// How kernels are run.
    pub mode: Mode,
    /// Lanes, simdgroups and threadgroups in descending order: a correct kernel gives the same bits.
    pub reversed: bool,
    /// Leaves out the barrier of kernels at this place, to see that the checker misses it.
    pub without_barrier: Option<SourcePlace>,
    /// The limits to hold kernels to.
    pub profile: Profile,
    /// Clang, version 19.
    pub compiler: PathBuf,
    /// Folder for compiled libraries; `None` to compile anew every time. Code is loaded from there: it must not be
    /// writable by others.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            mode: Mode::Checked,
            reversed: false,
            without_barrier: None,
            profile: Profile::M1,
            compiler: "clang++-19".into(),
            cache: None,
        }
    }
}

/// A Metal device in software. Clones are the same device.
#[derive(Clone)]
pub struct SoftDevice(Arc<State>);

struct State {
    options: Options,
    info: DeviceInfo,
    compiler: Compiler,
    busy: Arc<Mutex<()>>,
    next_id: AtomicU64,
    results: Mutex<Results>,
}

impl SoftDevice {
    /// A device.
    pub fn new(options: Options) -> Self {
        SoftDevice(Arc::new(State {
            info: options.profile.info(),
            compiler: Compiler {
                program: options.compiler.clone(),
                cache: options.cache.clone(),
            },
            options,
            busy: Arc::default(),
            next_id: AtomicU64::new(0),
            results: Mutex::default(),
        }))
    }

    /// What the checker has found so far, in the order in which it came up; empties the list.
    pub fn take_reports(&self) -> Vec<Report> {
        self.results().take_reports()
    }

    /// Places of the barriers that kernels have passed so far.
    pub fn barriers(&self) -> Vec<SourcePlace> {
        self.results().barriers()
    }

    /// What each kernel has done so far, by name.
    pub fn statistics(&self) -> Vec<KernelStatistics> {
        self.results().statistics()
    }

    /// What was run since the last call; counts from zero.
    pub fn take_statistics(&self) -> Statistics {
        self.results().take_statistics()
    }

    fn results(&self) -> std::sync::MutexGuard<'_, Results> {
        // Results stay consistent between statements: a panic elsewhere does not spoil them.
        self.0
            .results
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn new_id(&self) -> u64 {
        self.0.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn is_checked(&self) -> bool {
        self.build() == Build::Checked
    }

    fn build(&self) -> Build {
        match self.0.options.mode {
            Mode::Checked | Mode::CheckedFreeRunning => Build::Checked,
            Mode::Unchecked => Build::Unchecked,
        }
    }

    fn owned(&self, bytes: usize, label: &str, tracked: bool) -> Result<SoftBuffer, DeviceError> {
        if bytes == 0 || bytes > self.0.info.max_buffer_bytes {
            return Err(DeviceError::Allocation {
                label: label.to_owned(),
                bytes,
                reason: format!("a buffer has 1 to {} bytes", self.0.info.max_buffer_bytes),
            });
        }
        let busy = Arc::clone(&self.0.busy);
        SoftBuffer::owned(self.new_id(), label, bytes, tracked, busy)
    }
}

impl Device for SoftDevice {
    type Buffer = SoftBuffer;
    type Library = SoftLibrary;
    type Pipeline = SoftPipeline;
    type CommandBuffer = SoftCommandBuffer;

    fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    fn buffer(&self, bytes: usize, label: &str) -> Result<SoftBuffer, DeviceError> {
        self.owned(bytes, label, true)
    }

    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<SoftBuffer, DeviceError> {
        self.owned(bytes, label, false)
    }

    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<SoftBuffer, DeviceError> {
        let page = self.0.info.page_bytes;
        let (address, length) = (memory.bytes().as_ptr().addr(), memory.bytes().len());
        if length == 0 || !address.is_multiple_of(page) || !length.is_multiple_of(page) {
            return Err(DeviceError::Unaligned {
                label: label.to_owned(),
                address,
                length,
                page,
            });
        }
        Ok(SoftBuffer::shared(
            self.new_id(),
            label,
            memory,
            Arc::clone(&self.0.busy),
        ))
    }

    fn discard(&self, range: BufferRange<'_, SoftBuffer>) -> Result<(), DeviceError> {
        range.check()?;
        // Without checks nobody sees what kernels write.
        if self.is_checked() {
            range.buffer.discard(range.offset, range.bytes);
        }
        Ok(())
    }

    fn library(&self, source: &LibrarySource) -> Result<SoftLibrary, DeviceError> {
        SoftLibrary::new(&self.0.compiler, source, self.build())
    }

    fn pipeline(
        &self,
        library: &SoftLibrary,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<SoftPipeline, DeviceError> {
        library.check_build(self.build())?;
        let limit = self.0.info.max_threads_per_threadgroup;
        SoftPipeline::new(library, kernel, constants, limit)
    }

    fn command_buffer(&self, label: &str) -> Result<SoftCommandBuffer, DeviceError> {
        Ok(SoftCommandBuffer::new(self, label))
    }
}
