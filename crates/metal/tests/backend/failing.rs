//! A device whose encoders fail when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minfer_metal::device::{
    BlitEncoder, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder, ConstantValue, Device,
    DeviceError, DeviceInfo, Dispatch, LibrarySource, Order, StableBytes,
};
use minfer_softmetal::{SoftBuffer, SoftDevice, SoftLibrary, SoftPipeline};

type SoftCommands = <SoftDevice as Device>::CommandBuffer;

/// The software device behind a switch.
#[derive(Clone)]
pub struct Failing {
    pub device: SoftDevice,
    /// Whether command buffers give no encoders.
    pub fails: Arc<AtomicBool>,
}

impl Failing {
    pub fn new(device: SoftDevice) -> Self {
        Failing {
            device,
            fails: Arc::default(),
        }
    }

    pub fn set(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

impl Device for Failing {
    type Buffer = SoftBuffer;
    type Library = SoftLibrary;
    type Pipeline = SoftPipeline;
    type CommandBuffer = Commands;

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn buffer(&self, bytes: usize, label: &str) -> Result<SoftBuffer, DeviceError> {
        self.device.buffer(bytes, label)
    }

    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<SoftBuffer, DeviceError> {
        self.device.untracked_buffer(bytes, label)
    }

    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<SoftBuffer, DeviceError> {
        self.device.wrap(memory, label)
    }

    fn library(&self, source: &LibrarySource) -> Result<SoftLibrary, DeviceError> {
        self.device.library(source)
    }

    fn pipeline(
        &self,
        library: &SoftLibrary,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<SoftPipeline, DeviceError> {
        self.device.pipeline(library, kernel, constants)
    }

    fn command_buffer(&self, label: &str) -> Result<Commands, DeviceError> {
        Ok(Commands {
            commands: self.device.command_buffer(label)?,
            fails: Arc::clone(&self.fails),
        })
    }
}

pub struct Commands {
    commands: SoftCommands,
    fails: Arc<AtomicBool>,
}

impl Commands {
    fn check(&self) -> Result<(), DeviceError> {
        match self.fails.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(DeviceError::Encode {
                label: "step".to_owned(),
                message: "no encoder, on purpose".to_owned(),
            }),
        }
    }
}

impl CommandBuffer<Failing> for Commands {
    type Compute = Compute;
    type Blit = Blit;

    fn compute(self, order: Order) -> Result<Compute, DeviceError> {
        self.check()?;
        Ok(Compute {
            encoder: self.commands.compute(order)?,
            fails: self.fails,
        })
    }

    fn blit(self) -> Result<Blit, DeviceError> {
        self.check()?;
        Ok(Blit {
            encoder: self.commands.blit()?,
            fails: self.fails,
        })
    }

    fn fence(&mut self) {
        self.commands.fence();
    }

    fn submit(self, limit: Duration) -> Result<(), DeviceError> {
        self.commands.submit(limit)
    }
}

pub struct Compute {
    encoder: <SoftCommands as CommandBuffer<SoftDevice>>::Compute,
    fails: Arc<AtomicBool>,
}

impl ComputeEncoder<Failing> for Compute {
    fn dispatch(&mut self, dispatch: &Dispatch<'_, Failing>) -> Result<(), DeviceError> {
        self.encoder.dispatch(&Dispatch {
            label: dispatch.label,
            pipeline: dispatch.pipeline,
            arguments: dispatch.arguments,
            grid: dispatch.grid,
            threadgroup: dispatch.threadgroup,
        })
    }

    fn barrier(&mut self) {
        self.encoder.barrier();
    }

    fn end(self) -> Commands {
        Commands {
            commands: self.encoder.end(),
            fails: self.fails,
        }
    }
}

pub struct Blit {
    encoder: <SoftCommands as CommandBuffer<SoftDevice>>::Blit,
    fails: Arc<AtomicBool>,
}

impl BlitEncoder<Failing> for Blit {
    fn copy(&mut self, copy: BufferCopy<'_, SoftBuffer>) -> Result<(), DeviceError> {
        self.encoder.copy(copy)
    }

    fn fill(&mut self, range: BufferRange<'_, SoftBuffer>, value: u8) -> Result<(), DeviceError> {
        self.encoder.fill(range, value)
    }

    fn end(self) -> Commands {
        Commands {
            commands: self.encoder.end(),
            fails: self.fails,
        }
    }
}
