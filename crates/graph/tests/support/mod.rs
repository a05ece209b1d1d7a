//! A scalar f32 backend with switches for what it refuses, and builders of small models.
#![allow(dead_code)]

mod model;
mod ops;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, BackendError, BufferId, Graph, GraphParams, KvFormat, Node, Op, Operand, Task,
    WindowLayout,
};

pub use model::*;

/// Names of executed nodes, shared with the test.
pub type Log = Arc<Mutex<Vec<String>>>;

pub struct Mock {
    pub name: &'static str,
    /// Whether to refuse a node.
    pub refuses: fn(&Node) -> bool,
    /// Whether it gains from a fused node.
    pub fuses: fn(&Node, &GraphParams) -> bool,
    /// Layouts it reads beside the causal one.
    pub windows: &'static [WindowLayout],
    pub memory: Option<u64>,
    /// Fails when it runs the node of this name.
    pub broken: Option<&'static str>,
    pub log: Option<Log>,
    weights: HashMap<String, Vec<f32>>,
    /// 4-byte words.
    buffers: Vec<Vec<u32>>,
    scores: Vec<f32>,
}

impl Mock {
    pub fn new(name: &'static str) -> Self {
        Mock {
            name,
            refuses: |_| false,
            fuses: |_, _| false,
            windows: &[WindowLayout::Span, WindowLayout::Map],
            memory: None,
            broken: None,
            log: None,
            weights: HashMap::new(),
            buffers: Vec::new(),
            scores: Vec::with_capacity(256),
        }
    }

    pub fn logging(name: &'static str) -> (Self, Log) {
        let log = Log::default();
        let mut mock = Mock::new(name);
        mock.log = Some(log.clone());
        (mock, log)
    }

    pub fn boxed(self) -> Box<dyn Backend> {
        Box::new(self)
    }

    fn error(&self, message: impl Into<String>) -> BackendError {
        BackendError {
            backend: self.name.into(),
            message: message.into(),
        }
    }

    fn bits(&self, x: &Operand, feature: usize, row: usize) -> u32 {
        assert!(feature < x.width && row < x.rows.total());
        self.buffers[x.buffer.0 as usize][x.offset + row * x.stride + feature]
    }

    fn get(&self, x: &Operand, feature: usize, row: usize) -> f32 {
        f32::from_bits(self.bits(x, feature, row))
    }

    fn index(&self, x: &Operand, row: usize) -> usize {
        self.bits(x, 0, row) as usize
    }

    fn set(&mut self, y: &Operand, feature: usize, row: usize, value: f32) {
        assert!(feature < y.width && row < y.rows.total());
        self.buffers[y.buffer.0 as usize][y.offset + row * y.stride + feature] = value.to_bits();
    }
}

impl Backend for Mock {
    fn name(&self) -> &str {
        self.name
    }

    fn register_weight(&mut self, tensor: &Tensor) -> Result<(), BackendError> {
        if tensor.ty != TensorType::F32 {
            return Err(self.error(format!("{} is {}", tensor.name, tensor.ty)));
        }
        let words = tensor.bytes.chunks_exact(4);
        let values = words.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        self.weights.insert(tensor.name.clone(), values.collect());
        Ok(())
    }

    fn supports(&self, graph: &Graph, node: &Node) -> bool {
        let mut weights = node.op.weights().into_iter();
        let known = weights.all(|id| self.weights.contains_key(graph.weight_name(id)));
        known && !(self.refuses)(node)
    }

    fn refusal(&self, _graph: &Graph, node: &Node) -> String {
        format!("no kernel for {}", node.op.name())
    }

    fn supports_fused(&self, _graph: &Graph, node: &Node, params: &GraphParams) -> bool {
        (self.fuses)(node, params)
    }

    fn reads_window(&self, layout: WindowLayout) -> bool {
        layout == WindowLayout::Causal || self.windows.contains(&layout)
    }

    fn reads_kv(&self, format: KvFormat) -> bool {
        format == KvFormat::F32
    }

    fn available_memory(&self) -> Option<u64> {
        self.memory
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        self.buffers.push(vec![0; bytes.div_ceil(4)]);
        Ok(BufferId(self.buffers.len() as u32 - 1))
    }

    fn free(&mut self, buffer: BufferId) {
        self.buffers[buffer.0 as usize] = Vec::new();
    }

    fn write(&mut self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), BackendError> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.buffers[buffer.0 as usize]);
        bytes[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn read(
        &mut self,
        buffer: BufferId,
        offset: usize,
        data: &mut [u8],
    ) -> Result<(), BackendError> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.buffers[buffer.0 as usize]);
        data.copy_from_slice(&bytes[offset..offset + data.len()]);
        Ok(())
    }

    fn execute(&mut self, task: Task<'_>) -> Result<(), BackendError> {
        assert!(task.output.rows.total() > 0, "a node without rows ran");
        assert!(!matches!(task.node.op, Op::Input(_) | Op::View { .. }));
        if self.broken == Some(task.node.name.as_str()) {
            return Err(self.error("broken on purpose"));
        }
        if let Some(log) = &self.log {
            log.lock().unwrap().push(task.node.name.clone());
        }
        self.compute(task)
    }
}

/// An f32 weight.
pub fn tensor(name: &str, shape: &[usize], values: &[f32]) -> Tensor {
    assert_eq!(shape.iter().product::<usize>(), values.len(), "{name}");
    Tensor {
        name: name.into(),
        ty: TensorType::F32,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
    }
}
