//! What a GPU says about itself.

use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSPageSize;
use objc2_metal::{MTLComputePipelineState, MTLDevice, MTLGPUFamily};

use super::library::AppleLibrary;
use super::pipeline::ApplePipeline;
use crate::device::{DeviceError, DeviceInfo};

/// Metal tells the width of a simdgroup of a pipeline only.
const PROBE: &str = "kernel void probe() {}\n";

pub(super) fn query(device: &ProtocolObject<dyn MTLDevice>) -> Result<DeviceInfo, DeviceError> {
    autoreleasepool(|_| {
        let library = AppleLibrary::compile(device, "probe.metal", PROBE)?;
        let probe = ApplePipeline::new(device, &library, "probe", &[])?;
        Ok(DeviceInfo {
            name: device.name().to_string(),
            apple_family: apple_family(device),
            simd_width: probe.metal().threadExecutionWidth(),
            max_threads_per_threadgroup: device.maxThreadsPerThreadgroup().width,
            max_threadgroup_memory: device.maxThreadgroupMemoryLength(),
            max_buffer_bytes: device.maxBufferLength(),
            unified_memory: device.hasUnifiedMemory(),
            recommended_working_set: Some(device.recommendedMaxWorkingSetSize())
                .filter(|&bytes| bytes > 0),
            page_bytes: NSPageSize(),
        })
    })
}

fn apple_family(device: &ProtocolObject<dyn MTLDevice>) -> Option<u32> {
    let families = [
        (10, MTLGPUFamily::Apple10),
        (9, MTLGPUFamily::Apple9),
        (8, MTLGPUFamily::Apple8),
        (7, MTLGPUFamily::Apple7),
        (6, MTLGPUFamily::Apple6),
        (5, MTLGPUFamily::Apple5),
        (4, MTLGPUFamily::Apple4),
    ];
    let supported = |&(_, family): &(u32, _)| device.supportsFamily(family);
    families
        .into_iter()
        .find(supported)
        .map(|(number, _)| number)
}
