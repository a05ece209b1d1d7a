//! Memory that this process may still allocate.

#[cfg(not(target_os = "macos"))]
mod linux;

/// Bytes that can be allocated without swapping or exceeding a container's limit; `None` where the
/// system does not say.
#[cfg(not(target_os = "macos"))]
pub(crate) fn available_memory() -> Option<u64> {
    linux::available_memory()
}

/// Bytes that can be allocated without swapping; `None` where the system does not say.
#[cfg(target_os = "macos")]
pub(crate) fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // No system has none: it did not say.
    Some(system.available_memory()).filter(|&bytes| bytes > 0)
}
