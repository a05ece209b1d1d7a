//! Runs a dispatch: every threadgroup, and in it every thread as a coroutine.
//!
//! The lanes of a simdgroup stop before each access to shared memory and go on together with those
//! at the same place in the code, as the hardware does it. In a free run they go on to their next
//! simdgroup operation.

mod fault;
mod group;
mod hooks;
mod position;
mod switch;
mod thread;
mod worker;

use std::ffi::c_void;
use std::ops::Range;
use std::time::Instant;

pub(crate) use hooks::HOOKS;
pub(crate) use worker::STACK;

use crate::check::Watch;
use crate::module::{Kernel, Places, Slot, SourcePlace};
use crate::report::Kind;
use fault::{Alarm, SignalStack};
use group::{Direction, Group};
use thread::{Current, Running};

/// A dispatch with everything resolved to addresses.
pub(crate) struct Work<'a> {
    pub(crate) kernel: &'a Kernel,
    /// Addresses of the kernel's library.
    pub(crate) image: Range<usize>,
    pub(crate) buffers: &'a [*mut c_void],
    /// Sizes of the threadgroup memory arguments, by index.
    pub(crate) threadgroup_memory: &'a [usize],
    pub(crate) threads: [u32; 3],
    pub(crate) threadgroup: [u32; 3],
    pub(crate) threadgroups: [u32; 3],
    pub(crate) deadline: Instant,
    /// Most threadgroup memory that a threadgroup may have.
    pub(crate) memory_limit: usize,
    pub(crate) lockstep: bool,
    pub(crate) reversed: bool,
    pub(crate) places: &'a Places,
    /// A barrier to leave out.
    pub(crate) without_barrier: Option<&'a SourcePlace>,
}

/// What a checked dispatch leaves behind.
pub(crate) struct Checked {
    pub(crate) watch: Watch,
    /// Places of the barriers that threads reached.
    pub(crate) barriers: Vec<SourcePlace>,
}

/// Why a dispatch did not end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    #[error("time is up")]
    Expired,
    #[error("{}{}: run it with checks", .kind.title(), at(.place.as_ref()))]
    Stopped {
        kind: Kind,
        place: Option<SourcePlace>,
    },
    #[error("no memory for a stack, or no timer: {0}")]
    System(#[from] std::io::Error),
}

fn at(place: Option<&SourcePlace>) -> String {
    place.map_or_else(String::new, |place| {
        format!(" at {}:{}", place.file, place.line)
    })
}

/// Runs a dispatch with checks. What they found counts even if the dispatch did not end.
pub(crate) fn run_checked(work: &Work<'_>, watch: Watch) -> (Checked, Result<(), ExecError>) {
    let mut running = Running::new(Some(watch), work);
    let result = run(work, &running, 0, 1);
    let barriers = running.barriers();
    let Some(watch) = running.watch.take() else {
        unreachable!("made with a checker");
    };
    let mut watch = watch.into_inner();
    watch.settle();
    (Checked { watch, barriers }, result)
}

/// Runs every `stride`-th threadgroup from `first` without checks.
pub(crate) fn run_unchecked(work: &Work<'_>, first: usize, stride: usize) -> Result<(), ExecError> {
    let running = Running::new(None, work);
    run(work, &running, first, stride)
}

fn run(
    work: &Work<'_>,
    running: &Running<'_>,
    first: usize,
    stride: usize,
) -> Result<(), ExecError> {
    let direction = Direction {
        reversed: work.reversed,
    };
    let groups: usize = work
        .threadgroups
        .iter()
        .map(|&extent| extent as usize)
        .product();
    fault::install();
    let _stack = SignalStack::new();
    let _alarm = Alarm::new(work.deadline)?;
    let mut threads = Group::new(running, direction);
    let _current = Current::new(running);
    for group in direction.order(groups).skip(first).step_by(stride) {
        // Kernels without checks rarely call, and may never see that time is up.
        if running.watch.is_none() && Instant::now() > work.deadline {
            return Err(ExecError::Expired);
        }
        run_threadgroup(work, running, group as u32, &mut threads)?;
        if running.expired.get() {
            return Err(ExecError::Expired);
        }
    }
    Ok(())
}

fn run_threadgroup(
    work: &Work<'_>,
    running: &Running<'_>,
    group: u32,
    threads: &mut Group<'_>,
) -> Result<(), ExecError> {
    if let Some(watch) = &running.watch {
        watch.borrow_mut().enter_threadgroup();
    }
    let memory = memory_arguments(work, running);
    let count = running.arguments.enter_threadgroup(work, group, memory);
    let ended = threads.run(group, count)?;
    // With the checker, a report says what happened.
    if ended || running.watch.is_some() || running.expired.get() {
        return Ok(());
    }
    let (kind, pc) = running.fault.get().unwrap_or((Kind::DivergentBarrier, 0));
    let place = (pc != 0).then(|| work.places.find(pc)).flatten();
    Err(ExecError::Stopped { kind, place })
}

/// Addresses of the threadgroup's memory arguments, by index.
fn memory_arguments(work: &Work<'_>, running: &Running<'_>) -> Vec<*mut c_void> {
    let mut arena = running.arena.borrow_mut();
    arena.clear();
    let sizes = work.threadgroup_memory.iter().enumerate();
    let addresses = sizes.map(|(index, &bytes)| {
        let slot = Slot::Threadgroup(index as u32);
        let mut parameters = work.kernel.parameters.iter();
        let parameter = parameters.find(|parameter| parameter.slot == slot);
        let (name, align) =
            parameter.map_or(("", 1), |parameter| (&*parameter.name, parameter.align));
        // Static variables have the addresses of their keys; no code is at such a low one.
        arena
            .variable(index + 1, bytes, align, name)
            .map_or(std::ptr::null_mut(), <*mut u8>::cast)
    });
    addresses.collect()
}

/// Threads of the threadgroup at a position: at the upper edges, those that are left.
pub(crate) fn extent(position: [u32; 3], threadgroup: [u32; 3], threads: [u32; 3]) -> [u32; 3] {
    [0, 1, 2].map(|axis| threadgroup[axis].min(threads[axis] - position[axis] * threadgroup[axis]))
}

/// Position of a linear index in a box, x fastest.
pub(crate) fn unravel(index: u32, extent: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extent;
    [index % x, index / x % y, index / x / y]
}
