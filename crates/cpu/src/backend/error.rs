//! Why a node cannot run.

use minfer_graph::{KvShapeError, Operand};

use super::buffers::BufferError;
use super::weights::WeightError;
use crate::attention::WindowError;
use crate::matmul::MatmulError;
use crate::ops::embed::IndexError;

#[derive(Debug, thiserror::Error)]
pub(super) enum NodeError {
    #[error(transparent)]
    Weight(#[from] WeightError),
    #[error(transparent)]
    Buffer(#[from] BufferError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Window(#[from] WindowError),
    #[error(transparent)]
    Matmul(#[from] MatmulError),
    #[error("{op} has no kernel here: {why}")]
    Unsupported { op: &'static str, why: &'static str },
    #[error("has {found} inputs, {expected} are needed")]
    Arity { found: usize, expected: String },
    #[error("input {input} does not exist in the graph")]
    Dangling { input: usize },
    #[error("{what} is {found}, {expected} is needed")]
    Value {
        what: &'static str,
        found: String,
        expected: String,
    },
    #[error("input {input} at {found:?} does not match the graph: width {width}, {rows} rows")]
    Operand {
        input: usize,
        found: Operand,
        width: usize,
        rows: usize,
    },
    #[error("input {input} at {found:?} overlaps the output at {output:?}")]
    Overlap {
        input: usize,
        found: Operand,
        output: Operand,
    },
    #[error("KV region: {0}")]
    Shape(#[from] KvShapeError),
    #[error("names a KV region but has none")]
    NoRegion,
    #[error("stores row {row} to cell {cell}, the region has {cells} cells")]
    Cell { row: usize, cell: i32, cells: usize },
}

impl NodeError {
    /// The refusal of [`minfer_graph::Op::FusedMatMul`].
    pub(super) fn product() -> Self {
        NodeError::Unsupported {
            op: "FusedMatMul",
            why: "its parts are as fast",
        }
    }

    pub(super) fn value(
        what: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        NodeError::Value {
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}

/// Refuses unless `ok`.
pub(super) fn require(
    ok: bool,
    what: &'static str,
    found: impl std::fmt::Display,
    expected: impl std::fmt::Display,
) -> Result<(), NodeError> {
    match ok {
        true => Ok(()),
        false => Err(NodeError::value(what, found, expected)),
    }
}
