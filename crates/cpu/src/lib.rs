//! CPU backend: SIMD kernels and a persistent thread pool.

pub mod isa;
pub mod matmul;
