//! Runs the threads of one threadgroup.

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::thread::{Event, Running};
use crate::check::{Agent, Epochs, Finding, Site};
use crate::module::abi::{
    EXCHANGE_MATRIX, FLAG_DEVICE, FLAG_THREADGROUP, Frame, SCOPE_THREADGROUP,
};
use crate::report::Kind;

/// Stack of a thread, in bytes.
const STACK: usize = 128 * 1024;

/// Orders in which the lanes, simdgroups and threadgroups run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Direction {
    pub(super) reversed: bool,
}

impl Direction {
    pub(super) fn order(self, count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |at| if self.reversed { count - 1 - at } else { at })
    }
}

/// Stacks for reuse.
#[derive(Default)]
pub(super) struct Stacks(Vec<DefaultStack>);

impl Stacks {
    fn take(&mut self) -> std::io::Result<DefaultStack> {
        match self.0.pop() {
            Some(stack) => Ok(stack),
            None => DefaultStack::new(STACK),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Waiting(Event),
    Done,
}

struct Thread {
    coroutine: Coroutine<(), Event, (), DefaultStack>,
    yielder: *const Yielder<(), Event>,
    stack: (usize, usize),
    state: State,
    given: [u64; 2],
}

/// A threadgroup that runs.
pub(super) struct Group<'a> {
    running: &'a Running<'a>,
    group: u32,
    direction: Direction,
    threads: Vec<Thread>,
    simdgroups: Vec<Clock>,
    /// Barriers that the whole threadgroup has passed.
    clock: Clock,
    step: u64,
}

/// Barriers passed, for each memory.
#[derive(Clone, Copy, Default)]
struct Clock {
    device: crate::check::Passed,
    threadgroup: crate::check::Passed,
}

impl Clock {
    fn pass(&mut self, flags: u32) {
        self.device.pass(flags & FLAG_DEVICE != 0);
        self.threadgroup.pass(flags & FLAG_THREADGROUP != 0);
    }
}

impl<'a> Group<'a> {
    /// Prepares one thread per frame.
    pub(super) fn new(
        running: &'a Running<'a>,
        group: u32,
        direction: Direction,
        kernel: unsafe extern "C" fn(*const Frame),
        frames: &'a [Frame],
        stacks: &mut Stacks,
    ) -> std::io::Result<Self> {
        let mut threads = Vec::with_capacity(frames.len());
        for frame in frames {
            let stack = stacks.take()?;
            let range = (stack.limit().get(), stack.base().get());
            // A coroutine must not borrow; see the SAFETY comment below.
            let state: *const Running<'static> = std::ptr::from_ref(running).cast();
            let frame = std::ptr::from_ref(frame);
            let body = move |yielder: &Yielder<(), Event>, ()| {
                // SAFETY: `running` and `frame` outlive the group, and the group its coroutines.
                unsafe {
                    (*state).set_yielder(yielder);
                    kernel(frame);
                }
            };
            threads.push(Thread {
                coroutine: Coroutine::with_stack(stack, body),
                yielder: std::ptr::null(),
                stack: range,
                state: State::Ready,
                given: [0; 2],
            });
        }
        Ok(Group {
            running,
            group,
            direction,
            simdgroups: vec![Clock::default(); frames.len().div_ceil(32)],
            threads,
            clock: Clock::default(),
            step: 0,
        })
    }

    /// Runs all threads to their end; `false` when one of them cannot go on.
    pub(super) fn run(mut self, stacks: &mut Stacks) -> bool {
        loop {
            for simdgroup in self.direction.order(self.simdgroups.len()) {
                if !self.run_simdgroup(simdgroup) {
                    self.abandon();
                    return false;
                }
            }
            if self
                .threads
                .iter()
                .all(|thread| thread.state == State::Done)
            {
                break;
            }
            if !self.pass_barrier() {
                self.abandon();
                return false;
            }
        }
        stacks.0.extend(
            self.threads
                .into_iter()
                .map(|thread| thread.coroutine.into_stack()),
        );
        true
    }

