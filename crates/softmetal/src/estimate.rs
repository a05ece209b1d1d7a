//! From counts to time: a model of a machine, not a measurement.
//!
//! `time = sum over kernels of bytes / (bandwidth * coalescing) + dispatches * dispatch + barriers * barrier +
//! command buffers * command buffer`.
//!
//! It takes every kernel for bound by memory, every byte of a dispatch for moved once, and nothing for overlapped.
//! Arithmetic is not in it.

use serde::Serialize;

use crate::{KernelStatistics, Profile, Submissions};

/// Bytes that one transaction of a GPU's memory moves.
const SEGMENT: f64 = 64.0;

/// What a machine takes for a unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// Bytes of memory moved in a second.
    pub bytes_per_second: f64,
    /// Seconds from one dispatch of an encoder to the next.
    pub dispatch_seconds: f64,
    /// Seconds that a barrier between dispatches adds.
    pub barrier_seconds: f64,
    /// Seconds to submit a command buffer and to wait for it.
    pub command_buffer_seconds: f64,
}

/// An estimate, by what takes the time. All in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Moving bytes.
    pub memory_ms: f64,
    /// Starting dispatches.
    pub dispatches_ms: f64,
    /// Barriers between dispatches.
    pub barriers_ms: f64,
    /// Command buffers.
    pub command_buffers_ms: f64,
    /// All of it.
    pub total_ms: f64,
}

impl Profile {
    /// What this machine takes. `docs/metal.md` has the source of each figure, and which are assumptions.
    pub fn costs(self) -> Costs {
        let bytes_per_second = match self {
            Profile::M1 => 68.25e9,
            Profile::M4Pro => 273e9,
        };
        Costs {
            bytes_per_second,
            dispatch_seconds: 1.5e-6,
            barrier_seconds: 1e-6,
            command_buffer_seconds: 165e-6,
        }
    }
}

impl Costs {
    /// How long the machine might take for what was counted in lockstep.
    pub fn estimate(&self, kernels: &[KernelStatistics], submissions: Submissions) -> Estimate {
        let seconds = |kernel: &KernelStatistics| {
            let bytes = kernel.distinct_bytes_read + kernel.distinct_bytes_written;
            bytes as f64 / (self.bytes_per_second * kernel.coalescing().min(1.0))
        };
        let memory_ms = 1e3 * kernels.iter().map(seconds).sum::<f64>();
        let dispatches_ms = 1e3 * submissions.dispatches as f64 * self.dispatch_seconds;
        let barriers_ms = 1e3 * submissions.barriers as f64 * self.barrier_seconds;
        let command_buffers_ms =
            1e3 * submissions.command_buffers as f64 * self.command_buffer_seconds;
        Estimate {
            memory_ms,
            dispatches_ms,
            barriers_ms,
            command_buffers_ms,
            total_ms: memory_ms + dispatches_ms + barriers_ms + command_buffers_ms,
        }
    }
}

impl KernelStatistics {
    /// Bytes that lanes accessed per byte of the segments that they touched together. 1 where neighbours
    /// access neighbours, below where they are apart, above where they share; 1 without segments.
    pub fn coalescing(&self) -> f64 {
        let accessed = self.counters.bytes_read + self.counters.bytes_written;
        match self.counters.segments {
            0 => 1.0,
            segments => accessed as f64 / (SEGMENT * segments as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counters;

    fn kernel(distinct: [u64; 2], accessed: [u64; 2], segments: u64) -> KernelStatistics {
        KernelStatistics {
            distinct_bytes_read: distinct[0],
            distinct_bytes_written: distinct[1],
            counters: Counters {
                bytes_read: accessed[0],
                bytes_written: accessed[1],
                segments,
                ..Counters::default()
            },
            ..KernelStatistics::default()
        }
    }

    #[test]
    fn a_step_of_three_kernels_by_hand() {
        let costs = Costs {
            bytes_per_second: 100e9,
            dispatch_seconds: 2e-6,
            barrier_seconds: 3e-6,
            command_buffer_seconds: 100e-6,
        };
        let kernels = [
            // Every segment used whole: 200 MB take 2 ms.
            kernel(
                [150_000_000, 50_000_000],
                [150_000_000, 50_000_000],
                3_125_000,
            ),
            // A quarter of each segment: 10 MB take as long as 40 MB, 0.4 ms.
            kernel([10_000_000, 0], [10_000_000, 0], 625_000),
            // Lanes read the same value: 5 MB are 5 MB, 0.05 ms.
            kernel([5_000_000, 0], [160_000_000, 0], 78_125),
        ];
        let submissions = Submissions {
            command_buffers: 2,
            dispatches: 100,
            barriers: 50,
            copies: 7,
        };
        let estimate = costs.estimate(&kernels, submissions);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(estimate.memory_ms, 2.45);
        near(estimate.dispatches_ms, 0.2);
        near(estimate.barriers_ms, 0.15);
        near(estimate.command_buffers_ms, 0.2);
        near(estimate.total_ms, 3.0);
    }

    #[test]
    fn nothing_takes_no_time() {
        let estimate = Profile::M1.costs().estimate(&[], Submissions::default());
        assert_eq!(estimate, Estimate::default());
    }
}
