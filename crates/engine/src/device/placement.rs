//! Which layers run where.

use std::fmt;

use minfer_graph::layer_of;

use super::DeviceChoice;

/// Which layers run on a device, and why not all. Embedding, output norm and output projection run where all layers
/// do, else on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The device; the CPU if no layer runs elsewhere.
    pub device: DeviceChoice,
    /// The device's own name, of one that is not the CPU.
    pub device_name: Option<String>,
    /// Leading layers on the device.
    pub layers: usize,
    /// Layers of the model.
    pub of: usize,
    /// Why not all layers run on a device, where that may surprise.
    pub reason: Option<String>,
}

impl Placement {
    pub(crate) fn on_cpu(of: usize, reason: Option<String>) -> Self {
        Placement {
            device: DeviceChoice::Cpu,
            device_name: None,
            layers: 0,
            of,
            reason,
        }
    }

    /// Whether the device runs anything.
    pub fn is_on_device(&self) -> bool {
        self.layers > 0
    }

    /// Whether the device runs everything.
    pub fn is_whole(&self) -> bool {
        self.is_on_device() && self.layers == self.of
    }

    /// Whether the device runs the node of this name.
    pub(crate) fn takes(&self, name: &str) -> bool {
        takes(self.layers, self.of, name)
    }
}

/// Whether the node of this name belongs on a device that runs the first `layers` of `of` layers.
pub(super) fn takes(layers: usize, of: usize, name: &str) -> bool {
    match layer_of(name) {
        Some(layer) => layer < layers,
        None => layers > 0 && layers == of,
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { layers, of, .. } = self;
        let device = self.device.name();
        match self.is_on_device() {
            false => write!(f, "all {of} layers run on the CPU")?,
            true if self.is_whole() => write!(f, "all {of} layers run on {device}")?,
            true => write!(
                f,
                "{layers} of {of} layers run on {device}, the rest on the CPU"
            )?,
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}
