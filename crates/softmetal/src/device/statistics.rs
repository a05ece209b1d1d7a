//! What was run, in numbers.

use crate::check::Counters;

/// What a kernel has done, over all its dispatches.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KernelStatistics {
    /// Name of the kernel.
    pub kernel: String,
    /// How often it was dispatched.
    pub dispatches: u64,
    /// Bytes of buffers read, each once per dispatch.
    pub distinct_bytes_read: u64,
    /// Bytes of buffers written, each once per dispatch.
    pub distinct_bytes_written: u64,
    /// Sums over accesses and operations.
    #[serde(flatten)]
    pub counters: Counters,
}

impl KernelStatistics {
    fn add(&mut self, other: &Self) {
        self.dispatches += other.dispatches;
        self.distinct_bytes_read += other.distinct_bytes_read;
        self.distinct_bytes_written += other.distinct_bytes_written;
        self.counters.add(other.counters);
    }
}

/// What command buffers consisted of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Submissions {
    /// Command buffers that were run.
    pub command_buffers: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Copies and fills.
    pub copies: u64,
    /// How often work of a command buffer waited for all work before it: at a barrier, after a dispatch of a
    /// serial encoder, or where an encoder follows another one.
    pub barriers: u64,
}

impl Submissions {
    pub(super) fn add(&mut self, other: Self) {
        self.command_buffers += other.command_buffers;
        self.dispatches += other.dispatches;
        self.copies += other.copies;
        self.barriers += other.barriers;
    }
}

/// Everything that a device counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Statistics {
    /// Each kernel, by name.
    pub kernels: Vec<KernelStatistics>,
    /// What was submitted.
    pub submissions: Submissions,
}

impl Statistics {
    /// Adds what was counted at another time.
    pub fn add(&mut self, other: &Statistics) {
        self.submissions.add(other.submissions);
        for kernel in &other.kernels {
            let at = self
                .kernels
                .binary_search_by(|known| known.kernel.cmp(&kernel.kernel));
            match at {
                Ok(at) => self.kernels[at].add(kernel),
                Err(at) => self.kernels.insert(at, kernel.clone()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_two_times_add_up_by_kernel() {
        let kernel = |name: &str, dispatches, segments| KernelStatistics {
            kernel: name.to_owned(),
            dispatches,
            distinct_bytes_read: 10 * dispatches,
            distinct_bytes_written: dispatches,
            counters: Counters {
                segments,
                ..Counters::default()
            },
        };
        let submissions = |barriers| Submissions {
            command_buffers: 1,
            dispatches: 3,
            copies: 2,
            barriers,
        };
        let mut sum = Statistics {
            kernels: vec![kernel("b", 1, 5), kernel("d", 2, 6)],
            submissions: submissions(4),
        };
        sum.add(&Statistics {
            kernels: vec![kernel("a", 1, 1), kernel("b", 2, 7), kernel("e", 9, 9)],
            submissions: submissions(1),
        });
        let expected = [
            kernel("a", 1, 1),
            kernel("b", 3, 12),
            kernel("d", 2, 6),
            kernel("e", 9, 9),
        ];
        assert_eq!(sum.kernels, expected);
        let expected = Submissions {
            command_buffers: 2,
            dispatches: 6,
            copies: 4,
            barriers: 5,
        };
        assert_eq!(sum.submissions, expected);
    }
}
