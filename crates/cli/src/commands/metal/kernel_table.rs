//! What kernels did, as JSON and as a table.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use minfer_softmetal::{KernelStatistics, Submissions};
use serde::Serialize;

use super::options::Machine;
use crate::console::{Output, bytes};

/// A kernel's counts. The names are an interface.
#[derive(Debug, Serialize)]
pub struct KernelRow {
    pub name: String,
    pub dispatches: u64,
    /// Each access counted.
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Each byte once per dispatch.
    pub distinct_bytes_read: u64,
    pub distinct_bytes_written: u64,
    /// Bytes accessed per byte that a dispatch touches: 1 where each is accessed once.
    pub accesses_per_byte: f64,
    pub segments: u64,
    /// Bytes accessed per byte of the segments.
    pub coalescing: f64,
    /// Barriers that threadgroups passed.
    pub barriers: u64,
    pub simdgroup_barriers: u64,
    pub simd_operations: u64,
    pub matrix_operations: u64,
    /// Milliseconds that all its dispatches might take, without barriers between them, by machine.
    pub estimates: BTreeMap<&'static str, f64>,
}

impl From<&KernelStatistics> for KernelRow {
    fn from(kernel: &KernelStatistics) -> Self {
        let counters = kernel.counters;
        let accessed = counters.bytes_read + counters.bytes_written;
        let distinct = kernel.distinct_bytes_read + kernel.distinct_bytes_written;
        let submissions = Submissions {
            dispatches: kernel.dispatches,
            ..Submissions::default()
        };
        let estimate = |machine: Machine| {
            let costs = machine.profile().costs();
            let estimate = costs.estimate(std::slice::from_ref(kernel), submissions);
            (machine.name(), estimate.total_ms)
        };
        KernelRow {
            name: kernel.kernel.clone(),
            dispatches: kernel.dispatches,
            bytes_read: counters.bytes_read,
            bytes_written: counters.bytes_written,
            distinct_bytes_read: kernel.distinct_bytes_read,
            distinct_bytes_written: kernel.distinct_bytes_written,
            accesses_per_byte: accessed as f64 / distinct.max(1) as f64,
            segments: counters.segments,
            coalescing: kernel.coalescing(),
            barriers: counters.threadgroup_barriers,
            simdgroup_barriers: counters.simdgroup_barriers,
            simd_operations: counters.simd_operations,
            matrix_operations: counters.matrix_operations,
            estimates: Machine::ALL.map(estimate).into(),
        }
    }
}

/// Rows of all kernels.
pub fn rows(kernels: &[KernelStatistics]) -> Vec<KernelRow> {
    kernels.iter().map(KernelRow::from).collect()
}

/// Prints a line per kernel, with estimates of its time.
pub fn write(output: &mut Output, rows: &[KernelRow]) -> Result<()> {
    let name = rows.iter().map(|row| row.name.len()).max();
    let name = name.unwrap_or(0).max("kernel".len());
    write!(
        output,
        "{:name$} {:>10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>9} {:>9}",
        "kernel",
        "dispatches",
        "read",
        "written",
        "per byte",
        "segments",
        "coalescing",
        "barriers",
        "simd",
        "matrix",
    )?;
    for machine in Machine::ALL {
        write!(output, " {:>9}", format!("{} ms", machine.name()))?;
    }
    writeln!(output)?;
    for row in rows {
        write!(
            output,
            "{:name$} {:>10} {:>9} {:>9} {:>9.2} {:>10} {:>10.2} {:>9} {:>9} {:>9}",
            row.name,
            row.dispatches,
            bytes(row.bytes_read),
            bytes(row.bytes_written),
            row.accesses_per_byte,
            row.segments,
            row.coalescing,
            row.barriers,
            row.simd_operations,
            row.matrix_operations,
        )?;
        for machine in Machine::ALL {
            write!(output, " {:>9.3}", row.estimates[machine.name()])?;
        }
        writeln!(output)?;
    }
    Ok(())
}
