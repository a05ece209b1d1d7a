//! The open command buffer of a backend.

use std::time::{Duration, Instant};

use crate::device::{BlitEncoder, BufferCopy, CommandBuffer, Device, DeviceError, Order};
use crate::hazard::TrackedEncoder;
use crate::ops::{Encode, Encoder, Kernels};

/// Work that a backend has encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Kernels.
    pub dispatches: usize,
    /// Barriers between them.
    pub barriers: usize,
    /// Copies by blit encoders.
    pub copies: usize,
    /// Command buffers that were submitted.
    pub submits: usize,
}

type Compute<D> = <<D as Device>::CommandBuffer as CommandBuffer<D>>::Compute;

/// What is encoded and not yet submitted.
enum Open<D: Device> {
    Nothing,
    /// Between encoders.
    Commands(D::CommandBuffer),
    Encoder(Encoder<D>),
    /// Work that was encoded is gone, for this reason.
    Lost(String),
}

/// Encodes into one command buffer until it is submitted.
pub(super) struct Commands<D: Device> {
    pub(super) device: D,
    kernels: Kernels<D>,
    open: Open<D>,
    limit: Duration,
    /// Logs dispatches.
    trace: bool,
    counts: Counts,
    waited: Duration,
}

impl<D: Device> Commands<D> {
    pub(super) fn new(device: D, limit: Duration, trace: bool) -> Self {
        Commands {
            device,
            kernels: Kernels::default(),
            open: Open::Nothing,
            limit,
            trace,
            counts: Counts::default(),
            waited: Duration::ZERO,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.open, Open::Nothing)
    }

    /// Where operations of a node are appended.
    pub(super) fn encode<'a>(&'a mut self, label: &'a str) -> Result<Encode<'a, D>, DeviceError> {
        let encoder = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Encoder(encoder) => encoder,
            Open::Nothing => {
                let commands = self.device.command_buffer("step")?;
                self.tracked(commands.compute(Order::Concurrent)?)
            }
            Open::Commands(commands) => match commands.compute(Order::Concurrent) {
                Ok(encoder) => self.tracked(encoder),
                Err(error) => return Err(self.lose(error)),
            },
            Open::Lost(cause) => return Err(self.lost(cause)),
        };
        self.open = Open::Encoder(encoder);
        let Open::Encoder(encoder) = &mut self.open else {
            unreachable!("it was assigned")
        };
        Ok(Encode {
            device: &self.device,
            kernels: &mut self.kernels,
            encoder,
            label,
        })
    }

    fn tracked(&self, encoder: Compute<D>) -> Encoder<D> {
        match self.trace {
            true => TrackedEncoder::logged(encoder),
            false => TrackedEncoder::new(encoder),
        }
    }

    /// Appends copies that do not depend on each other, after everything before.
    pub(super) fn copy(&mut self, copies: &[BufferCopy<'_, D::Buffer>]) -> Result<(), DeviceError> {
        let mut blit = match self.end_encoder()? {
            Some(commands) => commands.blit().map_err(|error| self.lose(error))?,
            None => self.device.command_buffer("step")?.blit()?,
        };
        for copy in copies {
            if let Err(error) = blit.copy(*copy) {
                return Err(self.lose(error));
            }
        }
        self.counts.copies += copies.len();
        self.open = Open::Commands(blit.end());
        Ok(())
    }

    /// Runs everything encoded, and waits for it.
    ///
    /// # Errors
    /// Work that was lost before, or that fails now. It stays lost, for whoever asks for its results next, until
    /// [`Commands::abandon`].
    pub(super) fn submit(&mut self) -> Result<(), DeviceError> {
        let Some(commands) = self.end_encoder()? else {
            return Ok(());
        };
        self.counts.submits += 1;
        let start = Instant::now();
        let result = commands.submit(self.limit);
        self.waited += start.elapsed();
        result.map_err(|error| self.lose(error))
    }

    /// Drops what is encoded, and forgets what was lost.
    pub(super) fn abandon(&mut self) {
        if let Open::Encoder(encoder) = std::mem::replace(&mut self.open, Open::Nothing) {
            self.count(&encoder);
            drop(encoder.end());
        }
    }

    /// The command buffer is gone with what was encoded.
    fn lose(&mut self, error: DeviceError) -> DeviceError {
        self.open = Open::Lost(error.to_string());
        error
    }

    fn lost(&mut self, cause: String) -> DeviceError {
        self.open = Open::Lost(cause.clone());
        DeviceError::Lost { cause }
    }

    /// What was encoded since the last reset.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.counts;
        if let Open::Encoder(encoder) = &self.open {
            counts.dispatches += encoder.dispatches();
            counts.barriers += encoder.barriers();
        }
        counts
    }

    /// Time that submissions took since the last reset.
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    pub(super) fn reset_counts(&mut self) {
        self.counts = Counts::default();
        self.waited = Duration::ZERO;
        if let Open::Encoder(encoder) = &mut self.open {
            encoder.reset_counts();
        }
    }

    /// The open command buffer, between encoders.
    fn end_encoder(&mut self) -> Result<Option<D::CommandBuffer>, DeviceError> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(None),
            Open::Commands(commands) => Ok(Some(commands)),
            Open::Encoder(encoder) => {
                self.count(&encoder);
                Ok(Some(encoder.end()))
            }
            Open::Lost(cause) => Err(self.lost(cause)),
        }
    }

    fn count(&mut self, encoder: &Encoder<D>) {
        self.counts.dispatches += encoder.dispatches();
        self.counts.barriers += encoder.barriers();
    }
}

impl<D: Device> Drop for Commands<D> {
    /// Nobody can read the results any more, so the work is dropped; an encoder must be ended all the same.
    fn drop(&mut self) {
        self.abandon();
    }
}
