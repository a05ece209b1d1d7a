//! Runs the threads of a threadgroup: lets each go on until it has to wait, and decides who goes on next.

use super::thread::{Event, Running, State, Thread};
use crate::check::{Agent, Counters, Epochs, Passed};
use crate::module::abi::{
    EXCHANGE_MATRIX, EXCHANGE_QUAD, FLAG_DEVICE, FLAG_THREADGROUP, SCOPE_THREADGROUP,
};
use crate::report::Kind;

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

/// Why a threadgroup ends early.
enum Stopped {
    /// A thread cannot go on.
    Thread,
    /// There is no stack for another coroutine.
    Stack(std::io::Error),
}

/// The threads of a run's threadgroups, one threadgroup at a time.
pub(super) struct Group<'a> {
    running: &'a Running<'a>,
    group: u32,
    direction: Direction,
    /// Those of the present threadgroup.
    threads: &'a [Thread],
    simdgroups: Vec<Clock>,
    /// Barriers that the whole threadgroup has passed.
    clock: Clock,
    step: u64,
}

/// Barriers passed, for each memory.
#[derive(Clone, Copy, Default)]
struct Clock {
    device: Passed,
    threadgroup: Passed,
}

impl Clock {
    fn pass(&mut self, flags: u32) {
        self.device.pass(flags & FLAG_DEVICE != 0);
        self.threadgroup.pass(flags & FLAG_THREADGROUP != 0);
    }
}

impl<'a> Group<'a> {
    pub(super) fn new(running: &'a Running<'a>, direction: Direction) -> Self {
        Group {
            running,
            group: 0,
            direction,
            threads: &[],
            simdgroups: Vec::new(),
            clock: Clock::default(),
            step: 0,
        }
    }

    /// Runs all threads of a threadgroup to their end; `false` when one of them cannot go on.
    pub(super) fn run(&mut self, group: u32, threads: u32) -> std::io::Result<bool> {
        let Err(stopped) = self.run_threads(group, threads) else {
            return Ok(true);
        };
        self.running.dismiss();
        match stopped {
            Stopped::Thread => Ok(false),
            Stopped::Stack(error) => Err(error),
        }
    }

    fn run_threads(&mut self, group: u32, threads: u32) -> Result<(), Stopped> {
        self.group = group;
        self.clock = Clock::default();
        self.step = 0;
        self.threads = &self.running.threads[..threads as usize];
        for thread in self.threads {
            thread.state.set(State::New);
        }
        self.simdgroups.clear();
        let simdgroups = threads.div_ceil(32) as usize;
        self.simdgroups.resize(simdgroups, Clock::default());
        loop {
            for simdgroup in self.direction.order(simdgroups) {
                self.run_simdgroup(simdgroup)?;
            }
            if self.is_done() {
                return Ok(());
            }
            self.pass_barrier()?;
        }
    }

    fn is_done(&self) -> bool {
        let mut threads = self.threads.iter();
        threads.all(|thread| thread.state.get() == State::Done)
    }

    /// Runs a simdgroup until all its threads are done or at a barrier of the threadgroup.
    fn run_simdgroup(&mut self, simdgroup: usize) -> Result<(), Stopped> {
        if self.threads[simdgroup * 32].state.get() == State::New {
            self.start(simdgroup)?;
        }
        let all: u32 = self
            .lanes(simdgroup)
            .fold(0, |all, lane| all | 1 << (lane % 32));
        loop {
            let go_on = match self.running.take_meeting(all.count_ones()) {
                Some(event) => self.meet(simdgroup, all, event)?,
                None => self.advance(simdgroup)?,
            };
            if !go_on {
                return Ok(());
            }
        }
    }

    /// Lets all lanes go on that wait for the same; `false` if that is a barrier of the threadgroup.
    fn meet(&mut self, simdgroup: usize, all: u32, event: Event) -> Result<bool, Stopped> {
        match event {
            Event::Access { .. } => return self.access(simdgroup, all).map(|()| true),
            Event::Barrier { scope, .. } if scope == SCOPE_THREADGROUP => return Ok(false),
            Event::Barrier { .. } | Event::Simd { .. } => self.complete(simdgroup, all, event),
        }
        self.go_on(simdgroup, all, 0).map(|()| true)
    }