    /// Runs a simdgroup until all its threads are done or at a barrier of the threadgroup.
    fn run_simdgroup(&mut self, simdgroup: usize) -> bool {
        loop {
            if !self.advance(simdgroup) {
                return false;
            }
            let lanes = self.lanes(simdgroup);
            let waiting = lanes.filter_map(|lane| match self.threads[lane].state {
                State::Waiting(event) => Some(event),
                _ => None,
            });
            let waiting: Vec<_> = waiting.collect();
            let next = waiting.iter().filter_map(|event| match *event {
                Event::Simd { pc, .. } => Some(pc),
                Event::Barrier { scope, pc, .. } if scope != SCOPE_THREADGROUP => Some(pc),
                _ => None,
            });
            // Lanes that diverged are served in the order of the code, as the hardware does it.
            let Some(pc) = next.min() else { return true };
            self.serve(simdgroup, pc);
        }
    }

    fn lanes(&self, simdgroup: usize) -> impl Iterator<Item = usize> + use<> {
        let start = simdgroup * 32;
        let count = 32.min(self.threads.len() - start);
        self.direction.order(count).map(move |lane| start + lane)
    }

    /// Runs ready lanes, then those about to access memory, until all wait for others.
    fn advance(&mut self, simdgroup: usize) -> bool {
        for lane in self.lanes(simdgroup) {
            if self.threads[lane].state == State::Ready && !self.resume(lane, 0) {
                return false;
            }
        }
        while let Some(together) = self.next_access(simdgroup) {
            self.step += 1;
            for lane in self.lanes(simdgroup) {
                let takes_part = together >> (lane % 32) & 1 == 1;
                if takes_part && !self.resume(lane, together) {
                    return false;
                }
            }
            if let Some(watch) = &self.running.watch {
                watch.borrow_mut().end_step();
            }
        }
        true
    }

    /// The lanes at the lowest place in the code where any is about to access memory.
    fn next_access(&self, simdgroup: usize) -> Option<u32> {
        let mut next: Option<(usize, u32)> = None;
        for lane in self.lanes(simdgroup) {
            let State::Waiting(Event::Access { pc }) = self.threads[lane].state else {
                continue;
            };
            let bit = 1 << (lane % 32);
            next = match next {
                Some((lowest, _)) if lowest < pc => next,
                Some((lowest, lanes)) if lowest == pc => Some((pc, lanes | bit)),
                _ => Some((pc, bit)),
            };
        }
        next.map(|(_, lanes)| lanes)
    }

    /// Lets a thread run to its next event; `false` when it cannot go on.
    fn resume(&mut self, lane: usize, mask: u32) -> bool {
        let agent = self.agent(lane);
        if let Some(watch) = &self.running.watch {
            let simdgroup = self.simdgroups[lane / 32];
            let mut watch = watch.borrow_mut();
            let epochs = |threadgroup, simdgroup| Epochs {
                threadgroup,
                simdgroup,
            };
            watch.device_epochs = epochs(self.clock.device, simdgroup.device);
            watch.threadgroup_epochs = epochs(self.clock.threadgroup, simdgroup.threadgroup);
            watch.step = self.step;
            watch.lanes = mask;
        }
        let thread = &mut self.threads[lane];
        let resume = || {
            let result = thread.coroutine.resume(());
            (result, self.running.yielder(), self.running.given.get())
        };
        let (result, yielder, given) =
            self.running
                .enter(agent, thread.yielder, thread.stack, resume);
        thread.yielder = yielder;
        thread.given = given;
        thread.state = match result {
            CoroutineResult::Return(()) => State::Done,
            CoroutineResult::Yield(event) => State::Waiting(event),
        };
        thread.state != State::Waiting(Event::Fault)
    }

    fn agent(&self, lane: usize) -> Agent {
        Agent {
            group: self.group,
            thread: lane as u32,
        }
    }

