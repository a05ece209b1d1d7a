//! The checker's state during a dispatch.

use std::collections::HashMap;

use super::arena::Arena;
use super::counters::Counters;
use super::findings::{Finding, Findings, Memory, Site};
use super::footprint::Footprint;
use super::intervals::Intervals;
use super::order::{Agent, Epochs, Record};
use super::regions::{Near, Region, Regions};
use super::shadow::{Conflict, Shadow};
use crate::module::abi;
use crate::report::{Kind, Severity};

/// Bytes that one transaction of a GPU's memory moves.
const SEGMENT: usize = 64;

/// Whether a thread may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    /// The access cannot be carried out.
    Stop,
}

/// An access that the instrumentation announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Announced {
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: u32,
    pub(crate) pc: usize,
}

impl Announced {
    fn is(&self, kind: u32) -> bool {
        self.kind & kind != 0
    }

    fn is_misaligned(&self) -> bool {
        self.is(abi::ACCESS_ALIGNED) && !self.at.is_multiple_of(self.bytes)
    }
}

/// An access with its thread and memory.
struct Attempt<'a> {
    access: Announced,
    site: Site,
    near: Option<Near>,
    arena: &'a Arena,
}

/// A write over a write that it is not ordered with. Whether it changes anything is seen afterwards.
struct Rewrite {
    at: usize,
    old: Vec<u8>,
    finding: Finding,
}

/// The checker during one dispatch.
pub(crate) struct Watch {
    pub(crate) regions: Regions,
    pub(crate) footprint: Footprint,
    pub(crate) counters: Counters,
    pub(crate) findings: Findings,
    /// Addresses without contents, by buffer.
    pub(crate) stale: HashMap<u64, Intervals>,
    /// Epochs of the running thread for each memory.
    pub(crate) device_epochs: Epochs,
    pub(crate) threadgroup_epochs: Epochs,
    /// Step of the running simdgroup, and the lanes that take it together.
    pub(crate) step: u64,
    pub(crate) lanes: u32,
    device: Shadow,
    threadgroup: Shadow,
    /// Segments that the present step has touched.
    segments: Vec<usize>,
    /// A write that conflicts with another write, about to be carried out.
    rewrite: Option<Rewrite>,
}

impl Watch {
    pub(crate) fn new(regions: Regions) -> Self {
        Watch {
            regions,
            footprint: Footprint::default(),
            counters: Counters::default(),
            findings: Findings::default(),
            stale: HashMap::new(),
            device_epochs: Epochs::default(),
            threadgroup_epochs: Epochs::default(),
            step: 0,
            lanes: 0,
            device: Shadow::default(),
            threadgroup: Shadow::default(),
            segments: Vec::new(),
            rewrite: None,
        }
    }

    /// A new threadgroup begins: its memory holds nothing.
    pub(crate) fn enter_threadgroup(&mut self) {
        self.settle();
        self.threadgroup.clear();
    }

    /// The lanes of a simdgroup have taken an access together.
    pub(crate) fn end_step(&mut self) {
        self.segments.sort_unstable();
        self.segments.dedup();
        self.counters.segments += self.segments.len() as u64;
        self.segments.clear();
    }

    /// The memory of an access.
    pub(crate) fn region(&self, arena: &Arena, access: &Announced) -> Region {
        let write = access.is(abi::ACCESS_WRITE);
        if let Some(index) = self.regions.device(access.at, access.bytes, write) {
            // Nobody writes a copied value: threads need not stop for it.
            let harmless = self.regions.device[index].constant && !write && !access.is_misaligned();
            return match harmless {
                true => Region::Private,
                false => Region::Device(index),
            };
        }
        if let Some(region) = arena.region(access.at, access.bytes) {
            return region;
        }
        if let Some(index) = self.regions.undefined(access.at) {
            return Region::Undefined(index);
        }
        if self.regions.is_private(access.at) {
            return if write {
                Region::Constant
            } else {
                Region::Private
            };
        }
        Region::Outside(self.regions.nearest(access.at, write).map(Near::Device))
    }

