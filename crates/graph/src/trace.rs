//! Looking inside a run: values of nodes and time per operation. Neither costs anything when off.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::ir::Node;

/// Value of a node right after it ran.
#[derive(Clone, Copy, Debug)]
pub struct TracedValue<'a> {
    /// The node.
    pub node: &'a Node,
    /// Name of the backend that ran it.
    pub backend: &'a str,
    /// `rows` rows of `node.width` features.
    pub values: &'a [f32],
    /// Rows in this step.
    pub rows: usize,
}

/// Receives the values of nodes as they are computed. Reading them makes every backend wait.
pub trait Trace: Send {
    /// Whether to read this node's value.
    fn wants(&self, _node: &Node) -> bool {
        true
    }

    /// Takes a value.
    fn record(&mut self, value: TracedValue<'_>);
}

impl<F: FnMut(TracedValue<'_>) + Send> Trace for F {
    fn record(&mut self, value: TracedValue<'_>) {
        self(value);
    }
}

/// Calls and time of one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTime {
    /// How often it ran.
    pub calls: u64,
    /// Time in all. For a backend that enqueues, this is the time to enqueue; the rest shows up as
    /// `synchronize`.
    pub total: Duration,
}

/// Host time by operation, summed over steps.
#[derive(Clone, Debug, Default)]
pub struct OpProfile {
    times: HashMap<&'static str, OpTime>,
}

impl OpProfile {
    /// Operations with their times, the costliest first.
    pub fn by_cost(&self) -> Vec<(&'static str, OpTime)> {
        let mut rows: Vec<_> = self.times.iter().map(|(op, time)| (*op, *time)).collect();
        rows.sort_by_key(|(op, time)| (std::cmp::Reverse(time.total), *op));
        rows
    }

    fn add(&mut self, label: &'static str, elapsed: Duration) {
        let time = self.times.entry(label).or_insert(OpTime {
            calls: 0,
            total: Duration::ZERO,
        });
        time.calls += 1;
        time.total += elapsed;
    }
}

impl fmt::Display for OpProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.by_cost();
        let sum: Duration = rows.iter().map(|(_, time)| time.total).sum();
        let share = |time: Duration| 100.0 * time.as_secs_f64() / sum.as_secs_f64().max(1e-9);
        writeln!(
            f,
            "{:<12} {:>9} {:>11} {:>9} {:>6}",
            "op", "calls", "total ms", "us/call", "%"
        )?;
        for (op, OpTime { calls, total }) in rows {
            let ms = total.as_secs_f64() * 1e3;
            let each = ms * 1e3 / calls as f64;
            let share = share(total);
            writeln!(f, "{op:<12} {calls:>9} {ms:>11.3} {each:>9.1} {share:>6.1}")?;
        }
        Ok(())
    }
}

/// Runs `work`, adding its time to the profile if there is one.
pub(crate) fn timed<T>(
    profile: &mut Option<OpProfile>,
    label: &'static str,
    work: impl FnOnce() -> T,
) -> T {
    let Some(profile) = profile else {
        return work();
    };
    let start = Instant::now();
    let result = work();
    profile.add(label, start.elapsed());
    result
}
