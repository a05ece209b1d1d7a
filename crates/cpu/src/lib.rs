//! CPU backend: SIMD kernels and a persistent thread pool.

mod attention;
mod available_memory;
mod backend;
mod dequant;
mod isa;
mod matmul;
mod ops;
mod pool;
mod simd;
mod topology;
mod view;

pub use backend::{CpuBackend, CpuOptions};
pub use isa::{Isa, IsaError};
pub use matmul::PrefillPrecision;
pub use pool::Pool;
