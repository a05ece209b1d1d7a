//! The running thread of a kernel, as its calls out see it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::Instant;

use corosensei::Yielder;
use corosensei::trap::CoroutineTrapHandler;

use super::Work;
use super::fault::{Cause, Trap};
use super::position::Arguments;
use super::worker::{RESERVE, STACK};
use crate::check::{Agent, Announced, Finding, Region, Site, Verdict, Watch};
use crate::module::abi::{EXCHANGE_MEETING, Exchange, Frame, TRAP_SHIFT};
use crate::module::{Places, SourcePlace};
use crate::report::Kind;

/// Why a coroutine stopped to let others run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Its thread is about to access shared memory.
    Access { pc: usize },
    /// Its thread waits for the lanes of its simdgroup.
    Simd { kind: u32, pc: usize },
    /// Its thread waits at a barrier.
    Barrier { scope: u32, flags: u32, pc: usize },
    /// Its thread cannot go on.
    Fault,
    /// All threads it took have ended, and no other is there to take.
    Idle,
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
    memory_limit: usize,
    kernel: unsafe extern "C" fn(*const Frame),
    /// Addresses of the kernel's library.
    image: Range<usize>,
    pub(super) arguments: Arguments,
    /// Threads of the threadgroup that a coroutine may take, in ascending or descending order.
    queue: Cell<(u32, u32)>,
    reversed: bool,
    pub(super) agent: Cell<Agent>,
    yielder: Cell<*const Yielder<(), Event>>,
    stack: Cell<(usize, usize)>,
    /// Those of all coroutines, also of ended ones: their ends by their starts.
    stacks: RefCell<BTreeMap<usize, usize>>,
    trap_handler: Cell<Option<CoroutineTrapHandler<Trap>>>,
    /// What the running lane brought to an exchange, and what it takes from it.
    pub(super) given: Cell<[u64; 2]>,
    pub(super) exchange: RefCell<Box<Exchange>>,
    pub(super) arena: RefCell<crate::check::Arena>,
    pub(super) expired: Cell<bool>,
    /// What ended a thread in an unchecked build, and where.
    pub(super) fault: Cell<Option<(Kind, usize)>>,
    places: &'a Places,
    without_barrier: Option<&'a SourcePlace>,
    /// Barriers by return address, and where they are.
    barriers: RefCell<HashMap<usize, Option<SourcePlace>>>,
    calls: Cell<u32>,
}

/// The thread that calls, if there is one.
pub(super) fn current<'a>() -> Option<&'a Running<'a>> {
    let running: *const Running<'a> = CURRENT.get().cast();
    // SAFETY: `Current` keeps the state in place while it is set; the reference is not kept beyond the call of a
    // hook. A suspended thread that is never resumed again does not use it either.
    unsafe { running.as_ref() }
}

