//! Command buffers: what was encoded, in order.

use std::time::{Duration, Instant};

use minfer_metal::device::{CommandBuffer, DeviceError, Order};

use super::encode::{SoftBlitEncoder, SoftComputeEncoder};
use super::memory::SoftBuffer;
use super::pipeline::SoftPipeline;
use super::{SoftDevice, run};

/// A limit that no run reaches, and that a point in time can be computed from.
const LONGEST: Duration = Duration::from_secs(1 << 30);

/// Something to do.
pub(super) enum Command {
    Dispatch(Box<Recorded>),
    Copy {
        from: Bound,
        to: Bound,
    },
    Fill {
        range: Bound,
        value: u8,
    },
    /// What comes after in the encoder waits for what came before in it.
    Barrier,
    /// Tracked buffers are waited for.
    Ordered,
    /// The end of an encoder; tracked buffers are waited for.
    End,
    /// What comes after waits for all that came before.
    Fence,
}

/// A range of a buffer.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) buffer: SoftBuffer,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// What a buffer index is bound to.
pub(super) enum Value {
    Buffer { range: Bound, writable: bool },
    Bytes(Box<[Line]>, usize),
}

/// Part of a copied value, aligned for every type.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [u8; 64]);

/// A dispatch that passed all checks that need no run.
pub(super) struct Recorded {
    pub(super) label: String,
    pub(super) pipeline: SoftPipeline,
    pub(super) buffers: Vec<(u32, Value)>,
    /// Sizes by index.
    pub(super) threadgroup_memory: Vec<usize>,
    pub(super) threads: [u32; 3],
    pub(super) threadgroup: [u32; 3],
    pub(super) threadgroups: [u32; 3],
}

/// A command buffer of the software device. Nothing runs before [`CommandBuffer::submit`].
pub struct SoftCommandBuffer {
    pub(super) device: SoftDevice,
    label: String,
    pub(super) commands: Vec<Command>,
}

impl SoftCommandBuffer {
    pub(super) fn new(device: &SoftDevice, label: &str) -> Self {
        SoftCommandBuffer {
            device: device.clone(),
            label: label.to_owned(),
            commands: Vec::new(),
        }
    }
}

impl CommandBuffer<SoftDevice> for SoftCommandBuffer {
    type Compute = SoftComputeEncoder;
    type Blit = SoftBlitEncoder;

    fn compute(self, order: Order) -> Result<SoftComputeEncoder, DeviceError> {
        Ok(SoftComputeEncoder::new(self, order))
    }

    fn blit(self) -> Result<SoftBlitEncoder, DeviceError> {
        Ok(SoftBlitEncoder::new(self))
    }

    fn fence(&mut self) {
        self.commands.push(Command::Fence);
    }

    fn submit(self, limit: Duration) -> Result<(), DeviceError> {
        let deadline = Instant::now() + limit.min(LONGEST);
        run::run(&self.device, &self.commands, deadline).map_err(|failure| {
            let (label, recent) = (self.label, failure.recent);
            match failure.message {
                Some(message) => DeviceError::Failed {
                    label,
                    message,
                    recent,
                },
                None => DeviceError::TimedOut {
                    label,
                    limit,
                    recent,
                },
            }
        })
    }
}
