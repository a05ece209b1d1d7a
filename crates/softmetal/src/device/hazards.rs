//! Commands that later ones may have to wait for.

use minfer_metal::device::Buffer;

use super::commands::{Bound, Command, Value};
use super::results::{Origin, Results};
use crate::check::{Agent, Footprint, Site};
use crate::report::Report;

/// What ran without anything that orders all that comes after.
#[derive(Default)]
pub(super) struct Hazards<'a> {
    open: Vec<Open<'a>>,
    /// Number of the present encoder.
    encoder: usize,
}

/// A command and the bytes that later commands must not touch.
struct Open<'a> {
    origin: Origin<'a>,
    footprint: Footprint,
    encoder: usize,
}

impl<'a> Hazards<'a> {
    /// Takes note of what orders commands.
    pub(super) fn pass(&mut self, command: &Command) {
        match command {
            Command::Barrier => {
                let encoder = self.encoder;
                self.open.retain(|open| open.encoder != encoder);
            }
            Command::Ordered => self.order_tracked(),
            Command::End => {
                self.order_tracked();
                self.encoder += 1;
            }
            Command::Fence => self.open.clear(),
            Command::Dispatch(_) | Command::Copy { .. } | Command::Fill { .. } => {}
        }
    }

    fn order_tracked(&mut self) {
        self.open.retain_mut(|open| {
            let untracked = untracked(&open.origin);
            open.footprint.keep(|buffer| untracked.contains(&buffer));
            !open.footprint.is_empty()
        });
    }

    /// Compares a command with those before it.
    pub(super) fn add(
        &mut self,
        results: &mut Results,
        origin: Origin<'a>,
        footprint: Footprint,
    ) -> Vec<Report> {
        let mut added = Vec::new();
        for earlier in &self.open {
            let detail = match (&origin, earlier.encoder == self.encoder) {
                (_, false) => "nothing tracks this buffer: a fence must stand between the encoders",
                (Origin::Blit(_), true) => {
                    "nothing tracks this buffer: the two need an encoder each, with a fence between"
                }
                (Origin::Dispatch { .. }, true) => "an encoder's barrier must stand between them",
            };
            for overlap in footprint.overlaps(&earlier.footprint) {
                added.extend(results.add_hazard(&origin, &earlier.origin, &overlap, detail));
            }
        }
        self.open.push(Open {
            origin,
            footprint,
            encoder: self.encoder,
        });
        added
    }
}

/// Buffers of a command that nothing tracks.
fn untracked(origin: &Origin<'_>) -> Vec<u64> {
    let ids = |bounds: &mut dyn Iterator<Item = &Bound>| {
        let untracked = bounds.filter(|bound| !bound.buffer.is_tracked());
        untracked.map(|bound| bound.buffer.id()).collect()
    };
    match origin {
        Origin::Dispatch { recorded, .. } => {
            let values = recorded.buffers.iter();
            ids(&mut values.filter_map(|(_, value)| match value {
                Value::Buffer { range, .. } => Some(range),
                Value::Bytes(..) => None,
            }))
        }
        Origin::Blit(blit) => ids(&mut blit.from.into_iter().chain([blit.to])),
    }
}

/// A copy, or a fill where it reads nothing.
#[derive(Clone, Copy)]
pub(super) struct Blit<'a> {
    pub(super) from: Option<&'a Bound>,
    pub(super) to: &'a Bound,
}

impl Blit<'_> {
    /// For example `copy of 64 bytes from `a` to `b``.
    pub(super) fn description(&self) -> String {
        let (bytes, to) = (self.to.bytes, self.to.buffer.label());
        match self.from {
            Some(from) => format!(
                "copy of {bytes} bytes from `{}` to `{to}`",
                from.buffer.label()
            ),
            None => format!("fill of {bytes} bytes of `{to}`"),
        }
    }

    /// The bytes that it touches.
    pub(super) fn footprint(&self) -> Footprint {
        let mut footprint = Footprint::default();
        let sides = [(self.from, false), (Some(self.to), true)];
        for (bound, write) in sides {
            let Some(bound) = bound else { continue };
            let site = Site {
                pc: 0,
                agent: Agent::default(),
                bytes: u32::try_from(bound.bytes).unwrap_or(u32::MAX),
                write,
            };
            let at = bound.buffer.addresses().start + bound.offset;
            footprint.add(bound.buffer.id(), at, bound.bytes, site);
        }
        footprint
    }
}
