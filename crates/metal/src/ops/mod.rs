//! Operations on device memory: checks of shapes, and the choice of kernel, function constants and grid.
//!
//! Each function appends to an encoder that places barriers by itself. Work without rows or features dispatches
//! nothing.

pub mod attention;
pub mod elementwise;
mod error;
pub mod flash_decode;
pub mod flash_prefill;
mod fused;
pub mod fused_ffn;
pub mod fused_matmul;
pub mod fused_qkv;
pub mod gemm;
mod kernels;
pub mod kv;
pub mod kv_rotate;
pub mod kv_stage;
pub mod matvec;
pub mod norm;
mod operands;
pub mod rope;
pub mod rows;
pub mod split_attention;
pub mod three_pass;
pub mod touch;

pub use error::OpError;
pub(crate) use error::{number, same};
pub use kernels::{Kernel, Kernels};

use operands::VECTOR;
pub use operands::{Indices, Matrix, Rows, WEIGHT_ALIGNMENT};

use crate::arguments::KernelArguments;
use crate::device::{Argument, CommandBuffer, Device, Dispatch, Grid, Pipeline, Size};
use crate::hazard::TrackedEncoder;

/// Threads per threadgroup where a kernel takes any number: enough to hide latency, and small enough that a
/// single row keeps several cores busy. Devices may allow fewer.
const THREADS: usize = 256;

/// The concurrent encoder that operations append to.
pub type Encoder<D> = TrackedEncoder<<<D as Device>::CommandBuffer as CommandBuffer<D>>::Compute>;

/// Binds an argument struct to `[[buffer(0)]]`.
pub(crate) fn copied<B>(arguments: &impl KernelArguments) -> Argument<'_, B> {
    Argument::Bytes {
        index: 0,
        bytes: arguments.as_bytes(),
    }
}

/// Where operations are appended.
pub struct Encode<'a, D: Device> {
    /// The device.
    pub device: &'a D,
    /// Its kernels.
    pub kernels: &'a mut Kernels<D>,
    /// What receives the dispatches.
    pub encoder: &'a mut Encoder<D>,
    /// Name of the work for errors and traces, such as the graph node's.
    pub label: &'a str,
}

impl<D: Device> Encode<'_, D> {
    /// A kernel ready to run.
    pub(crate) fn pipeline(&mut self, kernel: Kernel<'_>) -> Result<D::Pipeline, OpError> {
        self.kernels.pipeline(self.device, kernel)
    }

    /// Appends one thread per element of `[x, y, z]`, of a kernel that takes any threadgroup of whole simdgroups.
    pub(crate) fn threads(
        &mut self,
        kernel: Kernel<'_>,
        grid: [usize; 3],
        arguments: &[Argument<'_, D::Buffer>],
    ) -> Result<(), OpError> {
        let pipeline = self.pipeline(kernel)?;
        let threads = extents(kernel.name, grid)?;
        let limit = pipeline.max_threads_per_threadgroup().min(THREADS);
        let threadgroup = threadgroup(grid, self.device.info().simd_width, limit);
        self.append(&pipeline, Grid::Threads(threads), threadgroup, arguments)
    }

    /// Appends `groups` threadgroups of `threads` threads.
    pub(crate) fn groups(
        &mut self,
        kernel: Kernel<'_>,
        groups: [usize; 3],
        threads: usize,
        arguments: &[Argument<'_, D::Buffer>],
    ) -> Result<(), OpError> {
        let pipeline = self.pipeline(kernel)?;
        let limit = pipeline.max_threads_per_threadgroup();
        if threads > limit {
            let expected = format_args!("at most {limit}").to_string();
            let what = "a threadgroup's number of threads";
            return Err(OpError::value(kernel.name, what, threads, expected));
        }
        let grid = Grid::Threadgroups(extents(kernel.name, groups)?);
        let threads = Size::linear(number(kernel.name, "threads", threads)?);
        self.append(&pipeline, grid, threads, arguments)
    }

    fn append(
        &mut self,
        pipeline: &D::Pipeline,
        grid: Grid,
        threadgroup: Size,
        arguments: &[Argument<'_, D::Buffer>],
    ) -> Result<(), OpError> {
        let dispatch = Dispatch {
            label: self.label,
            pipeline,
            arguments,
            grid,
            threadgroup,
        };
        Ok(self.encoder.dispatch(&dispatch)?)
    }
}

fn extents(op: &'static str, [x, y, z]: [usize; 3]) -> Result<Size, OpError> {
    let extent = |extent| number(op, "a grid's extent", extent);
    Ok(Size([extent(x)?, extent(y)?, extent(z)?]))
}

/// Whole simdgroups along x, as far as the grid goes, then along y and z; at most `limit` threads.
fn threadgroup(grid: [usize; 3], simd_width: usize, limit: usize) -> Size {
    let simd_width = simd_width.clamp(1, limit.max(1));
    let whole = |threads: usize| threads / simd_width * simd_width;
    let x = whole(limit)
        .min(grid[0].next_multiple_of(simd_width))
        .max(1);
    let y = (limit / x).clamp(1, grid[1].max(1));
    let z = (limit / (x * y)).clamp(1, grid[2].max(1));
    Size([x, y, z].map(|extent| extent as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threadgroups_are_whole_simdgroups_within_the_limit() {
        for (grid, limit, expected) in [
            ([1000, 5, 1], 256, [256, 1, 1]),
            ([100, 5, 1], 256, [128, 2, 1]),
            ([1, 100, 1], 256, [32, 8, 1]),
            ([48, 2, 9], 256, [64, 2, 2]),
            ([1000, 5, 1], 100, [96, 1, 1]),
            ([1000, 5, 1], 20, [20, 1, 1]),
        ] {
            assert_eq!(
                threadgroup(grid, 32, limit),
                Size(expected),
                "{grid:?} of {limit}"
            );
        }
    }
}
