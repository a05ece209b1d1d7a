//! The open command buffer of a backend.

use std::time::Duration;

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

/// What is encoded and not yet submitted.
enum Open<D: Device> {
    Nothing,
    /// Between encoders.
    Commands(D::CommandBuffer),
    Encoder(Encoder<D>),
}

/// Encodes into one command buffer until it is submitted.
pub(super) struct Commands<D: Device> {
    pub(super) device: D,
    kernels: Kernels<D>,
    open: Open<D>,
    limit: Duration,
    counts: Counts,
}

impl<D: Device> Commands<D> {
    pub(super) fn new(device: D, limit: Duration) -> Self {
        Commands {
            device,
            kernels: Kernels::default(),
            open: Open::Nothing,
            limit,
            counts: Counts::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self.open, Open::Nothing)
    }

    /// Where operations of a node are appended.
    pub(super) fn encode<'a>(&'a mut self, label: &'a str) -> Result<Encode<'a, D>, DeviceError> {
        let encoder = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Encoder(encoder) => encoder,
            Open::Commands(commands) => TrackedEncoder::new(commands.compute(Order::Concurrent)?),
            Open::Nothing => {
                let commands = self.device.command_buffer("step")?;
                TrackedEncoder::new(commands.compute(Order::Concurrent)?)
            }
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

    /// Appends copies that do not depend on each other, after everything before.
    pub(super) fn copy(&mut self, copies: &[BufferCopy<'_, D::Buffer>]) -> Result<(), DeviceError> {
        let commands = match self.end_encoder() {
            Some(commands) => commands,
            None => self.device.command_buffer("step")?,
        };
        let mut blit = commands.blit()?;
        for copy in copies {
            blit.copy(*copy)?;
        }
        self.counts.copies += copies.len();
        self.open = Open::Commands(blit.end());
        Ok(())
    }

    /// Runs everything encoded, and waits for it. Afterwards nothing is encoded, whatever the outcome.
    pub(super) fn submit(&mut self) -> Result<(), DeviceError> {
        let Some(commands) = self.end_encoder() else {
            return Ok(());
        };
        self.counts.submits += 1;
        commands.submit(self.limit)
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

    pub(super) fn reset_counts(&mut self) {
        self.counts = Counts::default();
        if let Open::Encoder(encoder) = &mut self.open {
            encoder.reset_counts();
        }
    }

    fn end_encoder(&mut self) -> Option<D::CommandBuffer> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => None,
            Open::Commands(commands) => Some(commands),
            Open::Encoder(encoder) => {
                self.counts.dispatches += encoder.dispatches();
                self.counts.barriers += encoder.barriers();
                Some(encoder.end())
            }
        }
    }
}

impl<D: Device> Drop for Commands<D> {
    /// Nobody can read the results any more, so the work is dropped; an encoder must be ended all the same.
    fn drop(&mut self) {
        self.end_encoder();
    }
}
