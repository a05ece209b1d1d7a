//! The running thread of a kernel, as its calls out see it.

mod reports;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use super::Work;
use super::fault::{Cause, Trap};
use super::position::Arguments;
use super::switch::{Top, leave, switch};
use super::worker::{Crew, RESERVE, Worker};
use crate::check::{Agent, Announced, Region, Verdict, Watch};
use crate::module::abi::{EXCHANGE_MEETING, Exchange, Frame};
use crate::module::{Places, SourcePlace};
use crate::report::Kind;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is about to access shared memory.
    Access { pc: usize },
    /// It waits for the lanes of its simdgroup.
    Simd { kind: u32, pc: usize },
    /// It waits at a barrier.
    Barrier { scope: u32, flags: u32, pc: usize },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It has not begun.
    #[default]
    New,
    /// Whatever it waited for has come.
    Ready,
    Waiting(Event),
    /// It has ended, or runs.
    Done,
}

/// A thread of the threadgroup.
pub(super) struct Thread {
    pub(super) state: Cell<State>,
    /// The coroutine that it keeps while it waits.
    worker: Cell<*const Worker>,
}

impl Thread {
    fn new() -> Self {
        Thread {
            state: Cell::default(),
            worker: Cell::new(std::ptr::null()),
        }
    }
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
    /// Those of a threadgroup.
    pub(super) threads: Vec<Thread>,
    /// What each brought to an exchange.
    pub(super) given: Vec<Cell<[u64; 2]>>,
    crew: Crew,
    /// The running coroutine, and its stack.
    worker: Cell<*const Worker>,
    stack: Cell<(usize, usize)>,
    /// Where the scheduler goes on.
    scheduler: Cell<Top>,
    /// Lanes of the running simdgroup that go on after the running one, as bits.
    round: Cell<u32>,
    /// What the first lane of the round waits for, and how many lanes wait for the very same.
    meeting: Cell<Option<Event>>,
    met: Cell<u32>,
    /// Why the running thread cannot go on, if it was ended from outside.
    trap: Cell<Option<Trap>>,
    /// Whether a thread cannot go on.
    stopped: Cell<bool>,
    /// What the lanes of a simdgroup brought to an exchange.
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

/// The body of a coroutine, given the address of its `Running`.
unsafe extern "C" fn work(running: usize) -> ! {
    let running: *const Running<'static> = std::ptr::with_exposed_provenance(running);
    // SAFETY: a run ends before its state goes, and no coroutine is resumed after that.
    unsafe { (*running).work() }
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
        let threads = work.threadgroup.iter().product::<u32>() as usize;
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
            threads: std::iter::repeat_with(Thread::new).take(threads).collect(),
            given: vec![Cell::default(); threads],
            crew: Crew::default(),
            worker: Cell::new(std::ptr::null()),
            stack: Cell::new((0, 0)),
            scheduler: Cell::new(0),
            round: Cell::new(0),
            meeting: Cell::new(None),
            met: Cell::new(0),
            trap: Cell::new(None),
            stopped: Cell::new(false),
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
        self.threads[thread as usize].worker.set(self.worker.get());
        Some(self.arguments.of(thread))
    }

    /// Lets a coroutine begin threads on offer until one has to wait.
    pub(super) fn begin(&self, agent: Agent) -> std::io::Result<()> {
        let worker = self.crew.hire(
            work,
            std::ptr::from_ref(self).cast::<u8>().expose_provenance(),
        )?;
        self.agent.set(agent);
        let to = self.enter(worker);
        // SAFETY: an idle or new worker waits.
        unsafe { switch(self.scheduler.as_ptr(), to) };
        Ok(())
    }

    /// Lets lanes of a simdgroup go on, one after the other, until each has to wait or has ended.
    pub(super) fn go_on(&self, first: Agent, lanes: u32) {
        self.agent.set(first);
        self.round.set(lanes);
        if let Some(to) = self.next_of_round() {
            // SAFETY: the thread waits, and its worker with it.
            unsafe { switch(self.scheduler.as_ptr(), to) };
        }
    }

    /// Whether a thread could not go on since this was asked; why, if it was ended from outside.
    pub(super) fn take_stop(&self) -> bool {
        if let Some(trap) = self.trap.take() {
            self.trapped(trap);
            self.stopped.set(true);
        }
        self.stopped.take()
    }

