//! The checker's state during a dispatch.

use std::collections::HashMap;

use super::arena::Arena;
use super::footprint::Footprint;
use super::intervals::Intervals;
use super::order::{Agent, Epochs, Record};
use super::regions::{Near, Region, Regions};
use super::shadow::{Conflict, Shadow};
use crate::module::abi;
use crate::report::{Kind, Severity};

/// What a thread did, and where in the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    /// Return address of the call that told the checker; 0 where there is no code, as in a copy.
    pub(crate) pc: usize,
    pub(crate) agent: Agent,
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
    /// Nothing known is near.
    Unknown,
}

/// A fault as the checker saw it first.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) severity: Severity,
    pub(crate) now: Site,
    pub(crate) before: Option<Site>,
    pub(crate) memory: Option<Memory>,
    /// What the kind alone does not say.
    pub(crate) detail: String,
    pub(crate) count: u64,
}

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
    fn write(&self) -> bool {
        self.kind & abi::ACCESS_WRITE != 0
    }
}

/// Sums of what a dispatch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Bytes of buffers read, each access counted.
    pub bytes_read: u64,
    /// Bytes of buffers written, each access counted.
    pub bytes_written: u64,
    /// Distinct 64-byte segments that the lanes of a simdgroup touched together, summed over accesses.
    pub segments: u64,
    /// Barriers that a threadgroup passed.
    pub threadgroup_barriers: u64,
    /// Barriers that a simdgroup passed.
    pub simdgroup_barriers: u64,
    /// Operations among the lanes of a simdgroup.
    pub simd_operations: u64,
    /// Products of matrices that a simdgroup holds.
    pub matrix_operations: u64,
}

impl Counters {
    /// Adds the counts of another dispatch.
    pub(crate) fn add(&mut self, other: Counters) {
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.segments += other.segments;
        self.threadgroup_barriers += other.threadgroup_barriers;
        self.simdgroup_barriers += other.simdgroup_barriers;
        self.simd_operations += other.simd_operations;
        self.matrix_operations += other.matrix_operations;
    }
}

/// A write over a write that it is not ordered with. Whether it changes anything is seen afterwards.
struct Rewrite {
    at: usize,
    old: Vec<u8>,
    conflict: Conflict,
    site: Site,
    memory: Memory,
}

/// The checker during one dispatch.
pub(crate) struct Watch {
    pub(crate) regions: Regions,
    pub(crate) footprint: Footprint,
    pub(crate) counters: Counters,
    /// Addresses without contents, by buffer.
    pub(crate) stale: HashMap<u64, Intervals>,
    /// Epochs of the running thread for each memory.
    pub(crate) device_epochs: Epochs,
    pub(crate) threadgroup_epochs: Epochs,
    pub(crate) step: u64,
    pub(crate) lanes: u32,
    device: Shadow,
    threadgroup: Shadow,
    segments: Vec<usize>,
    /// A write that conflicts with another write, about to be carried out.
    rewrite: Option<Rewrite>,
    findings: Vec<Finding>,
    known: HashMap<(Kind, usize, usize), usize>,
}

