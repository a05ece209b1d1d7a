//! Faults as the checker sees them, before they get names and source lines.

use std::collections::HashMap;

use super::order::Agent;
use crate::report::{Kind, Severity};

/// What a thread did, and where in the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// Return address of the call that told the checker.
    pub(crate) pc: usize,
    pub(crate) agent: Agent,
    /// Bytes accessed; 0 for an operation that is no access.
    pub(crate) bytes: u32,
    pub(crate) write: bool,
}

/// A place in memory, as a report names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Binding and offset in its buffer.
    Device { binding: usize, offset: i64 },
    /// Name and offset in the variable.
    Threadgroup { variable: String, offset: i64 },
}

/// A fault.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) severity: Severity,
    pub(crate) now: Site,
    /// The earlier access that it conflicts with.
    pub(crate) before: Option<Site>,
    pub(crate) memory: Option<Memory>,
    /// What the kind alone does not say.
    pub(crate) detail: String,
    pub(crate) count: u64,
}

impl Finding {
    /// An error of one thread.
    pub(crate) fn error(kind: Kind, now: Site, detail: impl Into<String>) -> Self {
        Finding {
            kind,
            severity: Severity::Error,
            now,
            before: None,
            memory: None,
            detail: detail.into(),
            count: 1,
        }
    }
}

/// Faults in the order in which they came up, one per kind and pair of instructions.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    known: HashMap<(Kind, usize, usize), usize>,
}

impl Findings {
    /// Adds a fault, or counts it where the same code was at fault before. The gravest one is kept.
    pub(crate) fn add(&mut self, finding: Finding) {
        let before = finding.before.map_or(0, |before| before.pc);
        let key = (finding.kind, finding.now.pc, before);
        let Some(&index) = self.known.get(&key) else {
            self.known.insert(key, self.list.len());
            self.list.push(finding);
            return;
        };
        let known = &mut self.list[index];
        let count = known.count + 1;
        if finding.severity > known.severity {
            *known = finding;
        }
        known.count = count;
    }

    pub(crate) fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
