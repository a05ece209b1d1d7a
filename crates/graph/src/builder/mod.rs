//! Builds a [`Graph`] node by node and checks every shape on the way.
//!
//! Weights are named as in the GGUF file, without their suffix: `matmul(x, "attn_q")` inside
//! [`GraphBuilder::layer`]`(3)` reads `blk.3.attn_q.weight` and names the node `blk.3.attn_q`.

mod attention;
mod elementwise;
mod projection;
mod shape;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use minfer_gguf::TensorType;

use crate::error::GraphError;
use crate::ir::{DType, Graph, GraphParams, Input, Node, NodeId, Op, Rows, WeightId};
use crate::kv::KvLayout;
use crate::weights::{WeightCatalog, WeightInfo};

use shape::Shape;

pub use attention::AttentionHeads;
pub(crate) use attention::rope_refusal;

/// Builds one graph; every method appends a node and returns its id.
///
/// ```
/// use minfer_gguf::TensorType;
/// use minfer_graph::*;
///
/// let mut weights = WeightCatalog::default();
/// weights.insert("token_embd.weight", TensorType::Q8_0, &[64, 1000]);
/// weights.insert("blk.0.ffn_norm.weight", TensorType::F32, &[64]);
/// weights.insert("blk.0.ffn_up.weight", TensorType::Q4_K, &[256, 64]);
/// let params = GraphParams {
///     max_tokens: 1,
///     max_outputs: 1,
///     window: WindowLayout::Causal,
///     kv_format: KvFormat::F32,
///     generated_only: false,
///     fusion: Fusion::default(),
/// };
/// let kv = KvLayout::default();
/// let mut b = GraphBuilder::new(&weights, params, &kv);
/// let tokens = b.input(Input::Tokens)?;
/// let x = b.embed(tokens, "token_embd")?;
/// let b = &mut b.layer(0);
/// let x = b.rms_norm(x, "ffn_norm", 1e-5)?;
/// let error = b.matmul(x, "ffn_up").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "node blk.0.ffn_up: weight blk.0.ffn_up.weight has shape [256, 64], expected [64, out]"
/// );
/// # Ok::<(), GraphError>(())
/// ```
pub struct GraphBuilder<'a> {
    catalog: &'a WeightCatalog,
    kv: &'a KvLayout,
    params: GraphParams,
    graph: Graph,
    prefix: String,
    inputs: HashMap<Input, NodeId>,
    weights: HashMap<String, WeightId>,
    /// How often a name was given, so that node names stay unique.
    names: HashMap<String, usize>,
}

