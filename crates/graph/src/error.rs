//! Everything that can go wrong between a model description and its logits.

use crate::backend::BackendError;
use crate::kv::KvShapeError;

/// A failure to build, plan or run a graph. Each variant names the node or input and the values seen.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// A node names a weight that the model does not have.
    #[error("node {node}: weight {weight} is missing")]
    MissingWeight {
        /// Node name.
        node: String,
        /// Weight name.
        weight: String,
    },
    /// A weight does not fit the node that names it.
    #[error("node {node}: weight {weight} has shape {found:?}, expected {expected}")]
    WeightShape {
        /// Node name.
        node: String,
        /// Weight name.
        weight: String,
        /// Shape in the model.
        found: Vec<usize>,
        /// Shape the node needs.
        expected: String,
    },
    /// A weight has a type that the node cannot use.
    #[error("node {node}: weight {weight} has type {found}, expected {expected}")]
    WeightType {
        /// Node name.
        node: String,
        /// Weight name.
        weight: String,
        /// Type in the model.
        found: String,
        /// What the node needs.
        expected: String,
    },
    /// An input of a node has the wrong shape or element type.
    #[error("node {node} ({op}): input {input} is {found}, expected {expected}")]
    InputShape {
        /// Node name.
        node: String,
        /// Operation.
        op: &'static str,
        /// Name of the input's node.
        input: String,
        /// Type and shape of the input.
        found: String,
        /// Type and shape the operation needs.
        expected: String,
    },
    /// A parameter of a node is invalid.
    #[error("node {node} ({op}): {reason}")]
    Parameter {
        /// Node name.
        node: String,
        /// Operation.
        op: &'static str,
        /// The rule and the values that break it.
        reason: String,
    },
    /// The executor has no backend of this index.
    #[error("there is no backend {index}, only {count}")]
    NoBackend {
        /// The index.
        index: usize,
        /// Number of backends.
        count: usize,
    },
    /// No backend accepts a node.
    #[error("node {node} ({op}{weights}) cannot be placed: {refusals}")]
    Unplaced {
        /// Node name.
        node: String,
        /// Operation.
        op: &'static str,
        /// The node's weights with their types, or nothing.
        weights: String,
        /// Each backend with its reason.
        refusals: String,
    },
    /// A layer's KV region cannot be made or used.
    #[error("KV region of layer {layer}: {reason}")]
    Kv {
        /// The layer.
        layer: usize,
        /// The rule and the values that break it.
        reason: String,
    },
    /// A layer's KV region cannot have its shape.
    #[error("KV region of layer {layer}: {source}")]
    KvShape {
        /// The layer.
        layer: usize,
        /// The rule and the values that break it.
        source: KvShapeError,
    },
    /// Rows that a KV region does not have.
    #[error("KV region of layer {layer}: cells {first}..{end} of {cells}")]
    KvRows {
        /// The layer.
        layer: usize,
        /// First cell.
        first: usize,
        /// Behind the last cell.
        end: usize,
        /// Cells of the region.
        cells: usize,
    },
    /// Bytes for KV rows that are not as many as the rows take.
    #[error("KV region of layer {layer}: {rows} rows take {expected} bytes, not {found}")]
    KvBytes {
        /// The layer.
        layer: usize,
        /// Rows to read or write.
        rows: usize,
        /// Bytes given.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// Keys cannot be rotated as asked.
    #[error("keys of layer {layer} cannot be rotated: {reason}")]
    KeyRope {
        /// The layer.
        layer: usize,
        /// The rule and the values that break it.
        reason: String,
    },
    /// An allocation would exceed a backend's memory budget. All sizes in bytes.
    #[error(
        "{backend}: out of memory budget: registered weights {weights} + pooled {pooled} + request \
         {request} > budget {budget} (bytes)"
    )]
    Budget {
        /// Backend name.
        backend: String,
        /// Registered weights.
        weights: u64,
        /// Buffers already allocated, KV regions included.
        pooled: u64,
        /// What was asked for.
        request: u64,
        /// The limit.
        budget: u64,
    },
    /// `run` was called with parameters that were not prepared, or whose plan was evicted.
    #[error("no prepared plan for {params}")]
    NotPrepared {
        /// The parameters.
        params: String,
    },
    /// The same parameters built two different graphs.
    #[error("the graph is not a function of its parameters {params}: {difference}")]
    UnstableTopology {
        /// The parameters.
        params: String,
        /// First difference between the cached graph and the new one.
        difference: String,
    },
    /// A graph that was not made by the builder breaks its rules.
    #[error("graph is malformed at node {node}: {reason}")]
    Malformed {
        /// Node name.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// A step has more rows than its plan was made for, or none.
    #[error("step has {rows} {what} rows, its plan holds {least} to {capacity}")]
    StepRows {
        /// `token` or `output`.
        what: &'static str,
        /// Rows of the step.
        rows: usize,
        /// Fewest rows.
        least: usize,
        /// Rows of the plan.
        capacity: usize,
    },
    /// A step has prompt rows, its plan is for generated ones.
    #[error("step has {rows} {what} rows of a prompt, its plan is for generated rows alone")]
    PromptRows {
        /// `token` or `output`.
        what: &'static str,
        /// Prompt rows of the step.
        rows: usize,
    },
    /// A step input has the wrong number of elements.
    #[error("step input {input} has {found} elements, expected {expected}")]
    InputLength {
        /// Name of the input's node.
        input: String,
        /// Elements given.
        found: usize,
        /// Elements needed.
        expected: usize,
    },
    /// A step input holds a value out of range.
    #[error("step input {input}, row {row}: {value} {reason}")]
    InputValue {
        /// Name of the input's node.
        input: &'static str,
        /// Row of the value.
        row: usize,
        /// The value.
        value: String,
        /// Why it is refused.
        reason: String,
    },
    /// A backend failed.
    #[error("{context}: {source}")]
    Backend {
        /// The node or the activity.
        context: String,
        /// The backend's own error.
        source: BackendError,
    },
}

impl GraphError {
    /// For `map_err`: adds what was being done. The context is made only when there is an error.
    pub(crate) fn backend<S: Into<String>>(
        context: impl FnOnce() -> S,
    ) -> impl FnOnce(BackendError) -> GraphError {
        |source| GraphError::Backend {
            context: context().into(),
            source,
        }
    }
}
