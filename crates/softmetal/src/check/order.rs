//! Which accesses happen before which.

use crate::report::{Kind, Severity};

/// The thread that did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agent {
    /// Linear index of the threadgroup in the grid.
    pub(crate) group: u32,
    /// Linear index of the thread in the threadgroup.
    pub(crate) thread: u32,
}

impl Agent {
    pub(crate) fn simdgroup(self) -> u32 {
        self.thread / 32
    }

    pub(crate) fn lane(self) -> u32 {
        self.thread % 32
    }
}

/// Barriers that a thread has passed, for one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// Barriers of the threadgroup, and those of them that order this memory.
    pub(crate) threadgroup: Passed,
    /// The same for the simdgroup.
    pub(crate) simdgroup: Passed,
}

/// A count of barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) waits: u32,
    pub(crate) fences: u32,
}

impl Passed {
    pub(crate) fn pass(&mut self, fence: bool) {
        self.waits += 1;
        self.fences += u32::from(fence);
    }
}

/// One access to shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) agent: Agent,
    pub(crate) pc: usize,
    pub(crate) bytes: u32,
    pub(crate) write: bool,
    pub(crate) atomic: bool,
    pub(crate) epochs: Epochs,
    /// Step of the simdgroup and the lanes that took it together; no lanes in a free run.
    pub(crate) step: u64,
    pub(crate) lanes: u32,
}

impl Record {
    /// What a report says about the access.
    pub(crate) fn reported(&self) -> (u32, u32, usize, u32, bool, bool) {
        let Agent { group, thread } = self.agent;
        (group, thread, self.pc, self.bytes, self.write, self.atomic)
    }
}

/// Why two accesses that touch the same byte, one of them a write, are a fault; `None` if they are ordered.
pub(crate) fn conflict(before: &Record, now: &Record) -> Option<(Kind, Severity)> {
    if before.agent == now.agent || (before.atomic && now.atomic) {
        return None;
    }
    if before.agent.group != now.agent.group {
        return Some((Kind::RaceBetweenThreadgroups, Severity::Error));
    }
    let same_simdgroup = before.agent.simdgroup() == now.agent.simdgroup();
    let (past, here) = (before.epochs, now.epochs);
    let fenced = past.threadgroup.fences < here.threadgroup.fences
        || (same_simdgroup && past.simdgroup.fences < here.simdgroup.fences);
    if fenced {
        return None;
    }
    let waited = past.threadgroup.waits < here.threadgroup.waits
        || (same_simdgroup && past.simdgroup.waits < here.simdgroup.waits);
    if waited {
        return Some((Kind::BarrierWithoutFlag, Severity::Warning));
    }
    if same_simdgroup && in_lockstep(before, now) {
        return Some((Kind::OrderedByLockstep, Severity::Warning));
    }
    Some((Kind::RaceInThreadgroup, Severity::Error))
}

/// Whether lanes that run in lockstep cannot take the accesses in another order: a lane that took part in
/// both steps has the first behind it when it takes the second. A free run cannot tell.
fn in_lockstep(before: &Record, now: &Record) -> bool {
    let free = before.lanes == 0 || now.lanes == 0;
    free || (before.step != now.step && before.lanes & now.lanes != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(thread: u32) -> Record {
        Record {
            agent: Agent { group: 0, thread },
            pc: 0,
            bytes: 4,
            write: true,
            atomic: false,
            epochs: Epochs::default(),
            step: 1,
            lanes: u32::MAX,
        }
    }

    fn after(mut record: Record, threadgroup: &[bool], simdgroup: &[bool]) -> Record {
        record.step += 1;
        threadgroup
            .iter()
            .for_each(|&fence| record.epochs.threadgroup.pass(fence));
        simdgroup
            .iter()
            .for_each(|&fence| record.epochs.simdgroup.pass(fence));
        record
    }

    #[test]
    fn a_thread_is_ordered_with_itself() {
        assert_eq!(conflict(&write(3), &write(3)), None);
    }

    #[test]
    fn a_threadgroup_barrier_with_the_flag_orders_everyone() {
        let race = Some((Kind::RaceInThreadgroup, Severity::Error));
        assert_eq!(conflict(&write(0), &after(write(32), &[], &[])), race);
        assert_eq!(conflict(&write(0), &after(write(32), &[true], &[])), None);
        let flag = Some((Kind::BarrierWithoutFlag, Severity::Warning));
        assert_eq!(conflict(&write(0), &after(write(32), &[false], &[])), flag);
    }

    #[test]
    fn a_simdgroup_barrier_orders_one_simdgroup() {
        let race = Some((Kind::RaceInThreadgroup, Severity::Error));
        assert_eq!(conflict(&write(0), &after(write(31), &[], &[true])), None);
        assert_eq!(conflict(&write(0), &after(write(32), &[], &[true])), race);
    }

    #[test]
    fn lockstep_orders_steps_that_share_a_lane() {
        let lockstep = Some((Kind::OrderedByLockstep, Severity::Warning));
        let race = Some((Kind::RaceInThreadgroup, Severity::Error));
        assert_eq!(conflict(&write(0), &after(write(1), &[], &[])), lockstep);
        assert_eq!(conflict(&write(0), &write(1)), race);
        let mut then = write(0);
        then.lanes = 1;
        let mut other = after(write(1), &[], &[]);
        other.lanes = !1;
        assert_eq!(conflict(&then, &other), race, "two sides of a branch");
    }

    #[test]
    fn nothing_orders_threadgroups_but_atomics_do_not_race() {
        let mut other = after(write(0), &[true], &[true]);
        other.agent.group = 1;
        let race = Some((Kind::RaceBetweenThreadgroups, Severity::Error));
        assert_eq!(conflict(&write(0), &other), race);
        let mut first = write(0);
        first.atomic = true;
        assert_eq!(conflict(&first, &other), race);
        other.atomic = true;
        assert_eq!(conflict(&first, &other), None);
    }
}
