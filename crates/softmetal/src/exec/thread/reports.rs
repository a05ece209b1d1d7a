//! Why a thread ends, or what it did wrong, if it is no access.

use super::Running;
use crate::check::{Finding, Site};
use crate::exec::fault::{Cause, Trap};
use crate::exec::worker::STACK;
use crate::module::abi::TRAP_SHIFT;
use crate::report::Kind;

impl Running<'_> {
    #[cold]
    pub(super) fn stop_for_stack(&self, pc: usize) -> ! {
        self.report(Kind::Limit, pc, stack_detail());
        self.stop()
    }

    /// Reports what is no access; in an unchecked build, it is why the thread ends.
    pub(in crate::exec) fn report(&self, kind: Kind, pc: usize, detail: impl Into<String>) {
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
    pub(in crate::exec) fn trapped(&self, trap: Trap) {
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

    pub(in crate::exec) fn absent_lane(&self, lane: u32, pc: usize) {
        // Without checks the lane's own value has to do.
        if self.watch.is_some() {
            let detail = format!("lane {lane} does not take part");
            self.report(Kind::AbsentLane, pc, detail);
        }
    }

    pub(in crate::exec) fn array_index(&self, index: i64, array: &str, pc: usize) {
        let detail = format!("index {index} of an array `{}`", array.trim_matches('\''));
        self.report(Kind::OutOfBounds, pc, detail);
        self.stop()
    }

    pub(in crate::exec) fn trap(&self, reason: u32, pc: usize) {
        let kind = match reason {
            TRAP_SHIFT => Kind::ShiftCount,
            _ => Kind::DivisionByZero,
        };
        self.report(kind, pc, "");
        self.stop()
    }

    pub(in crate::exec) fn variable(
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
