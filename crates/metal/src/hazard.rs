//! Finds where a concurrent encoder needs a barrier.

use crate::device::{
    Access, Argument, Buffer, BufferRange, ComputeEncoder, Device, DeviceError, Dispatch, Pipeline,
    Size,
};

/// Bytes of a buffer that a dispatch touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touched {
    buffer: u64,
    start: usize,
    end: usize,
}

impl Touched {
    fn overlaps(&self, other: &Touched) -> bool {
        self.buffer == other.buffer && self.start < other.end && other.start < self.end
    }
}

/// Ranges touched since the last barrier.
#[derive(Debug, Default)]
pub struct HazardTracker {
    reads: Vec<Touched>,
    writes: Vec<Touched>,
}

impl HazardTracker {
    /// Records a dispatch. `true` if it must wait: it reads what was written, or writes what was read or
    /// written, since the last barrier. The caller then places a barrier before it.
    pub fn record<B: Buffer>(&mut self, arguments: &[Argument<'_, B>]) -> bool {
        let conflict = touched(arguments).any(|(range, access)| {
            let with = |earlier: &[Touched]| earlier.iter().any(|earlier| earlier.overlaps(&range));
            with(&self.writes) || (access == Access::Write && with(&self.reads))
        });
        if conflict {
            self.clear();
        }
        for (range, access) in touched(arguments) {
            match access {
                Access::Read => self.reads.push(range),
                Access::Write => self.writes.push(range),
            }
        }
        conflict
    }

    /// Forgets everything: a barrier was placed.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }
}

fn touched<B: Buffer>(arguments: &[Argument<'_, B>]) -> impl Iterator<Item = (Touched, Access)> {
    arguments.iter().filter_map(|argument| match argument {
        Argument::Buffer { range, access, .. } => Some((of(range), *access)),
        Argument::Bytes { .. } | Argument::Threadgroup { .. } => None,
    })
}

fn of<B: Buffer>(range: &BufferRange<'_, B>) -> Touched {
    Touched {
        buffer: range.buffer.id(),
        start: range.offset,
        end: range.offset + range.bytes,
    }
}

/// A concurrent encoder that places its own barriers.
pub struct TrackedEncoder<E> {
    encoder: E,
    tracker: HazardTracker,
    dispatches: usize,
    barriers: usize,
    is_logged: bool,
}

impl<E> TrackedEncoder<E> {
    /// Tracks an encoder that nothing was encoded with yet.
    pub fn new(encoder: E) -> Self {
        TrackedEncoder {
            encoder,
            tracker: HazardTracker::default(),
            dispatches: 0,
            barriers: 0,
            is_logged: false,
        }
    }

    /// The same, with each dispatch logged, and its kernel and grid in what the device says of it.
    pub fn logged(encoder: E) -> Self {
        TrackedEncoder {
            is_logged: true,
            ..Self::new(encoder)
        }
    }

    /// Dispatches appended so far.
    pub fn dispatches(&self) -> usize {
        self.dispatches
    }

    /// Barriers placed so far.
    pub fn barriers(&self) -> usize {
        self.barriers
    }

    /// Counts from zero again.
    pub fn reset_counts(&mut self) {
        self.dispatches = 0;
        self.barriers = 0;
    }

    /// Appends a dispatch, after a barrier if it needs one.
    pub fn dispatch<D: Device>(&mut self, dispatch: &Dispatch<'_, D>) -> Result<(), DeviceError>
    where
        E: ComputeEncoder<D>,
    {
        for argument in dispatch.arguments {
            if let Argument::Buffer { range, .. } = argument {
                range.check()?;
            }
        }
        if self.tracker.record(dispatch.arguments) {
            self.encoder.barrier();
            self.barriers += 1;
        }
        match self.is_logged {
            true => self.encoder.dispatch(&Dispatch {
                label: &logged(dispatch),
                ..*dispatch
            })?,
            false => self.encoder.dispatch(dispatch)?,
        }
        self.dispatches += 1;
        Ok(())
    }

    /// Ends the encoder.
    pub fn end<D: Device>(self) -> D::CommandBuffer
    where
        E: ComputeEncoder<D>,
    {
        self.encoder.end()
    }
}

/// Logs a dispatch; its label with what it runs.
fn logged<D: Device>(dispatch: &Dispatch<'_, D>) -> String {
    let (label, kernel) = (dispatch.label, dispatch.pipeline.kernel());
    let Size(threadgroup) = dispatch.threadgroup;
    let Size(threadgroups) = dispatch.grid.threadgroups(dispatch.threadgroup);
    tracing::info!(
        target: "minfer::dispatch",
        label,
        kernel,
        ?threadgroups,
        ?threadgroup
    );
    format!("{label}: {kernel} {threadgroups:?} x {threadgroup:?}")
}
