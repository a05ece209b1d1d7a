//! Saving sequences to files and restoring them.

mod damage;
mod kill;
mod mismatch;
mod replace;
mod round_trip;
mod support;
