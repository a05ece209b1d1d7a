//! Errors of loading a model's description.

use minfer_graph::GraphError;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file names an architecture that no module here implements.
    #[error("architecture '{name}' is not supported; supported are {}", .supported.join(", "))]
    UnknownArchitecture {
        /// Value of `general.architecture`.
        name: String,
        /// Names of the supported architectures.
        supported: Vec<&'static str>,
    },
    /// A metadata key is missing or has the wrong type.
    #[error(transparent)]
    Metadata(#[from] minfer_gguf::Error),
    /// A metadata value that no graph can be built from.
    #[error("{key} is {value}: {reason}")]
    BadValue {
        /// The metadata key.
        key: String,
        /// Its value.
        value: String,
        /// What is expected.
        reason: &'static str,
    },
    /// The file has a tensor that the architecture does not know: it would be another model.
    #[error("tensor {tensor} is not part of architecture '{arch}'")]
    UnusedTensor {
        /// The architecture.
        arch: &'static str,
        /// Name of the tensor.
        tensor: String,
    },
    /// A tensor is missing or its shape does not fit.
    #[error(transparent)]
    Graph(#[from] GraphError),
}