impl Watch {
    pub(crate) fn new(regions: Regions) -> Self {
        Watch {
            regions,
            footprint: Footprint::default(),
            counters: Counters::default(),
            stale: HashMap::new(),
            device_epochs: Epochs::default(),
            threadgroup_epochs: Epochs::default(),
            step: 0,
            lanes: 0,
            device: Shadow::default(),
            threadgroup: Shadow::default(),
            segments: Vec::new(),
            rewrite: None,
            findings: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// A new threadgroup begins: its memory holds nothing.
    pub(crate) fn enter_threadgroup(&mut self) {
        self.threadgroup.clear();
    }

    /// Judges what is still open, and returns the findings in the order in which they came up.
    pub(crate) fn finish(&mut self) -> Vec<Finding> {
        self.settle();
        std::mem::take(&mut self.findings)
    }

    /// The memory of an access.
    pub(crate) fn region(&self, arena: &Arena, access: &Announced) -> Region {
        if let Some(index) = self.regions.device(access.at, access.bytes, access.write()) {
            return Region::Device(index);
        }
        if let Some(region) = arena.region(access.at, access.bytes) {
            return region;
        }
        if let Some(index) = self.regions.undefined(access.at) {
            return Region::Undefined(index);
        }
        if self.regions.is_private(access.at) {
            return Region::Private;
        }
        Region::Outside(self.regions.nearest(access.at).map(Near::Device))
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
            write: access.write(),
        };
        let memory = match region {
            Region::Private => return Verdict::Continue,
            Region::Undefined(index) => {
                let detail = format!("`{}` has no value", self.regions.private.undefined[index].1);
                self.report(
                    Kind::UndefinedConstant,
                    Severity::Error,
                    site,
                    None,
                    None,
                    detail,
                );
                return Verdict::Stop;
            }
            Region::Outside(near) => {
                let memory = self.near(arena, near, access.at);
                let detail = self.outside_detail(arena, near, access);
                self.report(
                    Kind::OutOfBounds,
                    Severity::Error,
                    site,
                    None,
                    Some(memory),
                    detail,
                );
                return Verdict::Stop;
            }
            Region::Device(index) => self.near(arena, Some(Near::Device(index)), access.at),
            Region::Threadgroup(index) => {
                self.near(arena, Some(Near::Threadgroup(index)), access.at)
            }
        };
        if access.kind & abi::ACCESS_ALIGNED != 0 && !access.at.is_multiple_of(access.bytes) {
            let detail = format!("the address is no multiple of {}", access.bytes);
            self.report(
                Kind::Misaligned,
                Severity::Error,
                site,
                None,
                Some(memory),
                detail,
            );
            return Verdict::Stop;
        }
        match region {
            Region::Device(index) => self.device_access(index, &access, site, memory),
            _ => {
                self.threadgroup_access(&access, site, memory);
                Verdict::Continue
            }
        }
    }

    fn device_access(
        &mut self,
        index: usize,
        access: &Announced,
        site: Site,
        memory: Memory,
    ) -> Verdict {
        let binding = &self.regions.device[index];
        let (writable, constant, buffer) = (binding.writable, binding.constant, binding.buffer);
        if site.write && !writable {
            let detail = "the dispatch declares that it only reads this buffer".to_owned();
            self.report(
                Kind::WriteToReadOnly,
                Severity::Error,
                site,
                None,
                Some(memory),
                detail,
            );
            return Verdict::Stop;
        }
        if constant {
            return Verdict::Continue;
        }
        let counter = if site.write {
            &mut self.counters.bytes_written
        } else {
            &mut self.counters.bytes_read
        };
        *counter += access.bytes as u64;
        self.segments
            .extend(access.at / 64..=(access.at + access.bytes - 1) / 64);
        self.footprint.add(buffer, access.at, access.bytes, site);
        self.check_contents(buffer, access, site, &memory);
        if self.regions.device[index].shared {
            let record = self.record(access, site, self.device_epochs);
            if let Some(conflict) = self.device.access(access.at, record) {
                self.conflict(conflict, access.at, site, memory);
            }
        }
        Verdict::Continue
    }

    /// Reads of bytes that were discarded and not written since.
    fn check_contents(&mut self, buffer: u64, access: &Announced, site: Site, memory: &Memory) {
        let range = access.at..access.at + access.bytes;
        let Some(stale) = self
            .stale
            .get_mut(&buffer)
            .filter(|stale| stale.overlaps(&range))
        else {
            return;
        };
        let modify = access.kind & abi::ACCESS_MODIFY != 0;
        if site.write && !modify {
            return stale.remove(range);
        }
        let detail =
            "the buffer was given back, and nothing has written these bytes since".to_owned();
        self.report(
            Kind::Stale,
            Severity::Error,
            site,
            None,
            Some(memory.clone()),
            detail,
        );
    }

    fn threadgroup_access(&mut self, access: &Announced, site: Site, memory: Memory) {
        let reads = !site.write || access.kind & abi::ACCESS_MODIFY != 0;
        if reads && !self.threadgroup.is_written(access.at, access.bytes) {
            let detail = "no thread of this threadgroup has written it".to_owned();
            self.report(
                Kind::Uninitialized,
                Severity::Error,
                site,
                None,
                Some(memory.clone()),
                detail,
            );
        }
        let record = self.record(access, site, self.threadgroup_epochs);
        if let Some(conflict) = self.threadgroup.access(access.at, record) {
            self.conflict(conflict, access.at, site, memory);
        }
    }

    fn record(&self, access: &Announced, site: Site, epochs: Epochs) -> Record {
        Record {
            agent: site.agent,
            pc: site.pc,
            bytes: site.bytes,
            write: site.write,
            atomic: access.kind & abi::ACCESS_ATOMIC != 0,
            epochs,
            step: self.step,
            lanes: self.lanes,
        }
    }

    fn conflict(&mut self, conflict: Conflict, at: usize, site: Site, memory: Memory) {
        let rewrites = site.write && conflict.before.write && conflict.severity == Severity::Error;
        if !rewrites {
            return self.report_conflict(&conflict, site, memory);
        }
        let old = peek(at, site.bytes as usize);
        self.rewrite = Some(Rewrite {
            at,
            old,
            conflict,
            site,
            memory,
        });
    }

    /// Judges the last write over a write, which has been carried out meanwhile.
    fn settle(&mut self) {
        let Some(mut rewrite) = self.rewrite.take() else {
            return;
        };
        if peek(rewrite.at, rewrite.old.len()) == rewrite.old {
            rewrite.conflict.severity = Severity::Note;
        }
        self.report_conflict(&rewrite.conflict, rewrite.site, rewrite.memory);
    }

    fn report_conflict(&mut self, conflict: &Conflict, site: Site, memory: Memory) {
        let before = Site {
            pc: conflict.before.pc,
            agent: conflict.before.agent,
            bytes: conflict.before.bytes,
            write: conflict.before.write,
        };
        let detail = match conflict.severity {
            Severity::Note => "it stores the value that is there".to_owned(),
            _ => String::new(),
        };
        self.report(
            conflict.kind,
            conflict.severity,
            site,
            Some(before),
            Some(memory),
            detail,
        );
    }

    /// The lanes of a simdgroup have taken an access together.
    pub(crate) fn end_step(&mut self) {
        self.segments.sort_unstable();
        self.segments.dedup();
        self.counters.segments += self.segments.len() as u64;
        self.segments.clear();
    }

    fn near(&self, arena: &Arena, near: Option<Near>, at: usize) -> Memory {
        let offset = |base: usize| at.wrapping_sub(base) as i64;
        match near {
            Some(Near::Device(binding)) => Memory::Device {
                binding,
                offset: offset(self.regions.device[binding].whole.start),
            },
            Some(Near::Threadgroup(index)) => {
                let variable = &arena.variables[index];
                Memory::Threadgroup {
                    variable: variable.name.clone(),
                    offset: offset(arena.base() + variable.range.start),
                }
            }
            None => Memory::Unknown,
        }
    }

    fn outside_detail(&self, arena: &Arena, near: Option<Near>, access: Announced) -> String {
        match near {
            Some(Near::Device(index)) => {
                let device = &self.regions.device[index];
                let first = device.range.start - device.whole.start;
                let (bytes, whole) = (device.range.len(), device.whole.len());
                let inside =
                    device.whole.start <= access.at && access.at + access.bytes <= device.whole.end;
                let what = if inside {
                    "the dispatch declares"
                } else {
                    "it has"
                };
                format!("{what} {bytes} bytes at offset {first} of a buffer of {whole}")
            }
            Some(Near::Threadgroup(index)) => {
                format!(
                    "the variable has {} bytes",
                    arena.variables[index].range.len()
                )
            }
            None => "no buffer and no threadgroup variable is there".into(),
        }
    }

    /// Adds a finding, or counts it where the same code was found at fault before.
    pub(crate) fn report(
        &mut self,
        kind: Kind,
        severity: Severity,
        now: Site,
        before: Option<Site>,
        memory: Option<Memory>,
        detail: String,
    ) {
        let key = (kind, now.pc, before.map_or(0, |before| before.pc));
        if let Some(&index) = self.known.get(&key) {
            let known = &mut self.findings[index];
            let count = known.count + 1;
            if severity > known.severity {
                *known = Finding {
                    kind,
                    severity,
                    now,
                    before,
                    memory,
                    detail,
                    count,
                };
            }
            known.count = count;
            return;
        }
        self.known.insert(key, self.findings.len());
        self.findings.push(Finding {
            kind,
            severity,
            now,
            before,
            memory,
            detail,
            count: 1,
        });
    }
}

/// The bytes at an address that an access was checked for.
fn peek(at: usize, bytes: usize) -> Vec<u8> {
    let from: *const u8 = std::ptr::with_exposed_provenance(at);
    // SAFETY: callers pass ranges that lie in a bound buffer or in threadgroup memory, and no other OS
    // thread runs kernels of a checked dispatch.
    unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
}
