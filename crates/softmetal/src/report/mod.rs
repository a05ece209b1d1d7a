//! What the checker says.

mod text;

use serde::Serialize;

pub use crate::module::SourcePlace;

/// How much a report matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Harmless, but not what the specification promises: two threads write the same value.
    Note,
    /// Works on present hardware only: the specification orders nothing.
    Warning,
    /// Wrong.
    Error,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An access outside the declared range of a buffer, outside a threadgroup variable, or to an element that an
    /// array of the thread does not have.
    OutOfBounds,
    /// A vector access at an address that is no multiple of its size.
    Misaligned,
    /// A write to a buffer that the dispatch declares it reads, or to a program-scope constant.
    WriteToReadOnly,
    /// A read of threadgroup memory that this threadgroup never wrote.
    Uninitialized,
    /// A read of a buffer's bytes that were discarded and not written since.
    Stale,
    /// A function constant that the pipeline gives no value.
    UndefinedConstant,
    /// Two threads of a threadgroup, one write, no order.
    RaceInThreadgroup,
    /// Two threads of a simdgroup that only their lockstep orders.
    OrderedByLockstep,
    /// Two threads that a barrier separates, but without the flag of this memory.
    BarrierWithoutFlag,
    /// Threads of two threadgroups of a dispatch, one write.
    RaceBetweenThreadgroups,
    /// Two dispatches or copies that no barrier, fence or encoder's end orders, one write.
    MissingHazard,
    /// A barrier that not all threads reach, or that they reach in different places.
    DivergentBarrier,
    /// An operation of a simdgroup that not all lanes reach.
    DivergentSimd,
    /// A shuffle from a lane that takes no part.
    AbsentLane,
    /// More threadgroup memory than the device has, or more stack than a thread has.
    Limit,
    /// Division of an integer by zero.
    DivisionByZero,
    /// A shift of a scalar by as many bits as it has, or more.
    ShiftCount,
    /// A quotient that its type does not have: the smallest integer by -1.
    DivisionOverflow,
}

impl Kind {
    /// Its name in data and in suppressions.
    pub fn name(self) -> &'static str {
        match self {
            Kind::OutOfBounds => "out-of-bounds",
            Kind::Misaligned => "misaligned",
            Kind::WriteToReadOnly => "write-to-read-only",
            Kind::Uninitialized => "uninitialized",
            Kind::Stale => "stale",
            Kind::UndefinedConstant => "undefined-constant",
            Kind::RaceInThreadgroup => "race-in-threadgroup",
            Kind::OrderedByLockstep => "ordered-by-lockstep",
            Kind::BarrierWithoutFlag => "barrier-without-flag",
            Kind::RaceBetweenThreadgroups => "race-between-threadgroups",
            Kind::MissingHazard => "missing-hazard",
            Kind::DivergentBarrier => "divergent-barrier",
            Kind::DivergentSimd => "divergent-simd",
            Kind::AbsentLane => "absent-lane",
            Kind::Limit => "limit",
            Kind::DivisionByZero => "division-by-zero",
            Kind::ShiftCount => "shift-count",
            Kind::DivisionOverflow => "division-overflow",
        }
    }
}

impl Kind {
    /// Whether no thread goes on after it, so that the results are not what the kernel says.
    fn ends_a_thread(self) -> bool {
        matches!(
            self,
            Kind::OutOfBounds
                | Kind::Misaligned
                | Kind::WriteToReadOnly
                | Kind::UndefinedConstant
                | Kind::DivergentBarrier
                | Kind::Limit
                | Kind::DivisionByZero
                | Kind::ShiftCount
                | Kind::DivisionOverflow
        )
    }

    /// What is wrong, in words.
    pub(crate) fn title(self) -> &'static str {
        text::title(self)
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One fault, the first of all that the same lines produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong.
    pub kind: Kind,
    /// Name of the kernel; empty for a copy or fill.
    pub kernel: String,
    /// Label of the dispatch, or what is copied or filled.
    pub dispatch: String,
    /// The access or operation at fault.
    pub now: Access,
    /// The earlier one that it conflicts with.
    pub before: Option<Access>,
    /// The memory concerned.
    pub memory: Option<Memory>,
    /// What the kind alone does not say; may be empty.
    pub detail: String,
    /// How often it was seen.
    pub count: u64,
}

/// What a thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// For example `write of 4 bytes`.
    pub action: String,
    /// Label of its dispatch, or what it copies, where it is another one than the report's.
    pub dispatch: Option<String>,
    /// Where in the source; `None` for a copy.
    pub place: Option<SourcePlace>,
    /// The line of the source.
    pub line: Option<String>,
    /// Position of the thread in its threadgroup.
    pub thread: [u32; 3],
    /// Its simdgroup and lane.
    pub simdgroup: u32,
    /// Its lane.
    pub lane: u32,
    /// Position of the threadgroup in the grid.
    pub threadgroup: [u32; 3],
}

/// A place in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// `device` or `threadgroup`.
    pub space: &'static str,
    /// Label of the buffer, or name of the variable.
    pub name: String,
    /// Kernel parameter that the buffer is bound to.
    pub parameter: Option<String>,
    /// Bytes from the start of the buffer or variable.
    pub offset: i64,
}

/// The reason that a line of a source gives for what is called `name`: `softmetal: allow(NAME): REASON`.
pub(crate) fn allowance<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once("softmetal: allow(")?;
    let reason = rest.strip_prefix(name)?.strip_prefix("):")?.trim();
    (!reason.is_empty()).then_some(reason)
}

impl Report {
    /// Why the source allows this fault: the text after `softmetal: allow(NAME):` on a line of either access.
    /// Nothing allows what cannot be carried out.
    pub fn allowed(&self) -> Option<&str> {
        if self.kind.ends_a_thread() {
            return None;
        }
        let accesses = [Some(&self.now), self.before.as_ref()];
        let mut lines = accesses
            .into_iter()
            .flatten()
            .filter_map(|access| access.line.as_deref());
        lines.find_map(|line| allowance(line, self.kind.name()))
    }

    /// The report in one line.
    pub fn headline(&self) -> String {
        text::headline(self)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text::write(self, f)
    }
}
