//! A device that writes down what another one does.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::commands::{Fill, OwnedCopy, OwnedDispatch, Work};
use super::error::ReplayError;
use super::format::{Description, Memory};
use super::writer::BundleWriter;
use crate::device::{
    BlitEncoder, Buffer, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder, ConstantValue,
    Device, DeviceError, DeviceInfo, Dispatch, LibrarySource, Order, Pipeline, StableBytes,
};

/// A device around another one, which writes the first dispatch of each kind into a replay bundle. Clones are the
/// same device.
///
/// Every dispatch completes before the next one starts, and memory is copied around it: for recording, not for
/// speed. Barriers between dispatches therefore change nothing, and a missing one is not seen.
pub struct Recorder<D: Device>(Arc<State<D>>);

struct State<D> {
    device: D,
    bundle: Mutex<BundleWriter>,
}

impl<D: Device> Recorder<D> {
    /// Records what `device` does into `folder`, which must be empty or not exist.
    pub fn new(device: D, folder: &Path) -> Result<Self, ReplayError> {
        let bundle = BundleWriter::new(folder, &device.info().name)?;
        let bundle = Mutex::new(bundle);
        Ok(Recorder(Arc::new(State { device, bundle })))
    }

    /// Writes the bundle's index, without which it is none; the number of kinds of dispatches. What is
    /// dispatched later is not in the bundle.
    pub fn finish(&self) -> Result<usize, ReplayError> {
        self.bundle().finish()
    }

    /// The device that does the work.
    pub fn device(&self) -> &D {
        &self.0.device
    }

    fn bundle(&self) -> MutexGuard<'_, BundleWriter> {
        // A panic within it left out a description at most.
        self.0.bundle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a dispatch, and describes it if it is the first of its kind.
    fn run_recorded(
        &self,
        dispatch: &OwnedDispatch<D>,
        limit: Duration,
    ) -> Result<(), DeviceError> {
        let run = || dispatch.with(|dispatch| self.device().run(dispatch, limit));
        let failed = |error: ReplayError| DeviceError::Failed {
            label: dispatch.label.clone(),
            message: format!("it cannot be recorded: {error}"),
            recent: Vec::new(),
        };
        let source = self.bundle().source(&dispatch.pipeline.source);
        let (launch, parts) = dispatch.describe(source.map_err(failed)?);
        if self.bundle().count(&launch) {
            return run();
        }
        let mut memory = Vec::new();
        for part in &parts {
            let before = self.bundle().contents(&part.read()?).map_err(failed)?;
            memory.push(Memory {
                label: part.buffer.label().to_owned(),
                offset: part.start,
                bytes: part.end - part.start,
                before,
                after: None,
            });
        }
        run()?;
        for (part, memory) in parts.iter().zip(&mut memory) {
            if part.written {
                let after = self.bundle().contents(&part.read()?).map_err(failed)?;
                memory.after = Some(after);
            }
        }
        self.bundle().add(Description {
            label: dispatch.label.clone(),
            occurrences: 1,
            launch,
            memory,
        });
        Ok(())
    }
}

impl<D: Device> Clone for Recorder<D> {
    fn clone(&self) -> Self {
        Recorder(Arc::clone(&self.0))
    }
}

/// A library and its source.
pub struct RecordedLibrary<D: Device> {
    library: D::Library,
    source: Arc<LibrarySource>,
}

impl<D: Device> Clone for RecordedLibrary<D> {
    fn clone(&self) -> Self {
        RecordedLibrary {
            library: self.library.clone(),
            source: Arc::clone(&self.source),
        }
    }
}

/// A pipeline and what it was made of.
pub struct RecordedPipeline<D: Device> {
    pub(super) pipeline: D::Pipeline,
    pub(super) source: Arc<LibrarySource>,
    pub(super) constants: Arc<[(u32, ConstantValue)]>,
}

impl<D: Device> Clone for RecordedPipeline<D> {
    fn clone(&self) -> Self {
        RecordedPipeline {
            pipeline: self.pipeline.clone(),
            source: Arc::clone(&self.source),
            constants: Arc::clone(&self.constants),
        }
    }
}

impl<D: Device> Pipeline for RecordedPipeline<D> {
    fn kernel(&self) -> &str {
        self.pipeline.kernel()
    }

    fn max_threads_per_threadgroup(&self) -> usize {
        self.pipeline.max_threads_per_threadgroup()
    }
}

impl<D: Device> Device for Recorder<D> {
    type Buffer = D::Buffer;
    type Library = RecordedLibrary<D>;
    type Pipeline = RecordedPipeline<D>;
    type CommandBuffer = RecorderCommands<D>;

    fn info(&self) -> &DeviceInfo {
        self.device().info()
    }

