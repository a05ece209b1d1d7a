//! The running thread of a kernel, as its calls out see it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Instant;

use corosensei::Yielder;

use super::Work;
use crate::check::{Agent, Announced, Finding, Region, Site, Verdict, Watch};
use crate::module::abi::Exchange;
use crate::module::{Places, SourcePlace};
use crate::report::Kind;

/// Why a thread stopped to let others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is about to access shared memory.
    Access { pc: usize },
    /// It waits for the lanes of its simdgroup.
    Simd { kind: u32, pc: usize },
    /// It waits at a barrier.
    Barrier { scope: u32, flags: u32, pc: usize },
    /// It cannot go on.
    Fault,
}

thread_local! {
    static CURRENT: Cell<*const Running<'static>> = const { Cell::new(std::ptr::null()) };
}

/// The state that a threadgroup's threads share with the scheduler. Only one of them runs at a time.
pub(super) struct Running<'a> {
    /// The checker, in a checked build.
    pub(super) watch: Option<RefCell<Watch>>,
    /// Whether threads stop before each access, so that a simdgroup's lanes go together.
    pub(super) lockstep: bool,
    /// When the kernel must have ended.
    pub(super) deadline: Instant,
    /// Most threadgroup memory that a threadgroup may have.
    pub(super) memory_limit: usize,
    pub(super) agent: Cell<Agent>,
    yielder: Cell<*const Yielder<(), Event>>,
    stack: Cell<(usize, usize)>,
    /// What the running lane brought to an exchange, and what it takes from it.
    pub(super) given: Cell<[u64; 2]>,
    pub(super) exchange: RefCell<Box<Exchange>>,
    pub(super) arena: RefCell<crate::check::Arena>,
    pub(super) expired: Cell<bool>,
    places: &'a Places,
    without_barrier: Option<&'a SourcePlace>,
    /// Barriers by return address, and where they are.
    barriers: RefCell<HashMap<usize, Option<SourcePlace>>>,
    calls: Cell<u32>,
}

/// The thread that calls, if there is one.
pub(super) fn current<'a>() -> Option<&'a Running<'a>> {
    let running: *const Running<'a> = CURRENT.get().cast();
    // SAFETY: `Running::enter` set it for the time of a resume, during which the state stays in place; the
    // reference is not kept beyond the call of a hook. A suspended thread that is never resumed again
    // does not use it either.
    unsafe { running.as_ref() }
}

impl<'a> Running<'a> {
    pub(super) fn new(watch: Option<Watch>, work: &Work<'a>) -> Self {
        Running {
            watch: watch.map(RefCell::new),
            lockstep: work.lockstep,
            deadline: work.deadline,
            memory_limit: work.memory_limit,
            agent: Cell::new(Agent {
                group: 0,
                thread: 0,
            }),
            yielder: Cell::new(std::ptr::null()),
            stack: Cell::new((0, 0)),
            given: Cell::new([0; 2]),
            exchange: RefCell::new(Box::new(Exchange {
                active: 0,
                lane: 0,
                values: [[0; 2]; 32],
            })),
            arena: RefCell::new(crate::check::Arena::new()),
            expired: Cell::new(false),
            places: work.places,
            without_barrier: work.without_barrier,
            barriers: RefCell::default(),
            calls: Cell::new(0),
        }
    }

    /// Makes this the running thread's state while `resume` runs.
    pub(super) fn enter<R>(
        &self,
        agent: Agent,
        yielder: *const Yielder<(), Event>,
        stack: (usize, usize),
        resume: impl FnOnce() -> R,
    ) -> R {
        self.agent.set(agent);
        self.yielder.set(yielder);
        self.stack.set(stack);
        let before = CURRENT.replace(std::ptr::from_ref(self).cast());
        let result = resume();
        CURRENT.set(before);
        result
    }

    /// Called by a new thread, whose yielder nobody else knows.
    pub(super) fn set_yielder(&self, yielder: &Yielder<(), Event>) {
        self.yielder.set(yielder);
    }

