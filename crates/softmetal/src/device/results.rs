//! Collects reports and counts of a device.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::Recorded;
use super::hazards::Blit;
use super::statistics::{KernelStatistics, Statistics, Submissions};
use crate::check::{Counters, Finding, Footprint, Memory as Found, Overlap, Regions, Site};
use crate::exec::{extent, unravel};
use crate::report::{Access, Kind, Memory, Report, Severity, SourcePlace};
use minfer_metal::device::{Buffer, Pipeline};

/// Reports and counts.
#[derive(Default)]
pub(super) struct Results {
    reports: Vec<Report>,
    kernels: BTreeMap<String, KernelStatistics>,
    submissions: Submissions,
    barriers: BTreeSet<SourcePlace>,
}

/// The command that something happened in.
pub(super) enum Origin<'a> {
    Dispatch {
        recorded: &'a Recorded,
        regions: Regions,
    },
    Blit(Blit<'a>),
}

impl Origin<'_> {
    fn label(&self) -> String {
        match self {
            Origin::Dispatch { recorded, .. } => recorded.label.clone(),
            Origin::Blit(blit) => blit.description(),
        }
    }
}

impl Results {
    pub(super) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    pub(super) fn statistics(&self) -> Vec<KernelStatistics> {
        self.kernels.values().cloned().collect()
    }

    pub(super) fn take_statistics(&mut self) -> Statistics {
        let kernels = std::mem::take(&mut self.kernels);
        Statistics {
            kernels: kernels.into_values().collect(),
            submissions: std::mem::take(&mut self.submissions),
        }
    }

    pub(super) fn count_submission(&mut self, submission: Submissions) {
        self.submissions.add(submission);
    }

    pub(super) fn barriers(&self) -> Vec<SourcePlace> {
        self.barriers.iter().cloned().collect()
    }

    pub(super) fn add_barriers(&mut self, places: impl IntoIterator<Item = SourcePlace>) {
        self.barriers.extend(places);
    }

    fn kernel(&mut self, name: &str) -> &mut KernelStatistics {
        let kernel = self.kernels.entry(name.to_owned()).or_default();
        name.clone_into(&mut kernel.kernel);
        kernel.dispatches += 1;
        kernel
    }

    pub(super) fn count_unchecked(&mut self, kernel: &str) {
        self.kernel(kernel);
    }

    pub(super) fn count(&mut self, kernel: &str, footprint: &Footprint, counters: Counters) {
        let kernel = self.kernel(kernel);
        kernel.distinct_bytes_read += footprint.read_bytes();
        kernel.distinct_bytes_written += footprint.written_bytes();
        kernel.counters.add(counters);
    }

    /// Adds findings of a dispatch; those that the source does not allow, as they stand alone.
    pub(super) fn add(&mut self, origin: &Origin<'_>, findings: &[Finding]) -> Vec<Report> {
        let reports = findings.iter().map(|finding| report(origin, finding));
        reports.filter_map(|report| self.keep(report)).collect()
    }

    /// Merges a report unless the source allows it.
    fn keep(&mut self, report: Report) -> Option<Report> {
        if report.allowed().is_some() {
            return None;
        }
        self.merge(&report);
        Some(report)
    }

    /// Adds two commands that nothing orders, with what would.
    pub(super) fn add_hazard(
        &mut self,
        now: &Origin<'_>,
        before: &Origin<'_>,
        overlap: &Overlap,
        detail: &str,
    ) -> Option<Report> {
        let mut earlier = access(before, &overlap.before);
        earlier.dispatch = Some(before.label());
        self.keep(Report {
            before: Some(earlier),
            memory: overlap_memory(now, overlap),
            detail: detail.to_owned(),
            ..bare(now, Kind::MissingHazard, access(now, &overlap.now))
        })
    }

