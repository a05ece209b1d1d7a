//! Why a node cannot run.

use minfer_gguf::TensorType;
use minfer_graph::{BufferId, KvShapeError, Operand};

use crate::device::DeviceError;
use crate::ops::OpError;

#[derive(Debug, thiserror::Error)]
pub(super) enum NodeError {
    #[error(transparent)]
    Op(#[from] OpError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{op} has no kernel here: {why}")]
    Unsupported { op: &'static str, why: &'static str },
    #[error("weight id {0} is not in the graph")]
    WeightId(u32),
    #[error("weight `{0}` is not registered")]
    NoWeight(String),
    #[error("weight `{name}` has shape {shape:?}, {expected} is needed")]
    WeightShape {
        name: String,
        shape: Vec<usize>,
        expected: String,
    },
    #[error("weight `{name}` has type {ty}, for which {op} has no kernel")]
    WeightType {
        name: String,
        ty: TensorType,
        op: &'static str,
    },
    #[error("weight `{name}` of shape {shape:?} and type {ty} has {found} bytes")]
    WeightBytes {
        name: String,
        shape: Vec<usize>,
        ty: TensorType,
        found: usize,
    },
    #[error("{what} is {found}, {expected} is needed")]
    Value {
        what: &'static str,
        found: String,
        expected: String,
    },
    #[error("input {input} at {found:?} overlaps the output at {output:?}")]
    Overlap {
        input: usize,
        found: Operand,
        output: Operand,
    },
    #[error("{0:?} does not exist")]
    NoBuffer(BufferId),
    #[error("bytes {offset}..+{bytes} are outside {buffer:?} of {size} bytes")]
    Range {
        buffer: BufferId,
        offset: usize,
        bytes: usize,
        size: usize,
    },
    #[error("rows overlap in {0:?}")]
    Rows(Operand),
    #[error("KV region: {0}")]
    Shape(#[from] KvShapeError),
    #[error("has no table of its rotation")]
    NoTable,
    #[error("names a KV region but has none")]
    NoRegion,
}

impl NodeError {
    pub(super) fn value(what: &'static str, found: impl ToString, expected: impl ToString) -> Self {
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
    found: impl ToString,
    expected: impl ToString,
) -> Result<(), NodeError> {
    match ok {
        true => Ok(()),
        false => Err(NodeError::value(what, found, expected)),
    }
}
