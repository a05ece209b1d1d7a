//! Loading, prefill, decode and sampling.
