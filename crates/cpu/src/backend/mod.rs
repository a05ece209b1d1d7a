//! The CPU as a graph backend.

mod buffers;
mod call;
mod check;
mod error;
mod execute;
mod fused;
mod rows;
mod weights;

use std::sync::Arc;

use minfer_gguf::Tensor;
use minfer_graph::{
    Backend, BackendError, BufferId, Graph, GraphParams, KeyRope, KvFormat, KvRegion, Node, Op,
    Rotation, RowCopy, Task, WindowLayout,
};

use crate::available_memory::available_memory;
use crate::isa::{Isa, IsaError};
use crate::{Pool, PrefillPrecision, attention, matmul, ops};
use buffers::Buffers;
use call::Call;
use weights::Weights;

/// How a [`CpuBackend`] runs. The threads are those of its pool.
#[derive(Clone, Debug, Default)]
pub struct CpuOptions {
    /// Instruction set; the best of the machine when `None`.
    pub isa: Option<Isa>,
    /// Operands of products for prompt rows, where the instruction set leaves a choice.
    pub prefill: PrefillPrecision,
    /// Name in errors and dumps; `cpu` when `None`.
    pub name: Option<String>,
}

/// Runs nodes on a thread pool, one after the other.
///
/// A row's result is the same bit for bit whatever the other rows of the step and the number of
/// threads; it does depend on the instruction set and on [`CpuOptions::prefill`].
pub struct CpuBackend {
    name: String,
    isa: Isa,
    pool: Arc<Pool>,
    buffers: Buffers,
    weights: Weights,
    scratch: Scratch,
}

/// Working memory. It grows to the largest step and stays, so that later steps allocate nothing.
struct Scratch {
    matmul: matmul::Scratch,
    attention: attention::Scratch,
    angles: ops::rope::AngleTable,
    /// Intermediate values of fused nodes.
    values: [Vec<f32>; 2],
}

impl CpuBackend {
    /// A backend without weights or buffers. Backends may share a pool; their nodes take turns.
    ///
    /// # Errors
    /// When the machine lacks the instruction set asked for.
    pub fn new(pool: Arc<Pool>, options: CpuOptions) -> Result<Self, IsaError> {
        let isa = match options.isa {
            Some(isa) => Isa::select(isa.name())?,
            None => Isa::detect(),
        };
        Ok(CpuBackend {
            name: options.name.unwrap_or_else(|| "cpu".to_owned()),
            isa,
            pool,
            buffers: Buffers::default(),
            weights: Weights::default(),
            scratch: Scratch {
                matmul: matmul::Scratch::new(options.prefill),
                attention: attention::Scratch::default(),
                angles: ops::rope::AngleTable::default(),
                values: Default::default(),
            },
        })
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    fn error(&self, message: String) -> BackendError {
        BackendError {
            backend: self.name.clone(),
            message,
        }
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn register_weight(&mut self, tensor: &Tensor) -> Result<(), BackendError> {
        let registered = self.weights.register(tensor);
        registered.map_err(|error| self.error(error.to_string()))
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
        matches!(node.op, Op::SwiGlu | Op::FusedQkv(_) | Op::FusedFfn { .. })
            && self.supports(graph, node)
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
        available_memory()
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let buffer = self.buffers.alloc(bytes);
        buffer.map_err(|error| self.error(error.to_string()))
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers.free(buffer);
    }

    fn write(&mut self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        match self.buffers.bytes_mut(buffer, offset, data.len()) {
            Ok(bytes) => {
                bytes.copy_from_slice(data);
                Ok(())
            }
            Err(error) => Err(self.error(error.to_string())),
        }
    }

    fn read(
        &mut self,
        buffer: BufferId,
        offset: usize,
        data: &mut [u8],
    ) -> Result<(), BackendError> {
        match self.buffers.bytes(buffer, offset, data.len()) {
            Ok(bytes) => {
                data.copy_from_slice(bytes);
                Ok(())
            }
            Err(error) => Err(self.error(error.to_string())),
        }
    }

    fn copy_rows(&mut self, region: &KvRegion, copy: RowCopy) -> Result<(), BackendError> {
        let copied = rows::copy(&mut self.buffers, region, copy);
        copied.map_err(|error| self.error(error.to_string()))
    }

    fn rotate_keys(
        &mut self,
        region: &KvRegion,
        rotation: Rotation,
        rope: &KeyRope,
    ) -> Result<(), BackendError> {
        let turned = self.turn_back(region, rotation, rope);
        turned.map_err(|error| self.error(error.to_string()))
    }

    fn execute(&mut self, task: Task<'_>) -> Result<(), BackendError> {
        let result = check::check(task.graph, task.node, &self.weights)
            .and_then(|()| Call::new(task, &mut self.buffers, &self.weights))
            .and_then(|call| execute::run(self.isa, &self.pool, &call, &mut self.scratch));
        result.map_err(|error| self.error(error.to_string()))
    }
}
