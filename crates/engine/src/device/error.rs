//! Why a model does not run where it was asked to.

use minfer_gguf::TensorType;

/// A device that cannot run what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// There is no such device.
    #[error("there is no device {device}: {reason}")]
    Missing {
        /// Its name.
        device: &'static str,
        /// Why not.
        reason: String,
    },
    /// A weight has a type without kernels.
    #[error("{device} has no kernels for {tensor}, which is {ty} {shape:?}")]
    Weight {
        /// The device.
        device: &'static str,
        /// The first such weight of the graph.
        tensor: String,
        /// Its type.
        ty: TensorType,
        /// Its shape, innermost dimension first.
        shape: Vec<usize>,
    },
    /// An operation has no kernel for its shape.
    #[error("{device} cannot run {node} ({op}): {reason}")]
    Node {
        /// The device.
        device: &'static str,
        /// The first such node of the graph.
        node: String,
        /// Its operation.
        op: &'static str,
        /// Why not.
        reason: String,
    },
    /// The layers asked for need more memory than the device has.
    #[error(
        "{layers} of {of} layers need {} bytes on {device} ({weights} of weights, {kv} of KV cache, {buffers} of \
         buffers), but only {available} are available: at most {fit} layers fit",
        weights.saturating_add(*kv).saturating_add(*buffers)
    )]
    Memory {
        /// The device.
        device: &'static str,
        /// Layers asked for.
        layers: usize,
        /// Layers of the model.
        of: usize,
        /// Bytes of their weights.
        weights: u64,
        /// Bytes of their KV cache.
        kv: u64,
        /// Bytes of activations.
        buffers: u64,
        /// Bytes available.
        available: u64,
        /// The most layers that fit.
        fit: usize,
    },
}
