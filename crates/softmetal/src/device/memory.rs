//! Memory of buffers.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minfer_metal::device::{Buffer, BufferRange, DeviceError, StableBytes};

use crate::check::Intervals;

/// Addresses that belong to no one on each side of a buffer. A wrong index of 32 bits into floats then hits
/// nothing, rather than another buffer, and is nearest to its own wherever the system puts buffers.
const CLEARANCE: usize = 1 << 34;

/// A buffer of the software device.
#[derive(Clone)]
pub struct SoftBuffer(Arc<Inner>);

struct Inner {
    id: u64,
    label: String,
    memory: Memory,
    /// Whether the device orders its uses.
    tracked: bool,
    /// Held while kernels run and while the host copies.
    busy: Arc<Mutex<()>>,
    /// Addresses whose contents mean nothing. A dispatch with checks works on a copy: changes need the lock above.
    stale: Mutex<Intervals>,
}

enum Memory {
    Owned(Mapping),
    Shared(Arc<dyn StableBytes>),
}

impl SoftBuffer {
    pub(super) fn owned(
        id: u64,
        label: &str,
        bytes: usize,
        tracked: bool,
        busy: Arc<Mutex<()>>,
    ) -> Result<Self, DeviceError> {
        let mapping = Mapping::new(bytes).map_err(|error| DeviceError::Allocation {
            label: label.to_owned(),
            bytes,
            reason: error.to_string(),
        })?;
        let memory = Memory::Owned(mapping);
        Ok(Self::new(id, label, memory, tracked, busy))
    }

    pub(super) fn shared(
        id: u64,
        label: &str,
        memory: Arc<dyn StableBytes>,
        busy: Arc<Mutex<()>>,
    ) -> Self {
        Self::new(id, label, Memory::Shared(memory), true, busy)
    }

    fn new(id: u64, label: &str, memory: Memory, tracked: bool, busy: Arc<Mutex<()>>) -> Self {
        let label = label.to_owned();
        SoftBuffer(Arc::new(Inner {
            id,
            label,
            memory,
            tracked,
            busy,
            stale: Mutex::default(),
        }))
    }

    /// Whether it belongs to the device with this lock.
    pub(super) fn is_of(&self, busy: &Arc<Mutex<()>>) -> bool {
        Arc::ptr_eq(&self.0.busy, busy)
    }

    /// Whether kernels may write it.
    pub(super) fn is_writable(&self) -> bool {
        matches!(self.0.memory, Memory::Owned(_))
    }

    /// Whether the device orders its uses.
    pub(super) fn is_tracked(&self) -> bool {
        self.0.tracked
    }

    /// Its first byte. Only an owned buffer's may be written.
    pub(super) fn pointer(&self) -> *mut u8 {
        match &self.0.memory {
            Memory::Owned(mapping) => mapping.buffer(),
            Memory::Shared(memory) => memory.bytes().as_ptr().cast_mut(),
        }
    }

    /// Its addresses.
    pub(super) fn addresses(&self) -> Range<usize> {
        let start = self.pointer().addr();
        start..start + self.bytes()
    }

    /// Addresses without contents.
    pub(super) fn stale(&self) -> MutexGuard<'_, Intervals> {
        // The set is whole between statements.
        self.0.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A range has contents from now on.
    pub(super) fn mark_written(&self, offset: usize, bytes: usize) {
        let start = self.pointer().addr() + offset;
        self.stale().remove(start..start + bytes);
    }

    /// A range has no contents from now on.
    fn mark_stale(&self, offset: usize, bytes: usize) {
        let start = self.pointer().addr() + offset;
        self.stale().insert(start..start + bytes);
    }

    /// The same for a host that gives the range back.
    pub(super) fn discard(&self, offset: usize, bytes: usize) {
        let _busy = self.0.busy.lock();
        self.mark_stale(offset, bytes);
    }

    /// Whatever a range of another buffer lacks, this range lacks after a copy.
    pub(super) fn copy_marks(&self, offset: usize, bytes: usize, from: &SoftBuffer, first: usize) {
        let start = from.pointer().addr() + first;
        let source = start..start + bytes;
        let parts: Vec<_> = from.stale().parts(&source).collect();
        self.mark_written(offset, bytes);
        for part in parts {
            self.mark_stale(offset + (part.start - start), part.len());
        }
    }

    fn range(&self, offset: usize, bytes: usize) -> BufferRange<'_, Self> {
        BufferRange {
            buffer: self,
            offset,
            bytes,
        }
    }

    fn locked<R>(
        &self,
        offset: usize,
        bytes: usize,
        copy: impl FnOnce(*mut u8) -> R,
    ) -> Result<R, DeviceError> {
        self.range(offset, bytes).check()?;
        let _busy = self.0.busy.lock();
        Ok(copy(self.pointer().wrapping_add(offset)))
    }
}

impl Buffer for SoftBuffer {
    fn id(&self) -> u64 {
        self.0.id
    }

    fn label(&self) -> &str {
        &self.0.label
    }

    fn bytes(&self) -> usize {
        match &self.0.memory {
            Memory::Owned(mapping) => mapping.bytes,
            Memory::Shared(memory) => memory.bytes().len(),
        }
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        self.locked(offset, into.len(), |from| {
            let start = self.pointer().addr();
            let addresses = start + offset..start + offset + into.len();
            if let Some(stale) = self.stale().parts(&addresses).next() {
                return Err(DeviceError::Discarded {
                    buffer: self.label().to_owned(),
                    offset: stale.start - start,
                });
            }
            // SAFETY: the range was checked, and the lock keeps kernels and other copies away.
            unsafe { from.copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) }
            Ok(())
        })?
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<(), DeviceError> {
        if !self.is_writable() {
            let buffer = self.label().to_owned();
            return Err(DeviceError::ReadOnly { buffer });
        }
        self.locked(offset, from.len(), |to| {
            // SAFETY: as above, and the memory is the buffer's own.
            unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) }
            self.mark_written(offset, from.len());
        })
    }
}

/// Zeroed memory with clearance around.
struct Mapping {
    start: *mut u8,
    length: usize,
    bytes: usize,
}

// SAFETY: the memory is reached through `SoftBuffer` only, whose accesses a lock orders.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> std::io::Result<Self> {
        let too_large = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let used = bytes
            .checked_next_multiple_of(64 * 1024)
            .ok_or_else(too_large)?;
        let length = used.checked_add(2 * CLEARANCE).ok_or_else(too_large)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the system's choice.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let mapping = Mapping {
            start: start.cast(),
            length,
            bytes,
        };
        // SAFETY: the range lies in the mapping, which nobody else knows yet.
        let failed = unsafe {
            libc::mprotect(
                mapping.buffer().cast(),
                used,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if failed != 0 {
            return Err(std::io::Error::last_os_error());
        }
        Ok(mapping)
    }

    fn buffer(&self) -> *mut u8 {
        self.start.wrapping_add(CLEARANCE)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
