//! Runs a dispatch: every threadgroup, and in it every thread as a coroutine.
//!
//! The lanes of a simdgroup stop before each access to shared memory and go on together with those
//! at the same place in the code, as the hardware does it. In a free run they go on to their next
//! simdgroup operation.

mod group;
mod hooks;
mod thread;

use std::ffi::c_void;
use std::sync::Mutex;
use std::time::Instant;

pub(crate) use hooks::HOOKS;

use crate::check::Watch;
use crate::module::abi::{BUILTINS, Frame};
use crate::module::{Kernel, Places, Slot, SourcePlace};
use group::{Direction, Group, Stacks};
use thread::Running;

/// A dispatch with everything resolved to addresses.
pub(crate) struct Work<'a> {
    pub(crate) kernel: &'a Kernel,
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
    #[error(
        "threads of a threadgroup do not meet at a barrier, or divide by zero: run it with checks"
    )]
    Stuck,
    #[error("no memory for a stack: {0}")]
    Stack(#[from] std::io::Error),
}

/// Stacks of runs that have ended, one set for each OS thread that ran.
static STACKS: Mutex<Vec<Stacks>> = Mutex::new(Vec::new());

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
    // A set is whole between uses, also after a panic elsewhere.
    let pool = || {
        STACKS
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    };
    let mut stacks = pool().pop().unwrap_or_default();
    let mut order = direction.order(groups).skip(first).step_by(stride);
    let result = order.try_for_each(|group| {
        // Kernels without checks rarely call, and may never see that time is up.
        if running.watch.is_none() && Instant::now() > work.deadline {
            return Err(ExecError::Expired);
        }
        run_group(work, running, direction, group as u32, &mut stacks)?;
        match running.expired.get() {
            true => Err(ExecError::Expired),
            false => Ok(()),
        }
    });
    pool().push(stacks);
    result
}

fn run_group(
    work: &Work<'_>,
    running: &Running<'_>,
    direction: Direction,
    group: u32,
    stacks: &mut Stacks,
) -> Result<(), ExecError> {
    let position = unravel(group, work.threadgroups);
    let extent = extent(position, work.threadgroup, work.threads);
    if let Some(watch) = &running.watch {
        watch.borrow_mut().enter_threadgroup();
    }
    let mut arena = running.arena.borrow_mut();
    arena.clear();
    let memory = work
        .threadgroup_memory
        .iter()
        .enumerate()
        .map(|(index, &bytes)| {
            let name = parameter(work.kernel, Slot::Threadgroup(index as u32));
            // Static variables have the addresses of their keys; no code is at such a low one.
            arena
                .variable(index + 1, bytes, 16, name)
                .map_or(std::ptr::null_mut(), <*mut u8>::cast)
        });
    let memory: Vec<*mut c_void> = memory.collect();
    drop(arena);
    let frames: Vec<_> = (0..extent.iter().product())
        .map(|thread| frame(work, &memory, position, extent, thread))
        .collect();
    let group = Group::new(running, group, direction, work.kernel.run, &frames, stacks)?;
    let ended = group.run(stacks);
    // With the checker, a report says what happened.
    match ended || running.watch.is_some() || running.expired.get() {
        true => Ok(()),
        false => Err(ExecError::Stuck),
    }
}

fn frame(
    work: &Work<'_>,
    memory: &[*mut c_void],
    position: [u32; 3],
    extent: [u32; 3],
    thread: u32,
) -> Frame {
    let local = unravel(thread, extent);
    let global = [0, 1, 2].map(|axis| position[axis] * work.threadgroup[axis] + local[axis]);
    let threads: u32 = extent.iter().product();
    let scalar = |value: u32| [value, 0, 0];
    // In the order of `softmetal::builtin`.
    let builtins: [[u32; 3]; BUILTINS] = [
        global,
        local,
        scalar(thread),
        scalar(thread % 32),
        scalar(thread / 32),
        position,
        work.threads,
        extent,
        work.threadgroups,
        scalar(32),
        scalar(threads.div_ceil(32)),
        work.threadgroup,
        scalar(thread % 4),
        scalar(thread / 4),
    ];
    Frame {
        buffers: work.buffers.as_ptr(),
        threadgroup_memory: memory.as_ptr(),
        builtins,
    }
}

fn parameter(kernel: &Kernel, slot: Slot) -> &str {
    let parameter = kernel
        .parameters
        .iter()
        .find(|parameter| parameter.slot == slot);
    parameter.map_or("", |parameter| &parameter.name)
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
