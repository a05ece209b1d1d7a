//! A Metal device as a graph backend.

mod attend;
mod buffers;
mod call;
mod capture;
mod check;
mod choices;
mod commands;
mod error;
mod execute;
mod region;
mod rotations;
mod scratch;
mod touch;
mod weights;

use std::time::Duration;

use minfer_gguf::Tensor;
use minfer_graph::{
    Backend, BackendError, BufferId, DeviceWork, Graph, GraphParams, KeyRope, KvFormat, KvRegion,
    Node, Op, Operand, Rotation, RowCopy, Task, WindowLayout,
};

use crate::device::{Buffer, Device};
use buffers::{Buffers, Pending};
pub use choices::KernelChoices;
use commands::Commands;
pub use commands::Counts;
use error::NodeError;
use rotations::Rotations;
use scratch::Scratch;
use weights::Weights;
pub use weights::{Sharing, WeightBytes, reads_weight};

/// How a [`MetalBackend`] runs.
#[derive(Clone, Debug)]
pub struct MetalOptions {
    /// Name in errors and dumps.
    pub name: String,
    /// Time that a command buffer may take.
    pub submit_limit: Duration,
    /// How weights come to the device.
    pub sharing: Sharing,
    /// Kernels to use where several can.
    pub kernels: KernelChoices,
    /// Let the device read a word of every page of shared weights when all are registered, so that the first step
    /// need not wait for the system to map them. For devices that map pages at first use.
    pub touch_weights: bool,
    /// Log each dispatch (label, kernel and grid; target `minfer::dispatch`), and name kernel and grid in the labels
    /// that the device's errors list.
    pub trace: bool,
}

impl Default for MetalOptions {
    fn default() -> Self {
        MetalOptions {
            name: "metal".to_owned(),
            // A step of a model that fits into memory takes a fraction of that; more means that the GPU hangs.
            submit_limit: Duration::from_secs(10),
            sharing: Sharing::default(),
            kernels: KernelChoices::default(),
            touch_weights: false,
            trace: false,
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
    touch_weights: bool,
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
            commands: Commands::new(device, options.submit_limit, options.trace),
            buffers: Buffers::default(),
            weights: Weights::new(options.sharing),
            rotations: Rotations::default(),
            scratch: Scratch::default(),
            touch_weights: options.touch_weights,
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

    /// Runs what is encoded. Afterwards the host may access all memory; after an error, what encoded work uses is out
    /// of reach until [`Backend::abandon`].
    fn submit(&mut self) -> Result<(), NodeError> {
        if self.commands.is_empty() {
            return Ok(());
        }
        self.commands.submit()?;
        self.settle();
        Ok(())
    }

    /// Nothing is encoded any more.
    fn settle(&mut self) {
        self.free_scratch();
        self.buffers.settle(&self.commands.device);
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

    fn supports_fused(&self, graph: &Graph, node: &Node, params: &GraphParams) -> bool {
        // The other fused nodes have kernels for generated rows.
        let gains = params.generated_only || node.op == Op::SwiGlu;
        gains && self.supports(graph, node)
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
        let used = self.buffers.total().saturating_add(self.weights.held());
        Some(memory.saturating_sub(used as u64))
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

    fn capture(&mut self, value: Operand) -> Result<Option<BufferId>, BackendError> {
        let copy = self.copy_aside(&value);
        self.named(copy.map(Some))
    }

    fn abandon(&mut self) {
        self.commands.abandon();
        self.settle();
    }

    fn warm_up(&mut self) -> Result<(), BackendError> {
        let warmed = match self.touch_weights {
            true => self.touch_pages(),
            false => Ok(()),
        };
        self.named(warmed)
    }

    fn device_work(&self) -> Option<DeviceWork> {
        let counts = self.commands.counts();
        Some(DeviceWork {
            dispatches: counts.dispatches as u64,
            barriers: counts.barriers as u64,
            copies: counts.copies as u64,
            submits: counts.submits as u64,
            waited: self.commands.waited(),
        })
    }
}