    /// Checks an access before it is carried out.
    pub(crate) fn access(
        &mut self,
        arena: &Arena,
        access: Announced,
        region: Region,
        agent: Agent,
    ) -> Verdict {
        self.settle();
        let site = Site {
            pc: access.pc,
            agent,
            bytes: access.bytes as u32,
            write: access.is(abi::ACCESS_WRITE),
        };
        let near = match region {
            Region::Private => return Verdict::Continue,
            Region::Undefined(index) => {
                let detail = format!("`{}` has no value", self.regions.private.undefined[index].1);
                self.findings
                    .add(Finding::error(Kind::UndefinedConstant, site, detail));
                return Verdict::Stop;
            }
            Region::Constant => {
                let detail = "it is a constant of the program, or its code";
                self.findings
                    .add(Finding::error(Kind::WriteToReadOnly, site, detail));
                return Verdict::Stop;
            }
            Region::OtherThread => {
                let detail = "it is memory of another thread, or of one that has ended";
                self.findings
                    .add(Finding::error(Kind::OutOfBounds, site, detail));
                return Verdict::Stop;
            }
            Region::Outside(near) => near,
            Region::Device(index) => Some(Near::Device(index)),
            Region::Threadgroup(index) => Some(Near::Threadgroup(index)),
        };
        let attempt = Attempt {
            access,
            site,
            near,
            arena,
        };
        if matches!(region, Region::Outside(_)) {
            let detail = self.outside_detail(&attempt);
            self.error(Kind::OutOfBounds, &attempt, detail);
            return Verdict::Stop;
        }
        if access.is_misaligned() {
            let detail = format!("the address is no multiple of {}", access.bytes);
            self.error(Kind::Misaligned, &attempt, detail);
            return Verdict::Stop;
        }
        match region {
            Region::Device(index) => self.device_access(index, &attempt),
            _ => {
                self.threadgroup_access(&attempt);
                Verdict::Continue
            }
        }
    }

    fn device_access(&mut self, index: usize, attempt: &Attempt<'_>) -> Verdict {
        let Attempt { access, site, .. } = attempt;
        let binding = &self.regions.device[index];
        if site.write && !binding.writable {
            let detail = "the dispatch declares that it only reads this buffer";
            self.error(Kind::WriteToReadOnly, attempt, detail);
            return Verdict::Stop;
        }
        let (buffer, shared) = (binding.buffer, binding.shared);
        let counter = match site.write {
            true => &mut self.counters.bytes_written,
            false => &mut self.counters.bytes_read,
        };
        *counter += access.bytes as u64;
        let last = access.at + access.bytes - 1;
        self.segments.extend(access.at / SEGMENT..=last / SEGMENT);
        self.footprint.add(buffer, access.at, access.bytes, *site);
        self.check_contents(buffer, attempt);
        if shared {
            let record = self.record(attempt, self.device_epochs);
            if let Some(conflict) = self.device.access(access.at, record) {
                self.conflict(&conflict, attempt);
            }
        }
        Verdict::Continue
    }

    /// Reads of bytes that were discarded and not written since.
    fn check_contents(&mut self, buffer: u64, attempt: &Attempt<'_>) {
        let access = &attempt.access;
        let range = access.at..access.at + access.bytes;
        let stale = self.stale.get_mut(&buffer);
        let Some(stale) = stale.filter(|stale| stale.overlaps(&range)) else {
            return;
        };
        if attempt.site.write && !access.is(abi::ACCESS_MODIFY) {
            return stale.remove(range);
        }
        let detail = "the buffer was given back, and nothing has written these bytes since";
        self.error(Kind::Stale, attempt, detail);
    }