/// Makes a state the calling OS thread's while it lives.
pub(super) struct Current(*const Running<'static>);

impl Current {
    /// The value must not outlive `running`.
    pub(super) fn new(running: &Running<'_>) -> Self {
        Current(CURRENT.replace(std::ptr::from_ref(running).cast()))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl<'a> Running<'a> {
    pub(super) fn new(watch: Option<Watch>, work: &Work<'a>) -> Self {
        Running {
            watch: watch.map(RefCell::new),
            lockstep: work.lockstep,
            deadline: work.deadline,
            memory_limit: work.memory_limit,
            kernel: work.kernel.run,
            image: work.image.clone(),
            arguments: Arguments::new(work),
            queue: Cell::new((0, 0)),
            reversed: work.reversed,
            agent: Cell::default(),
            yielder: Cell::new(std::ptr::null()),
            stack: Cell::new((0, 0)),
            stacks: RefCell::default(),
            trap_handler: Cell::new(None),
            given: Cell::new([0; 2]),
            exchange: RefCell::new(Box::new(Exchange {
                active: 0,
                lane: 0,
                values: [[0; 2]; 32],
                result: [0; 2],
                has_result: 0,
                products: [[0.0; 8]; 8],
            })),
            arena: RefCell::new(crate::check::Arena::new()),
            expired: Cell::new(false),
            fault: Cell::new(None),
            places: work.places,
            without_barrier: work.without_barrier,
            barriers: RefCell::default(),
            calls: Cell::new(0),
        }
    }

    /// Offers threads to the next coroutine.
    pub(super) fn offer(&self, threads: Range<u32>) {
        self.queue.set((threads.start, threads.end));
    }

    /// Whether threads are on offer that nobody has taken.
    pub(super) fn has_offer(&self) -> bool {
        let (start, end) = self.queue.get();
        start < end
    }

    fn take(&self) -> Option<*const Frame> {
        let (start, end) = self.queue.get();
        if start == end {
            return None;
        }
        let thread = match self.reversed {
            false => {
                self.queue.set((start + 1, end));
                start
            }
            true => {
                self.queue.set((start, end - 1));
                end - 1
            }
        };
        let group = self.agent.get().group;
        self.agent.set(Agent { group, thread });
        Some(self.arguments.of(thread))
    }

    /// What a coroutine does: it never comes to an end by itself.
    ///
    /// # Safety
    ///
    /// The state must stay in place for as long as the coroutine is resumed.
    pub(super) unsafe fn work(&self, yielder: &Yielder<(), Event>) -> Trap {
        loop {
            self.yielder.set(yielder);
            while let Some(frame) = self.take() {
                // SAFETY: the encoder has checked that the kernel's arguments are there.
                unsafe { (self.kernel)(frame) };
            }
            yielder.suspend(Event::Idle);
        }
    }

    /// A coroutine goes on with a thread.
    #[inline(always)]
    pub(super) fn enter(
        &self,
        agent: Agent,
        yielder: *const Yielder<(), Event>,
        stack: (usize, usize),
        trap_handler: CoroutineTrapHandler<Trap>,
    ) {
        self.agent.set(agent);
        self.yielder.set(yielder);
        self.stack.set(stack);
        self.trap_handler.set(Some(trap_handler));
    }

    /// A coroutine has stopped; its yielder, which a new one has brought.
    #[inline(always)]
    pub(super) fn leave(&self) -> *const Yielder<(), Event> {
        self.trap_handler.set(None);
        self.yielder.get()
    }

    /// How to end the running thread, if it was interrupted in the kernel's own code.
    pub(super) fn interrupted(&self, pc: usize, sp: usize) -> Option<CoroutineTrapHandler<Trap>> {
        let handler = self.trap_handler.get()?;
        (self.image.contains(&pc) && handler.stack_ptr_in_bounds(sp)).then_some(handler)
    }

    /// A coroutine has this stack.
    pub(super) fn add_stack(&self, (low, high): (usize, usize)) {
        self.stacks.borrow_mut().insert(low, high);
    }

    fn is_a_stack(&self, at: usize) -> bool {
        let stacks = self.stacks.borrow();
        let below = stacks.range(..=at).next_back();
        below.is_some_and(|(_, &high)| at < high)
    }

    /// Whether an address is where a full stack goes on.
    pub(super) fn is_below_stack(&self, at: usize) -> bool {
        let (low, _) = self.stack.get();
        (low - RESERVE..low).contains(&at)
    }

    // Whoever goes on after a switch finds the processor's stack of return addresses to be another's: the fewer calls
    // there are between a kernel and a switch, and between a switch and the scheduler, the better.
    #[inline(always)]
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
        self.check_limits(pc);
        let Some(watch) = &self.watch else { return };
        let access = Announced {
            at,
            bytes,
            kind,
            pc,
        };
        let mut region = watch.borrow().region(&self.arena.borrow(), &access);
        if matches!(region, Region::Outside(_)) && self.is_a_stack(at) {
            region = Region::OtherThread;
        }
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

    /// Ends the thread when its time is up or its stack is nearly full.
    #[inline(always)]
    fn check_limits(&self, pc: usize) {
        let here = 0u8;
        if (&raw const here).addr() < self.stack.get().0 + RESERVE {
            self.stop_for_stack(pc);
        }
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if calls.is_multiple_of(4096) {
            self.check_deadline();
        }
    }

    #[cold]
    fn stop_for_stack(&self, pc: usize) -> ! {
        self.report(Kind::Limit, pc, stack_detail());
        self.stop()
    }

    #[cold]
    fn check_deadline(&self) {
        if Instant::now() > self.deadline {
            self.expired.set(true);
            self.stop();
        }
    }

    #[inline(always)]
    pub(super) fn barrier(&self, scope: u32, flags: u32, pc: usize) {
        self.check_limits(pc);
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
    #[inline(always)]
    pub(super) fn exchange(&self, value: [u64; 2], kind: u32, pc: usize) -> *mut Exchange {
        self.check_limits(pc);
        if kind != EXCHANGE_MEETING || self.watch.is_some() {
            self.given.set(value);
            self.suspend(Event::Simd { kind, pc });
        }
        // The scheduler has filled it for this lane; nobody else runs before the lane has read it.
        self.exchange.borrow_mut().lane = self.agent.get().lane();
        &raw mut **self.exchange.borrow_mut()
    }

    /// Reports what is no access; in an unchecked build, it is why the thread ends.
    pub(super) fn report(&self, kind: Kind, pc: usize, detail: impl Into<String>) {
        let site = Site {
            pc,
            agent: self.agent.get(),
            ..Site::default()
        };
        if let Some(watch) = &self.watch {
            let finding = Finding::error(kind, site, detail);
            watch.borrow_mut().findings.add(finding);
        } else {
            self.fault.set(Some((kind, pc)));
        }
    }

    /// Reports why the running thread was ended from outside.
    pub(super) fn trapped(&self, trap: Trap) {
        let (kind, detail) = match trap.cause {
            Cause::Expired => return self.expired.set(true),
            Cause::Memory => (Kind::OutOfBounds, "nothing is at this address".to_owned()),
            Cause::Stack => (Kind::Limit, stack_detail()),
            Cause::Division => (
                Kind::DivisionOverflow,
                "the smallest integer by -1".to_owned(),
            ),
            Cause::Array => (
                Kind::OutOfBounds,
                "an array of the thread, or a program-scope constant, has no such element"
                    .to_owned(),
            ),
        };
        self.report(kind, trap.pc, detail);
    }

    pub(super) fn absent_lane(&self, lane: u32, pc: usize) {
        // Without checks the lane's own value has to do.
        if self.watch.is_some() {
            let detail = format!("lane {lane} does not take part");
            self.report(Kind::AbsentLane, pc, detail);
        }
    }

    pub(super) fn array_index(&self, index: i64, array: &str, pc: usize) {
        let detail = format!("index {index} of an array `{}`", array.trim_matches('\''));
        self.report(Kind::OutOfBounds, pc, detail);
        self.stop()
    }

    pub(super) fn trap(&self, reason: u32, pc: usize) {
        let kind = match reason {
            TRAP_SHIFT => Kind::ShiftCount,
            _ => Kind::DivisionByZero,
        };
        self.report(kind, pc, "");
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

fn stack_detail() -> String {
    format!("the arrays and calls of a thread take more than {STACK} bytes")
}
