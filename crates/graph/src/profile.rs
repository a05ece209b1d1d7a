//! Where the time of steps goes. Nothing is timed, and nothing costs time, while there is no profile.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use crate::backend::{Backend, DeviceWork};

/// Operations that the table shows by name.
const TOP: usize = 20;
/// Row of submissions, which wait for the device.
const WAIT: &str = "wait";

/// Calls and time of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpTime {
    /// How often it ran.
    pub calls: u64,
    /// Host time in all: of a backend that enqueues, the time to enqueue.
    pub total: Duration,
}

/// Work of one backend that enqueues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProfile {
    /// Name of the backend.
    pub name: String,
    /// Its work in all steps.
    pub work: DeviceWork,
}

/// Host time by operation, summed over steps.
///
/// Beside operations there are `input` and `output` (between caller and buffers), `copy out` and `copy in` (between
/// backends), `synchronize` (the ends of splits) and `wait`: the submissions of all backends that enqueue, wherever they
/// were made, each from handing over to completion. Their time counts nowhere else.
#[derive(Clone, Debug, Default)]
pub struct OpProfile {
    times: HashMap<&'static str, OpTime>,
    devices: Vec<DeviceProfile>,
    steps: u64,
}

impl OpProfile {
    /// Operations with their times, the costliest first.
    pub fn by_cost(&self) -> Vec<(&'static str, OpTime)> {
        let mut rows: Vec<_> = self.times.iter().map(|(op, time)| (*op, *time)).collect();
        rows.sort_by_key(|(op, time)| (std::cmp::Reverse(time.total), *op));
        rows
    }

    /// Work of the backends that enqueue.
    pub fn devices(&self) -> &[DeviceProfile] {
        &self.devices
    }

    /// Steps in the table.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A step begins.
    pub(crate) fn begin_step(&mut self) {
        self.steps += 1;
    }

    fn add(&mut self, label: &'static str, calls: u64, elapsed: Duration) {
        let time = self.times.entry(label).or_default();
        time.calls += calls;
        time.total += elapsed;
    }

    /// Counts work of a backend; the time it waited.
    fn add_work(&mut self, device: &dyn Backend, before: DeviceWork) -> Duration {
        let Some(now) = device.device_work() else {
            return Duration::ZERO;
        };
        let work = DeviceWork {
            dispatches: now.dispatches.saturating_sub(before.dispatches),
            barriers: now.barriers.saturating_sub(before.barriers),
            copies: now.copies.saturating_sub(before.copies),
            submits: now.submits.saturating_sub(before.submits),
            waited: now.waited.saturating_sub(before.waited),
        };
        if work.submits > 0 {
            self.add(WAIT, work.submits, work.waited);
        }
        let name = device.name();
        let known = self.devices.iter().position(|known| known.name == name);
        let index = known.unwrap_or_else(|| {
            self.devices.push(DeviceProfile {
                name: name.to_owned(),
                work: DeviceWork::default(),
            });
            self.devices.len() - 1
        });
        let total = &mut self.devices[index].work;
        total.dispatches += work.dispatches;
        total.barriers += work.barriers;
        total.copies += work.copies;
        total.submits += work.submits;
        total.waited += work.waited;
        work.waited
    }
}

impl fmt::Display for OpProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.by_cost();
        let sum: Duration = rows.iter().map(|(_, time)| time.total).sum();
        writeln!(
            f,
            "{:<12} {:>9} {:>11} {:>9} {:>6}",
            "op", "calls", "total ms", "us/call", "%"
        )?;
        let (shown, others) = rows.split_at(rows.len().min(TOP));
        for (op, time) in shown {
            write_row(f, op, *time, sum)?;
        }
        if !others.is_empty() {
            let all = others
                .iter()
                .fold(OpTime::default(), |all, (_, time)| OpTime {
                    calls: all.calls + time.calls,
                    total: all.total + time.total,
                });
            write_row(f, &format!("{} others", others.len()), all, sum)?;
        }
        for DeviceProfile { name, work } in &self.devices {
            let each = |count: u64| count as f64 / self.steps.max(1) as f64;
            writeln!(
                f,
                "{name}, per step of {}: {:.1} dispatches, {:.1} barriers, {:.1} copies, {:.1} submissions",
                self.steps,
                each(work.dispatches),
                each(work.barriers),
                each(work.copies),
                each(work.submits)
            )?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, op: &str, time: OpTime, sum: Duration) -> fmt::Result {
    let ms = time.total.as_secs_f64() * 1e3;
    let each = ms * 1e3 / time.calls.max(1) as f64;
    let share = 100.0 * time.total.as_secs_f64() / sum.as_secs_f64().max(1e-9);
    let calls = time.calls;
    writeln!(f, "{op:<12} {calls:>9} {ms:>11.3} {each:>9.1} {share:>6.1}")
}

/// Runs `work` on a backend, adding its time to the profile if there is one.
pub(crate) fn timed<T>(
    profile: &mut Option<OpProfile>,
    label: &'static str,
    device: &mut dyn Backend,
    work: impl FnOnce(&mut dyn Backend) -> T,
) -> T {
    let Some(profile) = profile else {
        return work(device);
    };
    let before = device.device_work().unwrap_or_default();
    let start = Instant::now();
    let result = work(device);
    let elapsed = start.elapsed();
    let waited = profile.add_work(device, before);
    profile.add(label, 1, elapsed.saturating_sub(waited));
    result
}
