//! What a device must offer to run part of a graph.

use std::time::Duration;

use minfer_gguf::Tensor;

use crate::arena::{Rotation, RowCopy};
use crate::host_copy::copy_through_host;
use crate::ir::{Graph, GraphParams, Node, Rows, WindowLayout};
use crate::kv::{KeyRope, KvFormat, KvShape};

/// A backend's buffer; meaningless to any other backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferId(pub u32);

/// Why a backend could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[error("{backend}: {message}")]
pub struct BackendError {
    /// Name of the backend.
    pub backend: String,
    /// What failed, with the tensor and the observed values. The executor adds the node.
    pub message: String,
}

/// Rows of a step, prompt rows first.
///
/// A row's arithmetic depends on its role alone, never on its neighbours: prompt rows get the prefill
/// kernels even in a chunk of one, generated rows the decode kernels even beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCount {
    /// Leading rows that belong to a prompt.
    pub prompt: usize,
    /// Following rows that were generated or drafted.
    pub generated: usize,
}

impl RowCount {
    /// All rows.
    pub fn total(self) -> usize {
        self.prompt + self.generated
    }
}

/// Row counts of one step, for each symbolic [`Rows`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepRows {
    /// Rows of [`Rows::Tokens`] nodes.
    pub tokens: RowCount,
    /// Rows of [`Rows::Outputs`] nodes.
    pub outputs: RowCount,
}

impl StepRows {
    /// Rows of a node in this step. Fixed rows count as prompt rows.
    pub fn of(self, rows: Rows) -> RowCount {
        match rows {
            Rows::Tokens => self.tokens,
            Rows::Outputs => self.outputs,
            Rows::Fixed(n) => RowCount {
                prompt: n,
                generated: 0,
            },
        }
    }
}

/// A `[width, rows]` value inside a buffer. Feature `i` of row `r` is element
/// `offset + r * stride + i`; elements are 4 bytes wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    /// Buffer of the executing backend.
    pub buffer: BufferId,
    /// First element.
    pub offset: usize,
    /// Features per row.
    pub width: usize,
    /// Elements between the starts of two rows.
    pub stride: usize,
    /// Rows in this step: the logical count, never the buffer's capacity.
    pub rows: RowCount,
}

/// A layer's KV region on one backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRegion {
    /// Shape of keys and of values.
    pub shape: KvShape,
    /// Buffer of `cells` keys.
    pub keys: BufferId,
    /// Buffer of `cells` values.
    pub values: BufferId,
}

/// One node ready to run.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The graph, for weight names.
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    /// Where the value goes. Equal to `inputs[0]` when the operation runs in place, which only those of
    /// [`crate::Op::runs_in_place`] do, and always for a KV store, whose value is its first input.
    pub output: Operand,
    /// The node's inputs, in its order.
    pub inputs: &'a [Operand],
    /// The KV region of the layer that the operation names, if it names one.
    pub kv: Option<KvRegion>,
}

/// What a backend has enqueued and waited for, of the kinds of work that GPUs know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceWork {
    /// Kernels.
    pub dispatches: u64,
    /// Barriers between them.
    pub barriers: u64,
    /// Copies within the device's memory.
    pub copies: u64,
    /// Submissions.
    pub submits: u64,
    /// Time that the host spent in them: handing over, running, waiting.
    pub waited: Duration,
}

/// A device that runs nodes. Methods with a body are optional.
pub trait Backend: Send {
    /// Short name, for example `cpu`.
    fn name(&self) -> &str;

    /// Makes a weight available under its name, without copying it where the device allows.
    fn register_weight(&mut self, tensor: &Tensor) -> Result<(), BackendError>;

    /// Whether this backend can run the node, with its registered weights and their types.
    fn supports(&self, graph: &Graph, node: &Node) -> bool;

    /// Optional: why [`Backend::supports`] refuses the node, for the error that names it.
    fn refusal(&self, _graph: &Graph, _node: &Node) -> String {
        "unsupported operation, weight or shape".into()
    }

    /// Optional: whether a fused node pays off here, in steps of a graph with these parameters. It must also
    /// pass [`Backend::supports`].
    fn supports_fused(&self, _graph: &Graph, _node: &Node, _params: &GraphParams) -> bool {
        false
    }

    /// Optional: window layouts the attention can read.
    fn reads_window(&self, layout: WindowLayout) -> bool {
        layout == WindowLayout::Causal
    }

    /// Optional: KV formats that the store and the attention know.
    fn reads_kv(&self, format: KvFormat) -> bool {
        format == KvFormat::F32
    }

    /// Optional: bytes of memory the device can still give; `None` when unknown, never 0 for unknown.
    fn available_memory(&self) -> Option<u64> {
        None
    }

    /// A new zeroed buffer of at least `bytes`, aligned to 64 bytes.
    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError>;

    /// Returns a buffer; its id may be given out again.
    fn free(&mut self, buffer: BufferId);

    /// Copies bytes into a buffer, before later tasks run.
    fn write(&mut self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), BackendError>;

    /// Copies bytes out of a buffer, after all earlier tasks have run.
    fn read(
        &mut self,
        buffer: BufferId,
        offset: usize,
        data: &mut [u8],
    ) -> Result<(), BackendError>;

    /// Runs or enqueues one node with at least one output row. Inputs and views are never executed.
    fn execute(&mut self, task: Task<'_>) -> Result<(), BackendError>;

    /// Optional: enqueues a copy of a value as earlier tasks leave it, into a new buffer whose rows lie one after
    /// another. The caller reads and frees it. `None` from a backend that does not enqueue: its values can be read
    /// at once.
    fn capture(&mut self, _value: Operand) -> Result<Option<BufferId>, BackendError> {
        Ok(None)
    }

    /// Optional: copies rows of a region, keys and values, as if all were read before any is written. The
    /// rows exist.
    fn copy_rows(&mut self, region: &KvRegion, copy: RowCopy) -> Result<(), BackendError> {
        copy_through_host(self, region, copy)
    }

    /// Optional: turns keys of a region back, in the region's format: pair `i` of every head by
    /// `-by * freq_scale * freq_base^(-2i / n_rot) / factor_i`, see [`crate::Rope`]. The rows exist,
    /// and the rotation fits their heads; the rest of a head, the values and the padding stay as they are.
    fn rotate_keys(
        &mut self,
        _region: &KvRegion,
        _rotation: Rotation,
        _rope: &KeyRope,
    ) -> Result<(), BackendError> {
        Err(BackendError {
            backend: self.name().to_owned(),
            message: "cannot rotate stored keys, so no context can be shifted here".to_owned(),
        })
    }

    /// Optional: waits for everything enqueued; called at the end of every split and
    /// after row edits.
    fn synchronize(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Optional: drops what is enqueued. Called after a step or an edit of rows failed, whose results nobody reads;
    /// a backend that lost enqueued work reports it until then.
    fn abandon(&mut self) {}

    /// Optional: pays in advance for what the first step would be slower by; called when all weights are registered.
    fn warm_up(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Optional: what was enqueued since the start, `None` where nothing is enqueued.
    fn device_work(&self) -> Option<DeviceWork> {
        None
    }
}
