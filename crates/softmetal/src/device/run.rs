//! Runs command buffers.

use std::ffi::c_void;
use std::time::Instant;

use minfer_metal::device::{Buffer, Pipeline, RecentLabels, Size};

use super::commands::{Command, Recorded, Value};
use super::hazards::{Blit, Hazards};
use super::results::Origin;
use super::statistics::Submissions;
use super::{Mode, SoftDevice};
use crate::check::{Device, Private, Regions, Watch};
use crate::exec::{self, Checked, ExecError, Work};
use crate::module::{Slot, thread_storage};
use crate::report::{Report, Severity};

/// Stacks in use at a time: each takes two of the 65,530 mappings that Linux allows a process.
const MAX_STACKS: usize = 8192;

/// Why a command buffer did not complete.
pub(super) struct Failure {
    /// What was wrong; `None` when time was up.
    pub(super) message: Option<String>,
    pub(super) recent: Vec<String>,
}

/// Runs all commands in order. An error that the checker found fails the command buffer in the end.
pub(super) fn run(
    device: &SoftDevice,
    commands: &[Command],
    deadline: Instant,
) -> Result<(), Failure> {
    let _busy = device.0.busy.lock();
    device.results().count_submission(submission(commands));
    let mut recent = RecentLabels::default();
    let mut hazards = Hazards::default();
    let mut error = None;
    for command in commands {
        hazards.pass(command);
        let found = match command {
            Command::Barrier | Command::Ordered | Command::End | Command::Fence => None,
            Command::Copy { from, to } => {
                let (source, target) = (from.buffer.pointer(), to.buffer.pointer());
                // SAFETY: both ranges were checked when encoded and do not overlap; the lock keeps others away.
                unsafe {
                    let source = source.add(from.offset);
                    source.copy_to_nonoverlapping(target.add(to.offset), from.bytes);
                }
                to.buffer
                    .copy_marks(to.offset, to.bytes, &from.buffer, from.offset);
                let from = Some(from);
                blit(device, Blit { from, to }, &mut hazards)
            }
            Command::Fill { range, value } => {
                let first = range.buffer.pointer().wrapping_add(range.offset);
                // SAFETY: as above.
                unsafe { first.write_bytes(*value, range.bytes) };
                range.buffer.mark_written(range.offset, range.bytes);
                let fill = Blit {
                    from: None,
                    to: range,
                };
                blit(device, fill, &mut hazards)
            }
            Command::Dispatch(recorded) => {
                recent.push(&recorded.label);
                let result = dispatch(device, recorded, deadline, &mut hazards);
                result.map_err(|cause| Failure {
                    message: match cause {
                        ExecError::Expired => None,
                        other => Some(other.to_string()),
                    },
                    recent: recent.clone().into_vec(),
                })?
            }
        };
        error = error.or(found);
    }
    match error {
        Some(message) => Err(Failure {
            message: Some(message),
            recent: recent.into_vec(),
        }),
        None => Ok(()),
    }
}

/// What a command buffer consists of.
fn submission(commands: &[Command]) -> Submissions {
    let mut counts = Submissions {
        command_buffers: 1,
        ..Submissions::default()
    };
    // Whether there is work since the last barrier, and whether a barrier is behind work.
    let (mut running, mut waits) = (false, false);
    for command in commands {
        match command {
            Command::Barrier | Command::Ordered | Command::End | Command::Fence => {
                waits |= std::mem::take(&mut running);
                continue;
            }
            Command::Dispatch(_) => counts.dispatches += 1,
            Command::Copy { .. } | Command::Fill { .. } => counts.copies += 1,
        }
        running = true;
        counts.barriers += u64::from(std::mem::take(&mut waits));
    }
    counts
}

/// Compares a copy or fill with what it is not ordered with; the first error.
fn blit<'a>(device: &SoftDevice, blit: Blit<'a>, hazards: &mut Hazards<'a>) -> Option<String> {
    if !device.is_checked() {
        return None;
    }
    let footprint = blit.footprint();
    first_error(&hazards.add(&mut device.results(), Origin::Blit(blit), footprint))
}

fn first_error(reports: &[Report]) -> Option<String> {
    let mut errors = reports.iter();
    let error = errors.find(|report| report.severity == Severity::Error);
    error.map(Report::headline)
}

/// Runs a dispatch; the first error that the checker found.
fn dispatch<'a>(
    device: &SoftDevice,
    recorded: &'a Recorded,
    deadline: Instant,
    hazards: &mut Hazards<'a>,
) -> Result<Option<String>, ExecError> {
    let work = Work {
        kernel: recorded.pipeline.entry(),
        image: recorded.pipeline.library.module.image.range.clone(),
        buffers: &pointers(recorded),
        threadgroup_memory: &recorded.threadgroup_memory,
        threads: recorded.threads,
        threadgroup: recorded.threadgroup,
        threadgroups: recorded.threadgroups,
        deadline,
        memory_limit: device.0.info.max_threadgroup_memory,
        lockstep: device.0.options.mode == Mode::Checked,
        reversed: device.0.options.reversed,
        places: &recorded.pipeline.library.module.places,
        without_barrier: device.0.options.without_barrier.as_ref(),
    };
    if !device.is_checked() {
        unchecked(recorded, &work)?;
        device.results().count_unchecked(recorded.pipeline.kernel());
        return Ok(None);
    }
    recorded.pipeline.set_constants();
    let (checked, result) = exec::run_checked(&work, watch(recorded));
    let error = judge(device, recorded, checked, hazards);
    result.map(|()| error)
}

