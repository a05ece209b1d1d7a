//! The library that kernels include: each expression with its value by the specification.

#![cfg(target_os = "linux")]

mod builtins;
mod idioms;
mod integers;
mod lanes;
mod matrices;
mod run;
mod scalars;
mod tiles;
mod vectors;
