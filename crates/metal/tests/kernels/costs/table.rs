//! Counts of dispatches, as Markdown.

use std::fmt;

use minfer_softmetal::{KernelStatistics, Options, Profile, Submissions};

use crate::launch::options;
use crate::log::Log;
use crate::stage::Stage;

const PROFILE: Profile = Profile::M4Pro;
/// Bytes that a transaction of memory moves.
const SEGMENT: f64 = 64.0;
/// Multiplications and additions in a product of two matrices of 8 by 8.
const MATRIX_PRODUCT: usize = 8 * 8 * 8;

/// What an operation is asked to do.
#[derive(Clone)]
pub struct Work {
    /// Shapes, and types that the kernel's name lacks.
    pub what: String,
    /// Pairs of elements that each kernel with matrices has to multiply.
    pub multiplications: usize,
}

impl Work {
    /// Of kernels without matrices.
    pub fn new(what: String) -> Self {
        Work {
            what,
            multiplications: 0,
        }
    }
}

/// A dispatch.
struct Row {
    work: Work,
    counts: KernelStatistics,
    threadgroups: [u64; 3],
    threadgroup: [u64; 3],
}

/// A row for each kernel and its work.
pub struct Table {
    stage: Stage,
    rows: Vec<Row>,
}

impl Default for Table {
    fn default() -> Self {
        let options = Options {
            profile: PROFILE,
            ..options()
        };
        Table {
            stage: Stage::new(options),
            rows: Vec::new(),
        }
    }
}

impl Table {
    /// Runs an operation once, and adds those of its kernels that are not there with the same work.
    pub fn count(&mut self, work: &Work, run: impl FnOnce(&mut Stage)) {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || run(&mut self.stage));
        let logged = log.take();
        let kernels = self.stage.device.take_statistics().kernels;
        assert_eq!(logged.len(), kernels.len(), "{}: {logged:?}", work.what);
        for fields in &logged {
            let name = field(fields, "kernel").trim_matches('"');
            let counts = kernels.iter().find(|counts| counts.kernel == name);
            let counts = counts.unwrap().clone();
            assert_eq!(counts.dispatches, 1, "{name}");
            let is_same = |row: &Row| row.counts.kernel == name && row.work.what == work.what;
            if self.rows.iter().any(is_same) {
                continue;
            }
            self.rows.push(Row {
                work: work.clone(),
                counts,
                threadgroups: extents(field(fields, "threadgroups")),
                threadgroup: extents(field(fields, "threadgroup")),
            });
        }
    }

    /// With the rows of another one after its own.
    pub fn followed_by(mut self, other: Table) -> Table {
        self.rows.extend(other.rows);
        self
    }

    /// Kernels that have a row.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.counts.kernel.as_str())
    }
}

/// What stands after `name=`.
fn field<'a>(fields: &'a [String], name: &str) -> &'a str {
    let values = fields.iter().filter_map(|field| field.split_once('='));
    let mut values = values.filter(|(of, _)| *of == name);
    values.next().unwrap().1
}

fn extents(list: &str) -> [u64; 3] {
    serde_json::from_str(list).unwrap()
}

/// Extents up to the last that is not 1.
struct Extents([u64; 3]);

impl fmt::Display for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extents([x, y, z]) = self;
        match (y, z) {
            (1, 1) => write!(f, "{x}"),
            (y, 1) => write!(f, "{x} × {y}"),
            (y, z) => write!(f, "{x} × {y} × {z}"),
        }
    }
}

impl Row {
    fn distinct_bytes(&self) -> u64 {
        self.counts.distinct_bytes_read + self.counts.distinct_bytes_written
    }

    /// In microseconds.
    fn estimate(&self) -> f64 {
        let submissions = Submissions {
            dispatches: 1,
            ..Submissions::default()
        };
        let costs = PROFILE.costs();
        let estimate = costs.estimate(std::slice::from_ref(&self.counts), submissions);
        1e3 * estimate.total_ms
    }

    /// Products of matrices, with the least that there can be.
    fn matrix_products(&self) -> String {
        let least = self.work.multiplications.div_ceil(MATRIX_PRODUCT);
        match self.counts.counters.matrix_operations {
            0 => String::new(),
            products => format!("{products} ({least})"),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = self.counts.counters;
        let distinct = self.distinct_bytes() as f64;
        let accessed = (counters.bytes_read + counters.bytes_written) as f64;
        let threadgroups: u64 = self.threadgroups.iter().product();
        write!(
            f,
            "| `{}` | {} | {} | {} | {} | {:.2} | {:.2} | {:.2} | {} | {} | {:.1} |",
            self.counts.kernel,
            self.work.what,
            Extents(self.threadgroups),
            Extents(self.threadgroup),
            self.distinct_bytes(),
            accessed / distinct,
            self.counts.coalescing(),
            SEGMENT * counters.segments as f64 / distinct,
            counters.threadgroup_barriers as f64 / threadgroups as f64,
            self.matrix_products(),
            self.estimate(),
        )
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| kernel | work | threadgroups | threads | bytes | accesses | coalescing | segments | barriers | matrices (least) \
             | µs |"
        )?;
        writeln!(f, "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