impl<'a> GraphBuilder<'a> {
    /// A builder of an empty graph.
    pub fn new(catalog: &'a WeightCatalog, params: GraphParams, kv: &'a KvLayout) -> Self {
        GraphBuilder {
            catalog,
            kv,
            params,
            graph: Graph::default(),
            prefix: String::new(),
            inputs: HashMap::new(),
            weights: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// The parameters the graph is built for.
    pub fn params(&self) -> GraphParams {
        self.params
    }

    /// Names weights and nodes within `blk.<layer>.` until the returned scope ends.
    pub fn layer(&mut self, layer: usize) -> LayerScope<'_, 'a> {
        let outer = std::mem::replace(&mut self.prefix, format!("blk.{layer}."));
        LayerScope {
            builder: self,
            outer,
        }
    }

    /// Whether the model has a weight of this name, suffix included (`attn_q.bias`).
    pub fn has_weight(&self, name: &str) -> bool {
        self.catalog.get(&self.scoped(name)).is_some()
    }

    /// The caller's input of this kind, made at its first use. [`Input::Activations`] come from
    /// [`GraphBuilder::activations`], as their shape is the caller's.
    pub fn input(&mut self, input: Input) -> Result<NodeId, GraphError> {
        let (name, width, rows) = match input {
            Input::Tokens => ("tokens", 1, Rows::Tokens),
            Input::Positions => ("positions", 1, Rows::Tokens),
            Input::Cells => ("cells", 1, Rows::Tokens),
            Input::Window => ("window", self.params.window.input_width(), Rows::Tokens),
            Input::OutputRows => ("output_rows", 1, Rows::Outputs),
            Input::Activations(n) => {
                let name = format!("activations.{n}");
                let reason = "activations have a shape: use `activations`";
                return Err(parameter(&name, &Op::Input(input), reason.into()));
            }
        };
        if let Some(&id) = self.inputs.get(&input) {
            return Ok(id);
        }
        if width == 0 {
            let reason = "the causal layout has no window input";
            return Err(parameter(name, &Op::Input(input), reason.into()));
        }
        self.push_input(name, input, Shape::i32(width, rows))
    }

    /// The caller's `n`-th f32 input, `[width, rows]`.
    pub fn activations(&mut self, n: u32, width: usize, rows: Rows) -> Result<NodeId, GraphError> {
        let input = Input::Activations(n);
        let name = format!("activations.{n}");
        if self.inputs.contains_key(&input) {
            return Err(parameter(&name, &Op::Input(input), "defined twice".into()));
        }
        self.push_input(&name, input, Shape::f32(width, rows))
    }

    /// Marks an f32 value that the caller reads after each step.
    pub fn output(&mut self, x: NodeId) -> Result<(), GraphError> {
        let node = self.graph.node(x);
        if node.dtype != DType::F32 {
            let reason = "an output must be f32".into();
            return Err(parameter(&node.name, &node.op, reason));
        }
        if !self.graph.outputs.contains(&x) {
            self.graph.outputs.push(x);
        }
        Ok(())
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.graph
    }

    fn scoped(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn node(&self, id: NodeId) -> &Node {
        self.graph.node(id)
    }

    /// Appends a node named `name` within the scope.
    fn push(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[NodeId],
        shape: Shape,
    ) -> Result<NodeId, GraphError> {
        let Shape { width, rows, dtype } = shape;
        let name = self.scoped(name);
        if width == 0 || rows == Rows::Fixed(0) {
            return Err(parameter(&name, &op, "the value is empty".into()));
        }
        let uses = self.names.entry(name.clone()).or_insert(0);
        *uses += 1;
        let name = match *uses {
            1 => name,
            n => format!("{name}#{n}"),
        };
        let id = NodeId(self.graph.nodes.len() as u32);
        self.graph.nodes.push(Node {
            op,
            inputs: inputs.to_vec(),
            width,
            rows,
            dtype,
            name,
        });
        Ok(id)
    }

    /// Appends an input, which belongs to no scope.
    fn push_input(&mut self, name: &str, input: Input, shape: Shape) -> Result<NodeId, GraphError> {
        let scope = std::mem::take(&mut self.prefix);
        let id = self.push(name, Op::Input(input), &[], shape);
        self.prefix = scope;
        let id = id?;
        self.inputs.insert(input, id);
        Ok(id)
    }

    /// Appends an f32 node with the rows and width of `like`.
    fn push_like(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[NodeId],
        like: NodeId,
    ) -> Result<NodeId, GraphError> {
        let like = self.node(like);
        let shape = Shape::f32(like.width, like.rows);
        self.push(name, op, inputs, shape)
    }

    /// Id and description of the weight `name` within the scope.
    fn weight(&mut self, node: &str, name: &str) -> Result<(WeightId, &'a WeightInfo), GraphError> {
        let weight = self.scoped(name);
        let Some(info) = self.catalog.get(&weight) else {
            let node = self.scoped(node);
            return Err(GraphError::MissingWeight { node, weight });
        };
        let next = WeightId(self.graph.weights.len() as u32);
        let id = *self.weights.entry(weight).or_insert_with_key(|weight| {
            self.graph.weights.push(weight.clone());
            next
        });
        Ok((id, info))
    }

    /// A one-dimensional f32 weight of `len` elements: a gain, a bias, rotation factors.
    fn vector(&mut self, node: &str, name: &str, len: usize) -> Result<WeightId, GraphError> {
        let (id, info) = self.weight(node, name)?;
        if !info.fits_rank(1) || info.dim(0) != len {
            return Err(self.misshapen(node, name, info, format!("[{len}]")));
        }
        if info.ty != TensorType::F32 {
            return Err(GraphError::WeightType {
                node: self.scoped(node),
                weight: self.scoped(name),
                found: info.ty.to_string(),
                expected: "F32".into(),
            });
        }
        Ok(id)
    }

    fn misshapen(&self, node: &str, name: &str, info: &WeightInfo, expected: String) -> GraphError {
        GraphError::WeightShape {
            node: self.scoped(node),
            weight: self.scoped(name),
            found: info.shape.clone(),
            expected,
        }
    }
}

/// A [`GraphBuilder`] that names everything within one layer; ends when dropped.
pub struct LayerScope<'b, 'a> {
    builder: &'b mut GraphBuilder<'a>,
    outer: String,
}

impl<'a> Deref for LayerScope<'_, 'a> {
    type Target = GraphBuilder<'a>;

    fn deref(&self) -> &GraphBuilder<'a> {
        self.builder
    }
}

impl<'a> DerefMut for LayerScope<'_, 'a> {
    fn deref_mut(&mut self) -> &mut GraphBuilder<'a> {
        self.builder
    }
}

impl Drop for LayerScope<'_, '_> {
    fn drop(&mut self) {
        self.builder.prefix = std::mem::take(&mut self.outer);
    }
}

fn parameter(node: &str, op: &Op, reason: String) -> GraphError {
    GraphError::Parameter {
        node: node.to_owned(),
        op: op.name(),
        reason,
    }
}
