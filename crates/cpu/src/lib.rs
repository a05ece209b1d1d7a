//! CPU backend: SIMD kernels and a persistent thread pool.

mod dequant;
mod isa;
mod matmul;
mod pool;
mod topology;

pub use isa::{Isa, IsaError};
pub use pool::Pool;