    /// One report per kind and lines, whichever of two lines came first.
    fn merge(&mut self, report: &Report) {
        let line = |access: &Access| {
            access
                .place
                .as_ref()
                .map(|place| (place.file.clone(), place.line))
        };
        let key = |report: &Report| {
            let mut lines = [Some(line(&report.now)), report.before.as_ref().map(line)];
            lines.sort();
            (report.kind, report.kernel.clone(), lines)
        };
        let new = key(report);
        match self.reports.iter_mut().find(|known| key(known) == new) {
            Some(known) => {
                known.count += report.count;
                known.severity = known.severity.max(report.severity);
            }
            None => self.reports.push(report.clone()),
        }
    }
}

fn report(origin: &Origin<'_>, finding: &Finding) -> Report {
    let memory = finding
        .memory
        .as_ref()
        .and_then(|memory| named(origin, memory));
    Report {
        severity: finding.severity,
        before: finding.before.map(|site| access(origin, &site)),
        memory,
        detail: finding.detail.clone(),
        count: finding.count,
        ..bare(origin, finding.kind, access(origin, &finding.now))
    }
}

fn bare(origin: &Origin<'_>, kind: Kind, now: Access) -> Report {
    Report {
        severity: Severity::Error,
        kind,
        kernel: match origin {
            Origin::Dispatch { recorded, .. } => recorded.pipeline.kernel().to_owned(),
            Origin::Blit(_) => String::new(),
        },
        dispatch: origin.label(),
        now,
        before: None,
        memory: None,
        detail: String::new(),
        count: 1,
    }
}

fn access(origin: &Origin<'_>, site: &Site) -> Access {
    let action = match (site.bytes, site.write) {
        (0, _) => "reached".to_owned(),
        (bytes, true) => format!("write of {bytes} bytes"),
        (bytes, false) => format!("read of {bytes} bytes"),
    };
    let Origin::Dispatch { recorded, .. } = origin else {
        return Access {
            action,
            ..Access::default()
        };
    };
    let library = &recorded.pipeline.library;
    let place = (site.pc != 0)
        .then(|| library.module.places.find(site.pc))
        .flatten();
    let line = place
        .as_ref()
        .and_then(|place| library.line(place))
        .map(str::to_owned);
    let position = unravel(site.agent.group, recorded.threadgroups);
    let extent = extent(position, recorded.threadgroup, recorded.threads);
    Access {
        action,
        dispatch: None,
        place,
        line,
        thread: unravel(site.agent.thread, extent),
        simdgroup: site.agent.simdgroup(),
        lane: site.agent.lane(),
        threadgroup: position,
    }
}

fn named(origin: &Origin<'_>, memory: &Found) -> Option<Memory> {
    match memory {
        Found::Device { binding, offset } => {
            let Origin::Dispatch { regions, .. } = origin else {
                return None;
            };
            let device = regions.device.get(*binding)?;
            Some(Memory {
                space: if device.constant {
                    "constant"
                } else {
                    "device"
                },
                name: device.label.clone(),
                parameter: Some(device.parameter.clone()),
                offset: *offset,
            })
        }
        Found::Threadgroup { variable, offset } => Some(Memory {
            space: "threadgroup",
            name: variable.clone(),
            parameter: None,
            offset: *offset,
        }),
    }
}

fn overlap_memory(now: &Origin<'_>, overlap: &Overlap) -> Option<Memory> {
    let (name, parameter, start) = match now {
        Origin::Dispatch { regions, .. } => {
            let mut devices = regions.device.iter();
            let device = devices.find(|device| device.buffer == overlap.buffer)?;
            let parameter = Some(device.parameter.clone());
            (device.label.clone(), parameter, device.whole.start)
        }
        Origin::Blit(blit) => {
            let mut sides = blit.from.into_iter().chain([blit.to]);
            let side = sides.find(|side| side.buffer.id() == overlap.buffer)?;
            let name = side.buffer.label().to_owned();
            (name, None, side.buffer.addresses().start)
        }
    };
    Some(Memory {
        space: "device",
        name,
        parameter,
        offset: (overlap.at - start) as i64,
    })
}
