//! What the CPU offers.

use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_graph::Backend;

use crate::{EngineOptions, Error};

/// The CPU as an engine would use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuDevice {
    /// Compute threads.
    pub threads: usize,
    /// Instruction set of the kernels.
    pub isa: Isa,
    /// Bytes of memory that are available now; `None` when unknown.
    pub available: Option<u64>,
}

impl CpuDevice {
    /// The CPU that engines of these options run on.
    ///
    /// # Errors
    /// An instruction set that the machine lacks, or no thread to be had.
    pub fn of(options: &EngineOptions) -> Result<Self, Error> {
        let pool = Pool::new(1).map_err(Error::Threads)?;
        let cpu = CpuOptions {
            isa: options.isa,
            ..CpuOptions::default()
        };
        let backend = CpuBackend::new(Arc::new(pool), cpu)?;
        Ok(CpuDevice {
            threads: options.threads.unwrap_or_else(Pool::default_threads),
            isa: backend.isa(),
            available: backend.available_memory(),
        })
    }
}
