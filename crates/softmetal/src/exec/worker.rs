//! Coroutines that run threads.
//!
//! A coroutine runs thread after thread until one of them has to wait for others. Kernels whose threads never
//! wait thus need a single one, and no switch.

use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::fault::Trap;
use super::thread::{Event, Running};
use crate::check::Agent;

/// Stack that a kernel's thread may use, in bytes.
pub(crate) const STACK: usize = 128 * 1024;

/// Part of a stack that is left for the runtime's own functions when a kernel calls them.
pub(super) const RESERVE: usize = 32 * 1024;

/// Stacks that start so many bytes apart within a page share no line of the first-level cache.
const COLOR: usize = 192;
const COLORS: usize = 20;

/// A stack that starts somewhat below the top of its pages. Otherwise the lanes of a simdgroup, which run the same
/// code, would all use the same few sets of the cache.
pub(super) struct ColoredStack {
    pages: DefaultStack,
    color: usize,
}

// SAFETY: the range lies within that of `pages`, which is a valid stack; the color is a multiple of the alignment.
unsafe impl Stack for ColoredStack {
    fn base(&self) -> StackPointer {
        let base = self.pages.base();
        StackPointer::new(base.get() - self.color).unwrap_or(base)
    }

    fn limit(&self) -> StackPointer {
        self.pages.limit()
    }
}

/// Stacks of runs that have ended.
static STACKS: Mutex<Vec<ColoredStack>> = Mutex::new(Vec::new());

type Body = Coroutine<(), Event, Trap, ColoredStack>;

struct Worker {
    coroutine: Body,
    yielder: *const Yielder<(), Event>,
    stack: (usize, usize),
}

/// The coroutines of one run.
pub(super) struct Crew<'a> {
    running: &'a Running<'a>,
    workers: Vec<Worker>,
    idle: Vec<usize>,
}

impl<'a> Crew<'a> {
    pub(super) fn new(running: &'a Running<'a>) -> Self {
        Crew {
            running,
            workers: Vec::new(),
            idle: Vec::new(),
        }
    }

    /// A worker that waits for threads to run.
    pub(super) fn hire(&mut self) -> std::io::Result<usize> {
        if let Some(worker) = self.idle.pop() {
            return Ok(worker);
        }
        // The list is whole between statements.
        let known = STACKS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stack = match known {
            Some(stack) => stack,
            None => ColoredStack {
                pages: DefaultStack::new(STACK + RESERVE + COLOR * COLORS)?,
                color: self.workers.len() % COLORS * COLOR,
            },
        };
        // All are as large as each other, wherever in their pages they start.
        let base = stack.base().get();
        let range = (base - STACK - RESERVE, base);
        self.running.add_stack(range);
        // A coroutine must not borrow.
        let state: *const Running<'static> = std::ptr::from_ref(self.running).cast();
        // SAFETY: the crew borrows `running`, and its coroutines do not outlive it.
        let body = move |yielder: &Yielder<(), Event>, ()| unsafe { (*state).work(yielder) };
        self.workers.push(Worker {
            coroutine: Coroutine::with_stack(stack, body),
            yielder: std::ptr::null(),
            stack: range,
        });
        Ok(self.workers.len() - 1)
    }

    /// A worker has nothing to do any more.
    pub(super) fn release(&mut self, worker: usize) {
        self.idle.push(worker);
    }

    /// Lets a worker go on with the thread `agent` until something happens.
    #[inline(always)]
    pub(super) fn resume(&mut self, worker: usize, agent: Agent) -> Result<Event, Trap> {
        let worker = &mut self.workers[worker];
        let trap_handler = worker.coroutine.trap_handler();
        let running = self.running;
        running.enter(agent, worker.yielder, worker.stack, trap_handler);
        let result = worker.coroutine.resume(());
        worker.yielder = running.leave();
        match result {
            CoroutineResult::Yield(event) => Ok(event),
            CoroutineResult::Return(trap) => Err(trap),
        }
    }
}

impl Crew<'_> {
    /// Gives all threads up, wherever they are.
    pub(super) fn dismiss(&mut self) {
        self.idle.clear();
        let stacks = self.workers.drain(..).map(|mut worker| {
            // SAFETY: kernels own nothing that needs to be released, and nothing points into their stacks any more.
            unsafe { worker.coroutine.force_reset() };
            worker.coroutine.into_stack()
        });
        STACKS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(stacks);
    }
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        self.dismiss();
    }
}
