//! Coroutines that run threads.
//!
//! A coroutine runs thread after thread until one of them has to wait for others. Kernels whose threads never
//! wait thus need a single one, and no switch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use corosensei::stack::{DefaultStack, Stack};

use super::switch::{self, Body, Top};

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

impl ColoredStack {
    fn new(number: usize) -> std::io::Result<Self> {
        Ok(ColoredStack {
            pages: DefaultStack::new(STACK + RESERVE + COLOR * COLORS)?,
            color: number % COLORS * COLOR,
        })
    }

    /// Its bytes. All are as large as each other, wherever in their pages they start.
    fn range(&self) -> (usize, usize) {
        let high = self.pages.base().get() - self.color;
        (high - STACK - RESERVE, high)
    }
}

/// Stacks of runs that have ended.
static STACKS: Mutex<Vec<ColoredStack>> = Mutex::new(Vec::new());

/// A coroutine.
pub(super) struct Worker {
    /// Where its stack ends while it does not run.
    pub(super) top: Cell<Top>,
    /// Its stack's bytes.
    pub(super) range: (usize, usize),
    stack: ColoredStack,
}

/// The coroutines of one run.
#[derive(Default)]
pub(super) struct Crew {
    // Others refer to them.
    #[allow(clippy::vec_box)]
    workers: RefCell<Vec<Box<Worker>>>,
    idle: RefCell<Vec<*const Worker>>,
    /// Stacks of all workers, also of dismissed ones: their ends by their starts.
    stacks: RefCell<BTreeMap<usize, usize>>,
}

impl Crew {
    /// A worker that waits for threads to run, which stays in place until all are dismissed. A new one begins with
    /// `body(argument)`.
    pub(super) fn hire(&self, body: Body, argument: usize) -> std::io::Result<*const Worker> {
        if let Some(worker) = self.idle.borrow_mut().pop() {
            return Ok(worker);
        }
        let mut workers = self.workers.borrow_mut();
        // The list is whole between statements.
        let known = STACKS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let stack = match known {
            Some(stack) => stack,
            None => ColoredStack::new(workers.len())?,
        };
        let range = stack.range();
        self.stacks.borrow_mut().insert(range.0, range.1);
        // SAFETY: nobody uses the stack, whose start is aligned as its pages and colors are.
        let top = unsafe { switch::prepare(range.1, body, argument) };
        let worker = Box::new(Worker {
            top: Cell::new(top),
            range,
            stack,
        });
        let place = std::ptr::from_ref(&*worker);
        workers.push(worker);
        Ok(place)
    }

    /// A worker has nothing to do any more.
    pub(super) fn release(&self, worker: *const Worker) {
        self.idle.borrow_mut().push(worker);
    }

    /// Whether an address is on a worker's stack.
    pub(super) fn is_a_stack(&self, at: usize) -> bool {
        let stacks = self.stacks.borrow();
        let below = stacks.range(..=at).next_back();
        below.is_some_and(|(_, &high)| at < high)
    }

    /// Gives all threads up, wherever they are: kernels own nothing that needs to be released.
    pub(super) fn dismiss(&self) {
        self.idle.borrow_mut().clear();
        let mut workers = self.workers.borrow_mut();
        let stacks = workers.drain(..).map(|worker| worker.stack);
        STACKS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(stacks);
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.dismiss();
    }
}
