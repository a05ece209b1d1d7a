//! Where a model runs: on the CPU, on a Metal device, or its first layers there and the rest here.

mod accelerator;
mod choose;
mod cpu;
mod demand;
mod error;
mod gate;
mod placement;

use std::path::PathBuf;

use minfer_metal::backend::KernelChoices;
use minfer_metal::metallib::Metallib;

pub(crate) use accelerator::{Accelerator, select};
pub use accelerator::{MetalDevice, metal_devices};
pub(crate) use choose::{Situation, Wish};
pub use choose::{Spread, spread};
pub use cpu::CpuDevice;
pub(crate) use demand::weights_of;
pub use error::OffloadError;
pub(crate) use gate::refused_node;
pub use placement::Placement;

/// What a model is to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Metal on Apple's systems where there is a device that can run the model, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The system's GPU through Metal.
    Metal,
    /// The software Metal device, in programs built with the feature `softmetal`.
    SoftMetal,
}

impl DeviceChoice {
    /// All choices.
    pub const ALL: [DeviceChoice; 4] = [
        DeviceChoice::Auto,
        DeviceChoice::Cpu,
        DeviceChoice::Metal,
        DeviceChoice::SoftMetal,
    ];

    /// As it is spelled on the command line.
    pub fn name(self) -> &'static str {
        match self {
            DeviceChoice::Auto => "auto",
            DeviceChoice::Cpu => "cpu",
            DeviceChoice::Metal => "metal",
            DeviceChoice::SoftMetal => "soft-metal",
        }
    }

    /// The choice of this name.
    ///
    /// # Errors
    /// The accepted names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|choice| choice.name() == name)
            .ok_or_else(|| "auto, cpu, metal or soft-metal".to_owned())
    }
}

/// How a Metal device is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetalSettings {
    /// Do as if the system had no Metal device.
    pub disabled: bool,
    /// Copy weights that the device could share with the host.
    pub copy_weights: bool,
    /// Most bytes to use on the device; what it recommends when absent.
    pub memory: Option<u64>,
    /// Kernels to use where several can.
    pub kernels: KernelChoices,
    /// Log each dispatch.
    pub trace: bool,
    /// Where to write a GPU trace for Xcode; Apple's devices only.
    pub capture: Option<PathBuf>,
    /// Where compiled kernels are from; Apple's devices only.
    pub metallib: Metallib,
    /// Folder in which the software device keeps compiled kernels; absent, it compiles them at each load. Code is
    /// loaded from there: it must not be writable by others.
    pub kernel_cache: Option<PathBuf>,
}

impl MetalSettings {
    /// Whether something is set that would be dropped without a GPU.
    fn needs_gpu(&self) -> bool {
        self.capture.is_some() || (self.metallib != Metallib::default() && !self.disabled)
    }

    /// The same for who only looks at a device: a GPU trace of nothing would be in the way of the next one.
    pub(crate) fn without_capture(&self) -> Self {
        MetalSettings {
            capture: None,
            ..self.clone()
        }
    }
}