    /// Lets some lanes go on; `false` if none can.
    fn advance(&mut self, simdgroup: usize) -> Result<bool, Stopped> {
        let is_ready = |lane: &usize| self.threads[*lane].state.get() == State::Ready;
        let ready = self.lanes(simdgroup).filter(is_ready);
        let ready = ready.fold(0, |lanes, lane| lanes | 1 << (lane % 32));
        if ready != 0 {
            return self.go_on(simdgroup, ready, 0).map(|()| true);
        }
        if let Some(together) = self.next_access(simdgroup) {
            return self.access(simdgroup, together).map(|()| true);
        }
        // Lanes that diverged are served in the order of the code, as the hardware does it.
        let waiting = self.lanes(simdgroup).filter_map(|lane| self.meets_at(lane));
        let Some(pc) = waiting.min() else {
            return Ok(false);
        };
        self.serve(simdgroup, pc);
        Ok(true)
    }

    /// Lets lanes take an access together.
    fn access(&mut self, simdgroup: usize, lanes: u32) -> Result<(), Stopped> {
        self.step += 1;
        self.go_on(simdgroup, lanes, lanes)?;
        if let Some(watch) = &self.running.watch {
            watch.borrow_mut().end_step();
        }
        Ok(())
    }

    /// Where a thread waits for its simdgroup, if it does.
    fn meets_at(&self, thread: usize) -> Option<usize> {
        match self.threads[thread].state.get() {
            State::Waiting(Event::Simd { pc, .. }) => Some(pc),
            State::Waiting(Event::Barrier { scope, pc, .. }) if scope != SCOPE_THREADGROUP => {
                Some(pc)
            }
            _ => None,
        }
    }

    fn lanes(&self, simdgroup: usize) -> impl Iterator<Item = usize> + use<> {
        let start = simdgroup * 32;
        let count = 32.min(self.threads.len() - start);
        self.direction.order(count).map(move |lane| start + lane)
    }

    /// Starts the threads of a simdgroup: a coroutine takes one after another until one has to wait.
    fn start(&mut self, simdgroup: usize) -> Result<(), Stopped> {
        let threads = simdgroup * 32..self.threads.len().min(simdgroup * 32 + 32);
        for thread in &self.threads[threads.clone()] {
            thread.state.set(State::Done);
        }
        let (start, end) = (threads.start as u32, threads.end as u32);
        self.running.offer(start..end);
        self.look(simdgroup, 0);
        while self.running.has_offer() {
            let begun = self.running.begin(self.agent(threads.start));
            begun.map_err(Stopped::Stack)?;
            self.check()?;
        }
        Ok(())
    }

