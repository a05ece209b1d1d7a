//! A Metal device as a graph backend.

mod attend;
mod buffers;
mod call;
mod check;
mod choices;
mod commands;
mod error;
mod execute;
mod region;
mod rotations;
mod scratch;
mod weights;

use std::time::Duration;

use minfer_gguf::Tensor;
use minfer_graph::{
    Backend, BackendError, BufferId, Graph, GraphParams, KeyRope, KvFormat, KvRegion, Node, Op,
    Rotation, RowCopy, Task, WindowLayout,
};

use crate::device::{Buffer, Device};
use buffers::{Buffers, Pending};
pub use choices::KernelChoices;
use commands::Commands;
pub use commands::Counts;
use error::NodeError;
use rotations::Rotations;
use scratch::Scratch;
pub use weights::WeightBytes;
use weights::Weights;

/// How a [`MetalBackend`] runs.
#[derive(Clone, Debug)]
pub struct MetalOptions {
    /// Name in errors and dumps.
    pub name: String,
    /// Time that a command buffer may take.
    pub submit_limit: Duration,
    /// Copy weights that the device could share.
    pub copy_weights: bool,
    /// Kernels to use where several can.
    pub kernels: KernelChoices,
}

impl Default for MetalOptions {
    fn default() -> Self {
        MetalOptions {
            name: "metal".to_owned(),
            // A step of a model that fits into memory takes a fraction of that; more means that the GPU hangs.
            submit_limit: Duration::from_secs(10),
            copy_weights: false,
            kernels: KernelChoices::default(),
        }
    }
}

/// Runs nodes on a Metal device.
///
/// Nodes are encoded into one command buffer, with barriers where they depend on each other. It is submitted at the
/// end of a split, and before the host touches memory that encoded work uses.
pub struct MetalBackend<D: Device> {
    name: String,
    choices: KernelChoices,
    commands: Commands<D>,
    buffers: Buffers<D::Buffer>,
    weights: Weights<D::Buffer>,
    rotations: Rotations,
    scratch: Scratch,
    /// Integers of the node at hand that kernels trust, kept for its memory, and the bytes they are read as.
    indices: Vec<i32>,
    index_bytes: Vec<u8>,
}

impl<D: Device> MetalBackend<D> {
    /// A backend without weights or buffers.
    pub fn new(device: D, options: MetalOptions) -> Self {
        MetalBackend {
            name: options.name,
            choices: options.kernels,
            commands: Commands::new(device, options.submit_limit),
            buffers: Buffers::default(),
            weights: Weights::new(options.copy_weights),
            rotations: Rotations::default(),
            scratch: Scratch::default(),
            indices: Vec::new(),
            index_bytes: Vec::new(),
        }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.commands.device
    }

    /// What was encoded since the last [`MetalBackend::reset_counts`].
    pub fn counts(&self) -> Counts {
        self.commands.counts()
    }

    /// Bytes of the registered weights that have kernels.
    pub fn weight_bytes(&self) -> WeightBytes {
        self.weights.bytes()
    }

    /// Counts from zero.
    pub fn reset_counts(&mut self) {
        self.commands.reset_counts();
    }

    fn named<T>(&self, result: Result<T, impl Into<NodeError>>) -> Result<T, BackendError> {
        result.map_err(|error| BackendError {
            backend: self.name.clone(),
            message: error.into().to_string(),
        })
    }

    /// Runs what is encoded. Afterwards the host may access all memory.
    fn submit(&mut self) -> Result<(), NodeError> {
        if self.commands.is_empty() {
            return Ok(());
        }
        let result = self.commands.submit();
        self.free_scratch();
        self.buffers.settle(&self.commands.device);
        Ok(result?)
    }

    fn write_bytes(&mut self, id: BufferId, offset: usize, data: &[u8]) -> Result<(), NodeError> {
        if self.buffers.pending(id)? != Pending::Nothing {
            self.submit()?;
        }
        let range = self.buffers.range(id, offset, data.len())?;
        Ok(range.buffer.write(offset, data)?)
    }

    fn read_bytes(
        &mut self,
        id: BufferId,
        offset: usize,
        data: &mut [u8],
    ) -> Result<(), NodeError> {
        if self.buffers.pending(id)? == Pending::Writes {
            self.submit()?;
        }
        let range = self.buffers.range(id, offset, data.len())?;
        Ok(range.buffer.read(offset, data)?)
    }
}

impl<D: Device> Backend for MetalBackend<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn register_weight(&mut self, tensor: &Tensor) -> Result<(), BackendError> {
        self.rotations.clear();
        let registered = self.weights.register(&self.commands.device, tensor);
        self.named(registered)
    }

    fn supports(&self, graph: &Graph, node: &Node) -> bool {
        check::check(graph, node, &self.weights).is_ok()
    }

    fn refusal(&self, graph: &Graph, node: &Node) -> String {
        match check::check(graph, node, &self.weights) {
            Ok(()) => "supported".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    fn supports_fused(&self, graph: &Graph, node: &Node, _params: &GraphParams) -> bool {
        matches!(node.op, Op::SwiGlu) && self.supports(graph, node)
    }

    fn reads_window(&self, layout: WindowLayout) -> bool {
        match layout {
            WindowLayout::Causal | WindowLayout::Span | WindowLayout::Map => true,
        }
    }

    fn reads_kv(&self, format: KvFormat) -> bool {
        match format {
            KvFormat::F32 | KvFormat::F16 | KvFormat::Q8_0 => true,
        }
    }

    fn available_memory(&self) -> Option<u64> {
        let memory = self.device().info().recommended_working_set?;
        Some(memory.saturating_sub(self.buffers.total() as u64))
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let buffer = self.buffers.alloc(&self.commands.device, bytes);
        self.named(buffer)
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.free(&self.commands.device, buffer);
    }

    fn write(&mut self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        let written = self.write_bytes(buffer, offset, data);
        self.named(written)
    }

    fn read(
        &mut self,
        buffer: BufferId,
        offset: usize,
        data: &mut [u8],
    ) -> Result<(), BackendError> {
        let read = self.read_bytes(buffer, offset, data);
        self.named(read)
    }

    fn execute(&mut self, task: Task<'_>) -> Result<(), BackendError> {
        let encoded = self.encode(&task);
        self.named(encoded)
    }

    fn copy_rows(&mut self, region: &KvRegion, copy: RowCopy) -> Result<(), BackendError> {
        let copied = self.copy_cells(region, copy);
        self.named(copied)
    }

    fn rotate_keys(
        &mut self,
        region: &KvRegion,
        rotation: Rotation,
        rope: &KeyRope,
    ) -> Result<(), BackendError> {
        let turned = self.turn_back(region, rotation, rope);
        self.named(turned)
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        let submitted = self.submit();
        self.named(submitted)
    }
}