    fn threadgroup_access(&mut self, attempt: &Attempt<'_>) {
        let access = &attempt.access;
        let reads = !attempt.site.write || access.is(abi::ACCESS_MODIFY);
        if reads && !self.threadgroup.is_written(access.at, access.bytes) {
            let detail = "no thread of this threadgroup has written it";
            self.error(Kind::Uninitialized, attempt, detail);
        }
        let record = self.record(attempt, self.threadgroup_epochs);
        if let Some(conflict) = self.threadgroup.access(access.at, record) {
            self.conflict(&conflict, attempt);
        }
    }

    fn record(&self, attempt: &Attempt<'_>, epochs: Epochs) -> Record {
        let site = attempt.site;
        Record {
            agent: site.agent,
            pc: site.pc,
            bytes: site.bytes,
            write: site.write,
            atomic: attempt.access.is(abi::ACCESS_ATOMIC),
            epochs,
            step: self.step,
            lanes: self.lanes,
        }
    }

    fn conflict(&mut self, conflict: &Conflict, attempt: &Attempt<'_>) {
        let before = conflict.before;
        let finding = Finding {
            severity: conflict.severity,
            before: Some(Site {
                pc: before.pc,
                agent: before.agent,
                bytes: before.bytes,
                write: before.write,
            }),
            memory: self.memory(attempt),
            ..Finding::error(conflict.kind, attempt.site, "")
        };
        let rewrites = attempt.site.write && before.write;
        if !rewrites || conflict.severity != Severity::Error {
            return self.findings.add(finding);
        }
        self.rewrite = Some(Rewrite {
            at: attempt.access.at,
            old: peek(attempt.access.at, attempt.access.bytes),
            finding,
        });
    }

    /// Judges the last write over a write, which has been carried out meanwhile.
    pub(crate) fn settle(&mut self) {
        let Some(Rewrite {
            at,
            old,
            mut finding,
        }) = self.rewrite.take()
        else {
            return;
        };
        if peek(at, old.len()) == old {
            finding.severity = Severity::Note;
            "it stores the value that is there".clone_into(&mut finding.detail);
        }
        self.findings.add(finding);
    }

    fn error(&mut self, kind: Kind, attempt: &Attempt<'_>, detail: impl Into<String>) {
        let finding = Finding {
            memory: self.memory(attempt),
            ..Finding::error(kind, attempt.site, detail)
        };
        self.findings.add(finding);
    }

    fn memory(&self, attempt: &Attempt<'_>) -> Option<Memory> {
        let offset = |base: usize| attempt.access.at.wrapping_sub(base) as i64;
        Some(match attempt.near? {
            Near::Device(binding) => Memory::Device {
                binding,
                offset: offset(self.regions.device[binding].whole.start),
            },
            Near::Threadgroup(index) => {
                let variable = &attempt.arena.variables[index];
                Memory::Threadgroup {
                    variable: variable.name.clone(),
                    offset: offset(attempt.arena.base() + variable.range.start),
                }
            }
        })
    }

    fn outside_detail(&self, attempt: &Attempt<'_>) -> String {
        match attempt.near {
            Some(Near::Device(index)) => {
                let device = &self.regions.device[index];
                let first = device.range.start - device.whole.start;
                let (bytes, whole) = (device.range.len(), device.whole.len());
                format!(
                    "the dispatch declares {bytes} bytes at offset {first} of a buffer of {whole}"
                )
            }
            Some(Near::Threadgroup(index)) => {
                let bytes = attempt.arena.variables[index].range.len();
                format!("the variable has {bytes} bytes")
            }
            None => "no buffer and no threadgroup variable is there".into(),
        }
    }
}

/// The bytes at an address that an access was checked for.
fn peek(at: usize, bytes: usize) -> Vec<u8> {
    let from: *const u8 = std::ptr::with_exposed_provenance(at);
    // SAFETY: callers pass ranges that lie in a bound buffer or in threadgroup memory, and no other OS
    // thread runs kernels of a checked dispatch.
    unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
}
