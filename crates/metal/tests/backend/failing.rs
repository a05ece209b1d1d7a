//! A device whose encoders fail when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minfer_metal::device::{
    BlitEncoder, BufferCopy, BufferRange, CommandBuffer, ComputeEncoder, ConstantValue, Device,
    DeviceError, DeviceInfo, Dispatch, LibrarySource, Order, StableBytes,
};

/// A device behind a switch.
#[derive(Clone)]
pub struct Failing<D> {
    pub device: D,
    /// Whether command buffers give no encoders.
    pub fails: Arc<AtomicBool>,
}

impl<D> Failing<D> {
    pub fn new(device: D) -> Self {
        Failing {
            device,
            fails: Arc::default(),
        }
    }

    pub fn set(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

impl<D: Device> Device for Failing<D> {
    type Buffer = D::Buffer;
    type Library = D::Library;
    type Pipeline = D::Pipeline;
    type CommandBuffer = Commands<D>;

    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn buffer(&self, bytes: usize, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device.buffer(bytes, label)
    }

    fn untracked_buffer(&self, bytes: usize, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device.untracked_buffer(bytes, label)
    }

    fn wrap(&self, memory: Arc<dyn StableBytes>, label: &str) -> Result<D::Buffer, DeviceError> {
        self.device.wrap(memory, label)
    }

    fn library(&self, source: &LibrarySource) -> Result<D::Library, DeviceError> {
        self.device.library(source)
    }

    fn pipeline(
        &self,
        library: &D::Library,
        kernel: &str,
        constants: &[(u32, ConstantValue)],
    ) -> Result<D::Pipeline, DeviceError> {
        self.device.pipeline(library, kernel, constants)
    }

    fn command_buffer(&self, label: &str) -> Result<Commands<D>, DeviceError> {
        Ok(Commands {
            commands: self.device.command_buffer(label)?,
            fails: Arc::clone(&self.fails),
        })
    }
}

pub struct Commands<D: Device> {
    commands: D::CommandBuffer,
    fails: Arc<AtomicBool>,
}

impl<D: Device> Commands<D> {
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

impl<D: Device> CommandBuffer<Failing<D>> for Commands<D> {
    type Compute = Compute<D>;
    type Blit = Blit<D>;

    fn compute(self, order: Order) -> Result<Compute<D>, DeviceError> {
        self.check()?;
        Ok(Compute {
            encoder: self.commands.compute(order)?,
            fails: self.fails,
        })
    }

    fn blit(self) -> Result<Blit<D>, DeviceError> {
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

pub struct Compute<D: Device> {
    encoder: <D::CommandBuffer as CommandBuffer<D>>::Compute,
    fails: Arc<AtomicBool>,
}

impl<D: Device> ComputeEncoder<Failing<D>> for Compute<D> {
    fn dispatch(&mut self, dispatch: &Dispatch<'_, Failing<D>>) -> Result<(), DeviceError> {
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

    fn end(self) -> Commands<D> {
        Commands {
            commands: self.encoder.end(),
            fails: self.fails,
        }
    }
}

pub struct Blit<D: Device> {
    encoder: <D::CommandBuffer as CommandBuffer<D>>::Blit,
    fails: Arc<AtomicBool>,
}

impl<D: Device> BlitEncoder<Failing<D>> for Blit<D> {
    fn copy(&mut self, copy: BufferCopy<'_, D::Buffer>) -> Result<(), DeviceError> {
        self.encoder.copy(copy)
    }

    fn fill(&mut self, range: BufferRange<'_, D::Buffer>, value: u8) -> Result<(), DeviceError> {
        self.encoder.fill(range, value)
    }

    fn end(self) -> Commands<D> {
        Commands {
            commands: self.encoder.end(),
            fails: self.fails,
        }
    }
}