    /// Completes the operation of a simdgroup at `pc` for the lanes that are there.
    fn serve(&mut self, simdgroup: usize, pc: usize) {
        let all: Vec<_> = self.lanes(simdgroup).collect();
        let is_here = |lane: &usize| match self.threads[*lane].state {
            State::Waiting(Event::Simd { pc: at, .. }) => at == pc,
            State::Waiting(Event::Barrier { scope, pc: at, .. }) => {
                at == pc && scope != SCOPE_THREADGROUP
            }
            _ => false,
        };
        let here: Vec<_> = all.iter().copied().filter(is_here).collect();
        let Some(&first) = here.first() else { return };
        let event = self.threads[first].state;
        if here.len() < all.len() {
            let detail = format!("{} of {} lanes reach it", here.len(), all.len());
            self.report(Kind::DivergentSimd, first, pc, detail);
        }
        if let State::Waiting(Event::Barrier { flags, .. }) = event {
            self.simdgroups[simdgroup].pass(flags);
            self.count(|counters| counters.simdgroup_barriers += 1);
        } else {
            let mut exchange = self.running.exchange.borrow_mut();
            exchange.active = here.iter().fold(0, |mask, lane| mask | 1 << (lane % 32));
            for &lane in &here {
                exchange.values[lane % 32] = self.threads[lane].given;
            }
            drop(exchange);
            let is_matrix = matches!(
                event,
                State::Waiting(Event::Simd {
                    kind: EXCHANGE_MATRIX,
                    ..
                })
            );
            self.count(|counters| match is_matrix {
                true => counters.matrix_operations += 1,
                false => counters.simd_operations += 1,
            });
        }
        for lane in here {
            self.threads[lane].state = State::Ready;
        }
    }

    /// Completes a barrier of the threadgroup; `false` when the threads do not meet.
    fn pass_barrier(&mut self) -> bool {
        let at = |thread: &Thread| match thread.state {
            State::Waiting(Event::Barrier { pc, flags, .. }) => Some((pc, flags)),
            _ => None,
        };
        let Some(first) = self.threads.iter().position(|thread| at(thread).is_some()) else {
            return false;
        };
        let Some((pc, flags)) = at(&self.threads[first]) else {
            return false;
        };
        let here = self
            .threads
            .iter()
            .filter(|thread| at(thread).is_some_and(|other| other.0 == pc))
            .count();
        if here < self.threads.len() {
            let done = self
                .threads
                .iter()
                .filter(|thread| thread.state == State::Done)
                .count();
            let elsewhere = self.threads.len() - here - done;
            let detail = format!(
                "{here} of {} threads reach it, {elsewhere} wait at another barrier, {done} have returned",
                self.threads.len()
            );
            self.report(Kind::DivergentBarrier, first, pc, detail);
            return false;
        }
        self.clock.pass(flags);
        self.count(|counters| counters.threadgroup_barriers += 1);
        for thread in &mut self.threads {
            thread.state = State::Ready;
        }
        true
    }

    fn count(&self, add: impl FnOnce(&mut crate::check::Counters)) {
        if let Some(watch) = &self.running.watch {
            add(&mut watch.borrow_mut().counters);
        }
    }

    fn report(&self, kind: Kind, lane: usize, pc: usize, detail: String) {
        let Some(watch) = &self.running.watch else {
            return;
        };
        let site = Site {
            pc,
            agent: self.agent(lane),
            ..Site::default()
        };
        let finding = Finding::error(kind, site, detail);
        watch.borrow_mut().findings.add(finding);
    }

    /// Gives up threads in the middle of their work.
    fn abandon(self) {
        for mut thread in self.threads {
            if thread.coroutine.started() && !thread.coroutine.done() {
                // SAFETY: kernels own nothing that needs to be released, and nothing points into the stack
                // once the group is gone.
                unsafe { thread.coroutine.force_reset() };
            }
        }
    }
}
