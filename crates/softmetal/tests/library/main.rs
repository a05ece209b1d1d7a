//! The library that kernels include: each expression with its value by the specification.

#![cfg(target_os = "linux")]

mod absent;
mod atomics;
mod builtins;
mod constants;
mod halves;
mod idioms;
mod integers;
mod lanes;
mod math;
mod matrices;
mod pack;
mod run;
mod scalars;
mod tiles;
mod types;
mod vectors;
