//! Which memory an address belongs to.

use std::ops::Range;

/// No product of a 32-bit index and a vector's size reaches so far.
const FAR: usize = 1 << 37;

/// A buffer as bound to a dispatch.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Addresses of the range that the dispatch declares.
    pub(crate) range: Range<usize>,
    /// Addresses of the whole buffer.
    pub(crate) whole: Range<usize>,
    pub(crate) label: String,
    /// Name of the kernel parameter.
    pub(crate) parameter: String,
    pub(crate) writable: bool,
    /// A copied argument: no one else sees it.
    pub(crate) constant: bool,
    /// Number of the buffer on its device.
    pub(crate) buffer: u64,
    /// Whether some binding of the dispatch may write to the buffer: only then can threads race on it.
    pub(crate) shared: bool,
}

/// Memory that only the thread itself sees, or that no one writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Private {
    /// The library's code and program-scope constants.
    pub(crate) image: Range<usize>,
    /// Function constants.
    pub(crate) thread_storage: Range<usize>,
    /// Those of them without a value, with their names.
    pub(crate) undefined: Vec<(Range<usize>, String)>,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// Nothing to check.
    Private,
    /// All bytes lie in the declared range of this binding.
    Device(usize),
    /// All bytes lie in this variable of the threadgroup.
    Threadgroup(usize),
    /// A function constant without a value.
    Undefined(usize),
    /// A write to the library's own memory.
    Constant,
    /// The stack of another thread.
    OtherThread,
    /// None of these; the nearest memory, if any is near.
    Outside(Option<Near>),
}

/// Memory close to an address that belongs to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Near {
    Device(usize),
    Threadgroup(usize),
}

/// All memory that a dispatch may touch.
#[derive(Default)]
pub(crate) struct Regions {
    pub(crate) device: Vec<Device>,
    pub(crate) private: Private,
}

impl Regions {
    /// The binding whose range holds all bytes; a writable one for a write if there are several.
    pub(crate) fn device(&self, at: usize, bytes: usize, write: bool) -> Option<usize> {
        let holds = |device: &Device| {
            let left = device.range.end.checked_sub(at);
            device.range.start <= at && left.is_some_and(|left| bytes <= left)
        };
        let mut found = None;
        for (index, device) in self
            .device
            .iter()
            .enumerate()
            .filter(|(_, device)| holds(device))
        {
            if device.writable == write {
                return Some(index);
            }
            found.get_or_insert(index);
        }
        found
    }

    /// The binding that an address most likely was computed from.
    pub(crate) fn nearest(&self, at: usize, write: bool) -> Option<usize> {
        let distance = |device: &Device| match at {
            at if at < device.range.start => device.range.start - at,
            at => at.saturating_sub(device.range.end),
        };
        let devices = self.device.iter().enumerate();
        let near =
            devices.min_by_key(|(_, device)| (distance(device), device.writable != write))?;
        (distance(near.1) < FAR).then_some(near.0)
    }

    /// The function constant without a value at an address.
    pub(crate) fn undefined(&self, at: usize) -> Option<usize> {
        self.private
            .undefined
            .iter()
            .position(|(range, _)| range.contains(&at))
    }

    /// Whether the checker has nothing to say about an address.
    pub(crate) fn is_private(&self, at: usize) -> bool {
        self.private.image.contains(&at) || self.private.thread_storage.contains(&at)
    }
}