    pub(super) fn yielder(&self) -> *const Yielder<(), Event> {
        self.yielder.get()
    }

    fn suspend(&self, event: Event) {
        // SAFETY: the yielder belongs to the running coroutine, which calls this from its own stack.
        unsafe { (*self.yielder.get()).suspend(event) }
    }

    /// Ends the thread: it is never resumed.
    fn stop(&self) -> ! {
        self.suspend(Event::Fault);
        // A scheduler that resumes a faulted thread would let it do what the checker forbade.
        std::process::abort()
    }

    pub(super) fn access(&self, at: usize, bytes: usize, kind: u32, pc: usize) {
        let (low, high) = self.stack.get();
        if (low..high).contains(&at) {
            return;
        }
        self.check_deadline();
        let Some(watch) = &self.watch else { return };
        let access = Announced {
            at,
            bytes,
            kind,
            pc,
        };
        let region = watch.borrow().region(&self.arena.borrow(), &access);
        if region == Region::Private || bytes == 0 {
            return;
        }
        if self.lockstep {
            self.suspend(Event::Access { pc });
        }
        let verdict =
            watch
                .borrow_mut()
                .access(&self.arena.borrow(), access, region, self.agent.get());
        if verdict == Verdict::Stop {
            self.stop();
        }
    }

    fn check_deadline(&self) {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if calls.is_multiple_of(4096) && Instant::now() > self.deadline {
            self.expired.set(true);
            self.stop();
        }
    }

    pub(super) fn barrier(&self, scope: u32, flags: u32, pc: usize) {
        self.check_deadline();
        if self.watch.is_some() && self.is_left_out(pc) {
            return;
        }
        self.suspend(Event::Barrier { scope, flags, pc });
    }

    /// Notes a barrier; whether it is the one to leave out.
    fn is_left_out(&self, pc: usize) -> bool {
        let mut barriers = self.barriers.borrow_mut();
        let place = barriers.entry(pc).or_insert_with(|| self.places.find(pc));
        place.is_some() && place.as_ref() == self.without_barrier
    }

    /// Places of the barriers that threads have reached.
    pub(super) fn barriers(&self) -> Vec<SourcePlace> {
        self.barriers.borrow().values().flatten().cloned().collect()
    }

    /// Hands a value to the simdgroup and returns those of all lanes.
    pub(super) fn exchange(&self, value: [u64; 2], kind: u32, pc: usize) -> *const Exchange {
        self.check_deadline();
        self.given.set(value);
        self.suspend(Event::Simd { kind, pc });
        // The scheduler has filled it for this lane; nobody else runs before the lane has read it.
        self.exchange.borrow_mut().lane = self.agent.get().lane();
        &raw const **self.exchange.borrow()
    }

    /// Reports what is no access, in a checked build.
    fn report(&self, kind: Kind, pc: usize, detail: impl Into<String>) {
        let site = Site {
            pc,
            agent: self.agent.get(),
            ..Site::default()
        };
        if let Some(watch) = &self.watch {
            let finding = Finding::error(kind, site, detail);
            watch.borrow_mut().findings.add(finding);
        }
    }

    pub(super) fn absent_lane(&self, lane: u32, pc: usize) {
        self.report(
            Kind::AbsentLane,
            pc,
            format!("lane {lane} does not take part"),
        );
    }

    pub(super) fn divided_by_zero(&self, pc: usize) {
        self.report(Kind::DivisionByZero, pc, "");
        self.stop()
    }

    pub(super) fn variable(
        &self,
        key: usize,
        bytes: usize,
        align: usize,
        name: &str,
        pc: usize,
    ) -> *mut u8 {
        let address = self.arena.borrow_mut().variable(key, bytes, align, name);
        let total = self.arena.borrow().bytes();
        if total > self.memory_limit || address.is_none() {
            let limit = self.memory_limit;
            let detail = format!(
                "`{name}` takes {bytes} bytes of threadgroup memory, all take {total} of {limit}"
            );
            self.report(Kind::Limit, pc, detail);
            self.stop();
        }
        address.unwrap_or(std::ptr::null_mut())
    }
}
