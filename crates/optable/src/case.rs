//! One node with everything it reads.

use minfer_gguf::Tensor;
use minfer_graph::{DType, Graph, Input, KvShape, Node, NodeId, Op, Rows};

use crate::limit::Limit;

/// An input of the node, row after row.
#[derive(Clone, Debug)]
pub enum Value {
    /// Activations `[width, n]`.
    F32 {
        /// Features per row.
        width: usize,
        /// Rows it has in the graph.
        rows: Rows,
        /// `width` values for each row.
        data: Vec<f32>,
    },
    /// Ids, positions, cells or windows `[width, n]`.
    I32 {
        /// Values per row.
        width: usize,
        /// Rows it has in the graph.
        rows: Rows,
        /// `width` values for each row.
        data: Vec<i32>,
    },
    /// The KV store that the node must follow; its value is never read.
    Stored {
        /// Features of a key.
        width: usize,
    },
}

impl Value {
    /// Features per row.
    pub fn width(&self) -> usize {
        match self {
            Value::F32 { width, .. } | Value::I32 { width, .. } | Value::Stored { width } => *width,
        }
    }

    /// Rows in the graph.
    pub fn rows(&self) -> Rows {
        match self {
            Value::F32 { rows, .. } | Value::I32 { rows, .. } => *rows,
            Value::Stored { .. } => Rows::Tokens,
        }
    }

    /// Rows that there is data for.
    pub fn count(&self) -> usize {
        match self {
            Value::F32 { width, data, .. } => data.len() / width,
            Value::I32 { width, data, .. } => data.len() / width,
            Value::Stored { .. } => 0,
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Value::I32 { .. } => DType::I32,
            Value::F32 { .. } | Value::Stored { .. } => DType::F32,
        }
    }

    /// The f32 values of row `r`.
    ///
    /// # Panics
    /// For an input of another type.
    pub fn f32_row(&self, r: usize) -> &[f32] {
        match self {
            Value::F32 { width, data, .. } => &data[r * width..][..*width],
            _ => panic!("not an activation"),
        }
    }

    /// The i32 values of row `r`.
    ///
    /// # Panics
    /// For an input of another type.
    pub fn i32_row(&self, r: usize) -> &[i32] {
        match self {
            Value::I32 { width, data, .. } => &data[r * width..][..*width],
            _ => panic!("not an integer input"),
        }
    }

    /// Row `r` as it lies in a buffer.
    pub fn row_bytes(&self, r: usize) -> Vec<u8> {
        match self {
            Value::F32 { .. } => self
                .f32_row(r)
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect(),
            Value::I32 { .. } => self
                .i32_row(r)
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect(),
            Value::Stored { width } => vec![0; 4 * width],
        }
    }
}

/// The KV region of layer 0 before the node runs.
#[derive(Clone, Debug)]
pub struct Region {
    /// Shape of keys and of values.
    pub shape: KvShape,
    /// Encoded keys.
    pub keys: Vec<u8>,
    /// Encoded values.
    pub values: Vec<u8>,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Case {
    /// What distinguishes this case from others of its operation: type, shape, format, window.
    pub detail: String,
    /// The operation; weight ids index `weights`.
    pub op: Op,
    /// Features of the value.
    pub width: usize,
    /// Rows of the value.
    pub rows: Rows,
    /// Rows the value has in this case.
    pub count: usize,
    /// Inputs in the operation's order.
    pub inputs: Vec<Value>,
    /// Weights by id.
    pub weights: Vec<Tensor>,
    /// KV region, if the operation names one.
    pub kv: Option<Region>,
    /// How far a backend may be from the exact value.
    pub limit: Limit,
}

impl Case {
    /// Name for messages: operation and detail.
    pub fn name(&self) -> String {
        format!("{} {}", self.op.name(), self.detail)
    }

    /// A graph of the inputs and the node, which comes last.
    pub fn graph(&self) -> Graph {
        let mut nodes: Vec<Node> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(i, value)| Node {
                op: Op::Input(Input::Activations(i as u32)),
                inputs: Vec::new(),
                width: value.width(),
                rows: value.rows(),
                dtype: value.dtype(),
                name: format!("input {i}"),
            })
            .collect();
        nodes.push(Node {
            op: self.op.clone(),
            inputs: (0..nodes.len() as u32).map(NodeId).collect(),
            width: self.width,
            rows: self.rows,
            dtype: DType::F32,
            name: self.name(),
        });
        Graph {
            weights: self.weights.iter().map(|w| w.name.clone()).collect(),
            outputs: vec![NodeId(self.inputs.len() as u32)],
            nodes,
        }
    }
}