    fn buffer(&self, bytes: usize, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device().buffer(bytes, label)
    }

    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device().untracked_buffer(bytes, label)
    }

    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device().wrap(memory, label)
    }

    fn discard(&self, range: BufferRange<'_, D::Buffer>) -> Result<(), DeviceError> {
        self.device().discard(range)
    }

    fn library(&self, source: &LibrarySource) -> Result<Self::Library, DeviceError> {
        Ok(RecordedLibrary {
            library: self.device().library(source)?,
            source: Arc::new(source.clone()),
        })
    }

    fn pipeline(
        &self,
        library: &Self::Library,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<Self::Pipeline, DeviceError> {
        let pipeline = self
            .device()
            .pipeline(&library.library, kernel, constants)?;
        Ok(RecordedPipeline {
            pipeline,
            source: Arc::clone(&library.source),
            constants: constants.into(),
        })
    }

    fn command_buffer(&self, label: &str) -> Result<Self::CommandBuffer, DeviceError> {
        Ok(RecorderCommands {
            recorder: self.clone(),
            label: label.to_owned(),
            work: Vec::new(),
        })
    }
}

/// Command buffer of a [`Recorder`]. Nothing runs before its submission.
pub struct RecorderCommands<D: Device> {
    recorder: Recorder<D>,
    label: String,
    work: Vec<Work<D>>,
}

impl<D: Device> CommandBuffer<Recorder<D>> for RecorderCommands<D> {
    type Compute = RecorderCompute<D>;
    type Blit = RecorderBlit<D>;

    fn compute(self, order: Order) -> Result<Self::Compute, DeviceError> {
        Ok(RecorderCompute {
            commands: self,
            order,
        })
    }

    fn blit(self) -> Result<Self::Blit, DeviceError> {
        Ok(RecorderBlit { commands: self })
    }

    /// Each command runs in a command buffer of its own, after those before it.
    fn fence(&mut self) {}

    fn submit(self, limit: Duration) -> Result<(), DeviceError> {
        let start = Instant::now();
        for work in &self.work {
            let left = limit.saturating_sub(start.elapsed());
            match work {
                Work::Dispatch(dispatch) => self.recorder.run_recorded(dispatch, left)?,
                Work::Copy(copy) => {
                    let mut blit = self.recorder.new_blit(&self.label)?;
                    blit.copy(copy.borrowed())?;
                    blit.end().submit(left)?;
                }
                Work::Fill(fill) => {
                    let mut blit = self.recorder.new_blit(&self.label)?;
                    blit.fill(fill.range.borrowed(), fill.value)?;
                    blit.end().submit(left)?;
                }
            }
        }
        Ok(())
    }
}

type Blit<D> = <<D as Device>::CommandBuffer as CommandBuffer<D>>::Blit;

impl<D: Device> Recorder<D> {
    /// A blit encoder of the device that does the work.
    fn new_blit(&self, label: &str) -> Result<Blit<D>, DeviceError> {
        self.device().command_buffer(label)?.blit()
    }
}

/// Compute encoder of a [`Recorder`].
pub struct RecorderCompute<D: Device> {
    commands: RecorderCommands<D>,
    order: Order,
}

impl<D: Device> ComputeEncoder<Recorder<D>> for RecorderCompute<D> {
    fn dispatch(&mut self, dispatch: &Dispatch<'_, Recorder<D>>) -> Result<(), DeviceError> {
        let owned = OwnedDispatch::new(dispatch);
        // Encoded for nothing but its errors, which belong here.
        let commands = self.commands.recorder.device().command_buffer("check")?;
        let mut encoder = commands.compute(self.order)?;
        owned.with(|dispatch| encoder.dispatch(dispatch))?;
        drop(encoder.end());
        self.commands.work.push(Work::Dispatch(owned));
        Ok(())
    }

    fn barrier(&mut self) {}

    fn end(self) -> RecorderCommands<D> {
        self.commands
    }
}

/// Blit encoder of a [`Recorder`].
pub struct RecorderBlit<D: Device> {
    commands: RecorderCommands<D>,
}

impl<D: Device> BlitEncoder<Recorder<D>> for RecorderBlit<D> {
    fn copy(&mut self, copy: BufferCopy<'_, D::Buffer>) -> Result<(), DeviceError> {
        let mut blit = self.commands.recorder.new_blit("check")?;
        blit.copy(copy)?;
        drop(blit.end());
        self.commands.work.push(Work::Copy(OwnedCopy::new(&copy)));
        Ok(())
    }

    fn fill(&mut self, range: BufferRange<'_, D::Buffer>, value: u8) -> Result<(), DeviceError> {
        let mut blit = self.commands.recorder.new_blit("check")?;
        blit.fill(range, value)?;
        drop(blit.end());
        self.commands.work.push(Work::Fill(Fill::new(range, value)));
        Ok(())
    }

    fn end(self) -> RecorderCommands<D> {
        self.commands
    }
}
