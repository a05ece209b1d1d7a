//! What kernels did, in numbers.

/// Sums of what a kernel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Bytes of buffers read, each access counted.
    pub bytes_read: u64,
    /// Bytes of buffers written, each access counted.
    pub bytes_written: u64,
    /// Distinct 64-byte segments that the lanes of a simdgroup touched together, summed over accesses. Counted in
    /// lockstep only.
    pub segments: u64,
    /// Barriers that a threadgroup passed.
    pub threadgroup_barriers: u64,
    /// Barriers that a simdgroup passed.
    pub simdgroup_barriers: u64,
    /// Operations among the lanes of a simdgroup.
    pub simd_operations: u64,
    /// Products of matrices that a simdgroup holds.
    pub matrix_operations: u64,
}

impl Counters {
    /// Adds the counts of another dispatch.
    pub(crate) fn add(&mut self, other: Counters) {
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.segments += other.segments;
        self.threadgroup_barriers += other.threadgroup_barriers;
        self.simdgroup_barriers += other.simdgroup_barriers;
        self.simd_operations += other.simd_operations;
        self.matrix_operations += other.matrix_operations;
    }
}