/// Spreads threadgroups over the processor's threads.
fn unchecked(recorded: &Recorded, work: &Work<'_>) -> Result<(), ExecError> {
    let groups: usize = work
        .threadgroups
        .iter()
        .map(|&extent| extent as usize)
        .product();
    let stacks = Size(work.threadgroup).count().max(1) as usize;
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(MAX_STACKS / stacks)
        .clamp(1, groups);
    let shared = Shared(work);
    std::thread::scope(|scope| {
        let run = |first| {
            move || {
                recorded.pipeline.set_constants();
                exec::run_unchecked(shared.get(), first, threads)
            }
        };
        let others: Vec<_> = (1..threads).map(|first| scope.spawn(run(first))).collect();
        let own = run(0)();
        let joined = others.into_iter().map(|other| {
            let result = other.join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.fold(own, Result::and)
    })
}

/// Work that several OS threads take part in.
#[derive(Clone, Copy)]
struct Shared<'a>(&'a Work<'a>);

// SAFETY: the raw pointers are addresses of buffers, which kernels share as a GPU's threads do.
unsafe impl Send for Shared<'_> {}

impl<'a> Shared<'a> {
    fn get(self) -> &'a Work<'a> {
        self.0
    }
}

fn pointers(recorded: &Recorded) -> Vec<*mut c_void> {
    // A parameter that the function constants leave out has a place, too.
    let parameters = recorded.pipeline.entry().parameters.iter();
    let indices = parameters.filter_map(|parameter| match parameter.slot {
        Slot::Buffer(index) => Some(index as usize + 1),
        _ => None,
    });
    let count = indices.max().unwrap_or(0);
    let mut pointers = vec![std::ptr::null_mut(); count];
    for (index, value) in &recorded.buffers {
        pointers[*index as usize] = match value {
            Value::Buffer { range, .. } => range.buffer.pointer().wrapping_add(range.offset).cast(),
            Value::Bytes(lines, _) => lines.as_ptr().cast_mut().cast(),
        };
    }
    pointers
}

fn watch(recorded: &Recorded) -> Watch {
    let mut watch = Watch::new(regions(recorded));
    for (_, value) in &recorded.buffers {
        if let Value::Buffer { range, .. } = value {
            let stale = range.buffer.stale();
            if !stale.is_empty() {
                watch.stale.insert(range.buffer.id(), stale.clone());
            }
        }
    }
    watch
}

fn regions(recorded: &Recorded) -> Regions {
    let module = &recorded.pipeline.library.module;
    let parameters = &recorded.pipeline.entry().parameters;
    let name = |index| {
        let parameter = parameters
            .iter()
            .find(|parameter| parameter.slot == Slot::Buffer(index));
        parameter.map_or_else(String::new, |parameter| parameter.name.clone())
    };
    let is_written = |id| {
        let mut values = recorded.buffers.iter().map(|(_, value)| value);
        values.any(|value| matches!(value, Value::Buffer { range, writable: true } if range.buffer.id() == id))
    };
    let device = recorded.buffers.iter().map(|(index, value)| match value {
        Value::Buffer { range, writable } => {
            let whole = range.buffer.addresses();
            let start = whole.start + range.offset;
            Device {
                range: start..start + range.bytes,
                whole,
                label: range.buffer.label().to_owned(),
                parameter: name(*index),
                writable: *writable,
                constant: false,
                buffer: range.buffer.id(),
                shared: is_written(range.buffer.id()),
            }
        }
        Value::Bytes(lines, bytes) => {
            let start = lines.as_ptr().addr();
            Device {
                range: start..start + bytes,
                whole: start..start + bytes,
                label: "copied value".to_owned(),
                parameter: name(*index),
                writable: false,
                constant: true,
                buffer: u64::MAX,
                shared: false,
            }
        }
    });
    Regions {
        device: device.collect(),
        private: Private {
            image: module.image.range.clone(),
            thread_storage: thread_storage(module.image.range.start),
            undefined: recorded.pipeline.undefined_constants(),
        },
    }
}

/// Turns findings into reports, and compares the dispatch with those it is not ordered with.
fn judge<'a>(
    device: &SoftDevice,
    recorded: &'a Recorded,
    checked: Checked,
    hazards: &mut Hazards<'a>,
) -> Option<String> {
    let Checked { watch, barriers } = checked;
    for (_, value) in &recorded.buffers {
        if let Value::Buffer { range, .. } = value
            && let Some(stale) = watch.stale.get(&range.buffer.id())
        {
            range.buffer.stale().clone_from(stale);
        }
    }
    let footprint = watch.footprint;
    let origin = Origin::Dispatch {
        recorded,
        regions: watch.regions,
    };
    let mut results = device.results();
    results.count(recorded.pipeline.kernel(), &footprint, watch.counters);
    results.add_barriers(barriers);
    let mut added = results.add(&origin, &watch.findings.into_list());
    added.extend(hazards.add(&mut results, origin, footprint));
    first_error(&added)
}
