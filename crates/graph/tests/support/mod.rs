//! A scalar f32 backend with switches for what it refuses, and builders of small models.
#![allow(dead_code)]

mod model;
mod ops;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    Backend, BackendError, BufferId, DeviceWork, Graph, GraphParams, KvFormat, Node, Op, Operand,
    Task, WindowLayout,
};

pub use model::*;

/// What a backend that enqueues does, shared with the test.
#[derive(Default)]
pub struct Queue {
    /// Copies of values that were not given back.
    pub kept: Vec<u32>,
    /// Whether nodes wait for a submission.
    pub pending: bool,
    pub abandoned: usize,
    pub work: DeviceWork,
}

/// Time that a submission takes, as far as the mock says.
pub const WAIT: Duration = Duration::from_secs(3);

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
    /// Makes it a backend that enqueues.
    pub queue: Option<Arc<Mutex<Queue>>>,
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
            queue: None,
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

    pub fn enqueuing(name: &'static str) -> (Self, Arc<Mutex<Queue>>) {
        let queue: Arc<Mutex<Queue>> = Arc::default();
        let mut mock = Mock::new(name);
        mock.queue = Some(Arc::clone(&queue));
        (mock, queue)
    }

    fn queue(&self) -> Option<MutexGuard<'_, Queue>> {
        self.queue.as_ref().map(|queue| queue.lock().unwrap())
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
        if let Some(mut queue) = self.queue() {
            queue.kept.retain(|kept| *kept != buffer.0);
        }
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
        if let Some(queue) = self.queue() {
            assert!(!queue.pending, "a read makes the host wait");
        }
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
        if let Some(mut queue) = self.queue() {
            queue.pending = true;
            queue.work.dispatches += 1;
        }
        self.compute(task)
    }

    fn capture(&mut self, value: Operand) -> Result<Option<BufferId>, BackendError> {
        if self.queue.is_none() {
            return Ok(None);
        }
        let rows = 0..value.rows.total();
        let row = |row| (0..value.width).map(move |feature| (row, feature));
        let words = rows
            .flat_map(row)
            .map(|(row, feature)| self.bits(&value, feature, row));
        let words = words.collect();
        self.buffers.push(words);
        let buffer = self.buffers.len() as u32 - 1;
        self.queue().unwrap().kept.push(buffer);
        Ok(Some(BufferId(buffer)))
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        if let Some(mut queue) = self.queue() {
            queue.pending = false;
            queue.work.submits += 1;
            queue.work.waited += WAIT;
        }
        Ok(())
    }

    fn abandon(&mut self) {
        if let Some(mut queue) = self.queue() {
            queue.abandoned += 1;
            queue.pending = false;
        }
    }

    fn device_work(&self) -> Option<DeviceWork> {
        self.queue().map(|queue| queue.work)
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
