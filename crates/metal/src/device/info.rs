//! Limits and properties of a device.

/// What a device says about itself. Nothing of this is assumed anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name, for example `Apple M4 Pro`.
    pub name: String,
    /// Highest family of Apple GPUs that it belongs to, 7 for `MTLGPUFamilyApple7`; `None` for other makers'.
    pub apple_family: Option<u32>,
    /// Lanes of a simdgroup.
    pub simd_width: usize,
    /// Most threads in a threadgroup.
    pub max_threads_per_threadgroup: usize,
    /// Most threadgroup memory of a threadgroup, in bytes.
    pub max_threadgroup_memory: usize,
    /// Largest buffer, in bytes.
    pub max_buffer_bytes: usize,
    /// Whether host and device share one memory.
    pub unified_memory: bool,
    /// Bytes that the device uses without slowing down, `None` when unknown.
    pub recommended_working_set: Option<u64>,
    /// Alignment of memory shared without a copy, in bytes.
    pub page_bytes: usize,
}