    /// What so many lanes wait for together since this was asked, if it is one thing.
    pub(super) fn take_meeting(&self, lanes: u32) -> Option<Event> {
        let event = self.meeting.take();
        event.filter(|_| self.met.get() == lanes)
    }

    /// Gives all threads up.
    pub(super) fn dismiss(&self) {
        self.queue.set((0, 0));
        self.round.set(0);
        self.meeting.set(None);
        self.crew.dismiss();
    }

    /// Makes the next lane of the round the running one; where it goes on.
    #[inline(always)]
    fn next_of_round(&self) -> Option<Top> {
        let round = self.round.get();
        if round == 0 {
            return None;
        }
        let lane = match self.reversed {
            false => round.trailing_zeros(),
            true => 31 - round.leading_zeros(),
        };
        self.round.set(round & !(1 << lane));
        let Agent { group, thread } = self.agent.get();
        let thread = thread / 32 * 32 + lane;
        self.agent.set(Agent { group, thread });
        let next = &self.threads[thread as usize];
        // Unless something else happens, it ends.
        next.state.set(State::Done);
        Some(self.enter(next.worker.get()))
    }

    /// Makes a worker the running one; where it goes on.
    #[inline(always)]
    fn enter(&self, worker: *const Worker) -> Top {
        self.worker.set(worker);
        // SAFETY: workers stay where they are until all are dismissed, and then none is entered.
        let worker = unsafe { &*worker };
        self.stack.set(worker.range);
        worker.top.get()
    }

    /// What a coroutine does.
    ///
    /// # Safety
    ///
    /// The state must stay in place for as long as the coroutine is resumed.
    unsafe fn work(&self) -> ! {
        loop {
            while let Some(frame) = self.take() {
                // SAFETY: the encoder has checked that the kernel's arguments are there.
                unsafe { (self.kernel)(frame) };
            }
            self.crew.release(self.worker.get());
            self.yield_to_others();
        }
    }

    /// Where a thread goes on that was interrupted in the kernel's own code, and is given up.
    pub(super) fn interrupted(&self, pc: usize, sp: usize, cause: Cause) -> Option<Top> {
        let (low, high) = self.stack.get();
        // A full stack's end lies below it.
        let is_kernel =
            self.image.contains(&pc) && (low.saturating_sub(RESERVE)..high).contains(&sp);
        is_kernel.then(|| {
            // Places are found by return addresses.
            self.trap.set(Some(Trap { cause, pc: pc + 1 }));
            self.scheduler.get()
        })
    }

    /// Whether an address is where a full stack goes on.
    pub(super) fn is_below_stack(&self, at: usize) -> bool {
        let (low, _) = self.stack.get();
        (low.saturating_sub(RESERVE)..low).contains(&at)
    }

    // The fewer calls there are between a kernel and a switch, the fewer returns are ahead after it.
    #[inline(always)]
    fn suspend(&self, event: Event) {
        let thread = &self.threads[self.agent.get().thread as usize];
        thread.state.set(State::Waiting(event));
        match self.meeting.get() {
            None => {
                self.meeting.set(Some(event));
                self.met.set(1);
            }
            Some(other) => self.met.set(self.met.get() + u32::from(other == event)),
        }
        self.yield_to_others();
    }

    /// Comes back when the running coroutine's turn has come again.
    #[inline(always)]
    fn yield_to_others(&self) {
        // SAFETY: it is the running one.
        let own = unsafe { (*self.worker.get()).top.as_ptr() };
        let to = self.next_of_round().unwrap_or(self.scheduler.get());
        // SAFETY: whoever is next waits for that, and so does the scheduler while a coroutine runs.
        unsafe { switch(own, to) };
    }

    /// Ends the thread: it is never resumed.
    fn stop(&self) -> ! {
        self.stopped.set(true);
        // SAFETY: the scheduler waits while a coroutine runs.
        unsafe { leave(self.scheduler.get()) }
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
        if matches!(region, Region::Outside(_)) && self.crew.is_a_stack(at) {
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
            self.given[self.agent.get().thread as usize].set(value);
            self.suspend(Event::Simd { kind, pc });
        }
        // The scheduler has filled it for this lane; nobody else runs before the lane has read it.
        self.exchange.borrow_mut().lane = self.agent.get().lane();
        &raw mut **self.exchange.borrow_mut()
    }
}
