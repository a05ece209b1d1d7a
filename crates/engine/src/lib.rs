//! Loading, prefill, decode and sampling.

pub mod sampling;
