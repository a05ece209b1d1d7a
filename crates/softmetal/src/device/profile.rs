//! Machines whose limits kernels are held to.

use minfer_metal::device::DeviceInfo;

/// A machine. Limits from Apple's Metal feature set tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Apple M1, family Apple7.
    M1,
    /// Apple M4 Pro, family Apple9.
    M4Pro,
}

impl Profile {
    /// What the device says about itself.
    pub fn info(self) -> DeviceInfo {
        const GIB: u64 = 1 << 30;
        let (name, family, memory) = match self {
            Profile::M1 => ("software device (Apple M1)", 7, 8 * GIB),
            Profile::M4Pro => ("software device (Apple M4 Pro)", 9, 24 * GIB),
        };
        DeviceInfo {
            name: name.to_owned(),
            apple_family: Some(family),
            simd_width: 32,
            max_threads_per_threadgroup: 1024,
            max_threadgroup_memory: 32 * 1024,
            max_buffer_bytes: (memory / 2) as usize,
            unified_memory: true,
            // Two thirds of the memory on machines of this size.
            recommended_working_set: Some(memory / 3 * 2),
            page_bytes: 16 * 1024,
        }
    }
}