    /// The lanes at the lowest place in the code where any is about to access memory.
    fn next_access(&self, simdgroup: usize) -> Option<u32> {
        if !self.running.lockstep {
            return None;
        }
        let mut next: Option<(usize, u32)> = None;
        for lane in self.lanes(simdgroup) {
            let State::Waiting(Event::Access { pc }) = self.threads[lane].state.get() else {
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

    /// Lets lanes go on to their next events, those in `mask` with an access that they take together.
    fn go_on(&self, simdgroup: usize, lanes: u32, mask: u32) -> Result<(), Stopped> {
        self.look(simdgroup, mask);
        self.running.go_on(self.agent(simdgroup * 32), lanes);
        self.check()
    }

    /// Tells the checker which lanes go on, and what is behind them.
    fn look(&self, simdgroup: usize, mask: u32) {
        if let Some(watch) = &self.running.watch {
            let simdgroup = self.simdgroups[simdgroup];
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
    }

    fn check(&self) -> Result<(), Stopped> {
        match self.running.take_stop() {
            true => Err(Stopped::Thread),
            false => Ok(()),
        }
    }

    fn agent(&self, thread: usize) -> Agent {
        Agent {
            group: self.group,
            thread: thread as u32,
        }
    }

    /// Completes the operation of a simdgroup at `pc` for the lanes that are there.
    fn serve(&mut self, simdgroup: usize, pc: usize) {
        let (mut all, mut active) = (0u32, 0u32);
        let mut first = None;
        for lane in self.lanes(simdgroup) {
            all |= 1 << (lane % 32);
            if self.meets_at(lane) == Some(pc) {
                active |= 1 << (lane % 32);
                first.get_or_insert(lane);
            }
        }
        let Some(first) = first else { return };
        if let State::Waiting(Event::Simd {
            kind: EXCHANGE_QUAD,
            ..
        }) = self.threads[first].state.get()
        {
            all &= whole_quadgroups(active);
        }
        let (all, here) = (all.count_ones(), active.count_ones());
        // Without checks, the lanes that are there go on alone.
        if here < all && self.running.watch.is_some() {
            let detail = format!("{here} of {all} lanes reach it");
            self.report(Kind::DivergentSimd, first, pc, detail);
        }
        if let State::Waiting(event) = self.threads[first].state.get() {
            self.complete(simdgroup, active, event);
        }
        for lane in self.lanes(simdgroup) {
            if active >> (lane % 32) & 1 == 1 {
                self.threads[lane].state.set(State::Ready);
            }
        }
    }

    /// Completes what the active lanes wait for.
    fn complete(&mut self, simdgroup: usize, active: u32, event: Event) {
        match event {
            Event::Barrier { flags, .. } => {
                self.simdgroups[simdgroup].pass(flags);
                self.count(|counters| counters.simdgroup_barriers += 1);
            }
            Event::Simd { kind, .. } => {
                self.exchange(simdgroup, active);
                self.count(|counters| match kind {
                    EXCHANGE_MATRIX => counters.matrix_operations += 1,
                    _ => counters.simd_operations += 1,
                });
            }
            Event::Access { .. } => {}
        }
    }

    /// Lays out what the active lanes brought.
    fn exchange(&self, simdgroup: usize, active: u32) {
        let mut exchange = self.running.exchange.borrow_mut();
        exchange.active = active;
        exchange.has_result = 0;
        let given = self.running.given[simdgroup * 32..].iter();
        for (value, given) in exchange.values.iter_mut().zip(given) {
            *value = given.get();
        }
    }

    /// Completes a barrier of the threadgroup, unless the threads do not meet.
    fn pass_barrier(&mut self) -> Result<(), Stopped> {
        let at = |thread: &Thread| match thread.state.get() {
            State::Waiting(Event::Barrier { pc, flags, .. }) => Some((pc, flags)),
            _ => None,
        };
        let waiting = self.threads.iter().enumerate();
        let mut waiting = waiting.filter_map(|(index, thread)| Some((index, at(thread)?)));
        let Some((first, (pc, flags))) = waiting.next() else {
            return Err(Stopped::Thread);
        };
        let threads = self.threads.iter();
        let here = threads.filter(|thread| at(thread).is_some_and(|other| other.0 == pc));
        let here = here.count();
        if here < self.threads.len() {
            let threads = self.threads.iter();
            let done = threads
                .filter(|thread| thread.state.get() == State::Done)
                .count();
            let elsewhere = self.threads.len() - here - done;
            let detail = format!(
                "{here} of {} threads reach it, {elsewhere} wait at another barrier, {done} have returned",
                self.threads.len()
            );
            self.report(Kind::DivergentBarrier, first, pc, detail);
            return Err(Stopped::Thread);
        }
        self.clock.pass(flags);
        self.count(|counters| counters.threadgroup_barriers += 1);
        for thread in self.threads {
            thread.state.set(State::Ready);
        }
        Ok(())
    }

    fn count(&self, add: impl FnOnce(&mut Counters)) {
        if let Some(watch) = &self.running.watch {
            add(&mut watch.borrow_mut().counters);
        }
    }

    fn report(&self, kind: Kind, thread: usize, pc: usize, detail: String) {
        self.running.agent.set(self.agent(thread));
        self.running.report(kind, pc, detail);
    }
}

/// The lanes of all quadgroups that have an active lane.
fn whole_quadgroups(active: u32) -> u32 {
    let any = active | active >> 1 | active >> 2 | active >> 3;
    (any & 0x1111_1111) * 0xf
}
