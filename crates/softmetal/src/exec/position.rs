//! What a thread knows about its place.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;

use super::{Work, extent, unravel};
use crate::module::abi::{BUILTINS, Frame};

/// The arguments of the thread that starts next. A kernel takes all of them before it does anything else, so one
/// frame serves all threads.
pub(super) struct Arguments {
    frame: UnsafeCell<Frame>,
    memory: Cell<Vec<*mut c_void>>,
    /// Position of the threadgroup's first thread in the grid, and its extent.
    first: Cell<[u32; 3]>,
    extent: Cell<[u32; 3]>,
}

/// By their places in `softmetal::builtin`.
const POSITION_IN_GRID: usize = 0;
const POSITION_IN_THREADGROUP: usize = 1;
const INDEX_IN_THREADGROUP: usize = 2;
const LANE: usize = 3;
const SIMDGROUP: usize = 4;
const LANE_OF_QUADGROUP: usize = 12;
const QUADGROUP: usize = 13;

impl Arguments {
    pub(super) fn new(work: &Work<'_>) -> Self {
        Arguments {
            frame: UnsafeCell::new(Frame {
                buffers: work.buffers.as_ptr(),
                threadgroup_memory: std::ptr::null(),
                builtins: [[0; 3]; BUILTINS],
            }),
            memory: Cell::default(),
            first: Cell::default(),
            extent: Cell::default(),
        }
    }

    /// Begins a threadgroup, which has these addresses of its memory arguments. Returns the number of its threads.
    pub(super) fn enter_threadgroup(
        &self,
        work: &Work<'_>,
        group: u32,
        memory: Vec<*mut c_void>,
    ) -> u32 {
        let position = unravel(group, work.threadgroups);
        let extent = extent(position, work.threadgroup, work.threads);
        let threads: u32 = extent.iter().product();
        let nominal: u32 = work.threadgroup.iter().product();
        let scalar = |value: u32| [value, 0, 0];
        // SAFETY: no thread of the kernel runs, so nobody else refers to the frame.
        let frame = unsafe { &mut *self.frame.get() };
        frame.threadgroup_memory = memory.as_ptr();
        frame.builtins = [
            [0; 3],
            [0; 3],
            [0; 3],
            [0; 3],
            [0; 3],
            position,
            work.threads,
            extent,
            work.threadgroups,
            scalar(32),
            scalar(threads.div_ceil(32)),
            work.threadgroup,
            [0; 3],
            [0; 3],
            scalar(32),
            scalar(threads.div_ceil(4)),
            scalar(nominal.div_ceil(32)),
            scalar(nominal.div_ceil(4)),
        ];
        self.memory.set(memory);
        self.first
            .set([0, 1, 2].map(|axis| position[axis] * work.threadgroup[axis]));
        self.extent.set(extent);
        threads
    }

    /// The arguments of a thread of the threadgroup.
    pub(super) fn of(&self, thread: u32) -> *const Frame {
        let extent = self.extent.get();
        let is_line = extent[1] == 1 && extent[2] == 1;
        let local = match is_line {
            true => [thread, 0, 0],
            false => unravel(thread, extent),
        };
        let first = self.first.get();
        // SAFETY: as above: the thread before has taken its arguments.
        let builtins = unsafe { &mut (*self.frame.get()).builtins };
        builtins[POSITION_IN_GRID] = [0, 1, 2].map(|axis| first[axis] + local[axis]);
        builtins[POSITION_IN_THREADGROUP] = local;
        builtins[INDEX_IN_THREADGROUP][0] = thread;
        builtins[LANE][0] = thread % 32;
        builtins[SIMDGROUP][0] = thread / 32;
        builtins[LANE_OF_QUADGROUP][0] = thread % 4;
        builtins[QUADGROUP][0] = thread / 4;
        self.frame.get()
    }
}
