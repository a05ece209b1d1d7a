//! The intermediate representation: nodes, operations and their shapes.
//!
//! An activation is an f32 matrix `[width, rows]`, feature-major: the `width` features of a row are
//! contiguous. A row is one token (or one output row). The number of rows is symbolic ([`Rows`]): a
//! graph is planned once for a capacity and executed with the step's actual counts.

mod fused;
mod params;

use std::ops::RangeInclusive;

pub use fused::{FusedMatMul, FusedQkv};
pub use params::{Fusion, GraphParams};

/// Index of a node in its [`Graph`]; execution follows this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Index of a weight name in [`Graph::weights`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub u32);

/// How many rows a node has in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rows {
    /// One per token of the step.
    Tokens,
    /// One per row whose logits are wanted.
    Outputs,
    /// The same number in every step.
    Fixed(usize),
}

/// Element type of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// Activations.
    F32,
    /// Token ids, positions, cells, windows, row indices.
    I32,
}

impl DType {
    /// Bytes per element.
    pub fn bytes(self) -> usize {
        4
    }
}

/// Runs per query in the `map` window layout.
pub const MAX_WINDOW_RUNS: usize = 4;

/// Which KV cells a query attends to. The layout is part of the topology; its values are data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowLayout {
    /// No window input: cells `0..=position`.
    Causal,
    /// One `[lo, hi)` cell range per query: an I32 input of width 2 (`lo`, `hi`).
    Span,
    /// Up to [`MAX_WINDOW_RUNS`] runs per query, in ascending position order: an I32 input of width
    /// `2 * MAX_WINDOW_RUNS` of `(first cell, length)` pairs; unused runs have length 0.
    Map,
}

impl WindowLayout {
    /// Width of the window input; 0 when there is none.
    pub fn input_width(self) -> usize {
        match self {
            WindowLayout::Causal => 0,
            WindowLayout::Span => 2,
            WindowLayout::Map => 2 * MAX_WINDOW_RUNS,
        }
    }
}

/// A value the caller supplies at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Token ids, I32 `[1, tokens]`.
    Tokens,
    /// Position of each token within its sequence, I32 `[1, tokens]`.
    Positions,
    /// KV cell each token's key and value are stored in, I32 `[1, tokens]`.
    Cells,
    /// Attention window per token, I32 `[WindowLayout::input_width, tokens]`.
    Window,
    /// Indices (into the step's tokens) of the rows whose logits are wanted, I32 `[1, outputs]`.
    OutputRows,
    /// Caller-defined f32 activations: the n-th such input, `[width, rows]`.
    Activations(u32),
}

/// Which pairs of dimensions a rotation joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// `(2i, 2i + 1)`: Llama weights as GGUF stores them.
    Interleaved,
    /// `(i, i + n_rot / 2)`: Qwen and NeoX.
    Split,
}

/// Rotary position embedding (Su et al. 2021) with the scalings GGUF files carry.
///
/// Pair `i` of `n_rot / 2` turns by `position * freq_scale * freq_base^(-2i / n_rot) / factor_i`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Pairing of dimensions.
    pub style: RopeStyle,
    /// Features per head; a row holds `width / head_dim` heads.
    pub head_dim: usize,
    /// Leading features of each head that are rotated, even.
    pub n_rot: usize,
    /// Base of the geometric frequency series.
    pub freq_base: f32,
    /// Linear position scaling; 1 for none.
    pub freq_scale: f32,
    /// Weight with `n_rot / 2` divisors of the frequencies (`rope_freqs.weight`), if any.
    pub factors: Option<WeightId>,
}

/// Grouped-query attention over a layer's KV region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Layer whose KV region is read.
    pub layer: usize,
    /// Query heads; a multiple of `n_head_kv`.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Features per head, for queries, keys and values alike.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// Which cells each query sees.
    pub window: WindowLayout,
}

/// A gain weight and the epsilon of its RMS normalization.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Gain, f32, one per normalized feature.
    pub gain: WeightId,
    /// Added to the mean square.
    pub eps: f32,
}

/// An operation. Inputs are listed in the order the node holds them.
///
/// In the formulas `x[i, r]` is feature `i` of row `r`.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// A value supplied at every step. No inputs.
    Input(Input),
    /// Features `offset .. offset + width` of each input row, without moving data. Input: `x`.
    View {
        /// First feature.
        offset: usize,
    },
    /// Rows of a weight, dequantized. Inputs: indices (I32).
    Embed {
        /// The table, `[width, n]`.
        weight: WeightId,
    },
    /// Rows of an activation. Inputs: `x`, indices (I32).
    GetRows,
    /// `y[o, r] = sum_i w[i, o] * x[i, r]`. Input: `x`.
    MatMul {
        /// `[in, out]`, one output row contiguous.
        weight: WeightId,
    },
    /// `y = x + b`, the same `b` for every row. Input: `x`.
    AddBias {
        /// `[width]`, f32.
        weight: WeightId,
    },
    /// `y = a + b`. Inputs: `a`, `b`.
    Add,
    /// `y = a * b`, element by element. Inputs: `a`, `b`.
    Mul,
    /// `y = factor * x`. Input: `x`.
    Scale {
        /// The factor.
        factor: f32,
    },
    /// `y = x / (1 + exp(-x))`. Input: `x`.
    Silu,
    /// `y = silu(gate) * up`. Inputs: `gate`, `up`.
    SwiGlu,
    /// `y = x / sqrt(mean(x^2) + eps) * gain` over a row (Zhang and Sennrich 2019). Input: `x`.
    RmsNorm(Norm),
    /// [`Op::RmsNorm`] over each head of a row, one gain of `head_dim` for all heads. Input: `x`.
    QkNorm {
        /// Gain and epsilon.
        norm: Norm,
        /// Features per head.
        head_dim: usize,
    },
    /// Rotates the heads of each row by the row's position. Inputs: `x`, positions (I32).
    Rope(Rope),
    /// Softmax over each of `groups` equal parts of a row, of `scale * x`. With a positions input, the
    /// parts are scores over cells and those after the row's position get probability 0.
    /// Inputs: `x`, optionally positions (I32).
    Softmax {
        /// Equal parts of a row (heads).
        groups: usize,
        /// Factor on the scores.
        scale: f32,
    },
    /// Per-head products with grouped heads. Inputs: `a` (rows), `b` (`Rows::Fixed(n)`).
    ///
    /// With `transposed == false`, `a` is `[heads * k, r]`, `b` is `[kv_heads * k, n]` and
    /// `y[h * n + j, r] = sum_i a[h * k + i, r] * b[g * k + i, j]` (scores).
    /// With `transposed == true`, `a` is `[heads * n, r]`, `b` is `[kv_heads * k, n]` and
    /// `y[h * k + i, r] = sum_j a[h * n + j, r] * b[g * k + i, j]` (weighted values).
    /// Head `h` uses group `g = h / (heads / kv_heads)`.
    BatchMatMul {
        /// Heads of `a`.
        heads: usize,
        /// Heads of `b`.
        kv_heads: usize,
        /// Which of the two products.
        transposed: bool,
    },
    /// Writes keys and values to the cells of a layer's region, in its format.
    /// Inputs: `k`, `v`, cells (I32). The value is `k`, unchanged.
    KvStore {
        /// Layer whose region is written.
        layer: usize,
    },
    /// Dequantizes the first `Rows::Fixed(n)` cells of a layer's keys or values. Inputs: the
    /// [`Op::KvStore`] it must follow.
    KvLoad {
        /// Layer whose region is read.
        layer: usize,
        /// Values rather than keys.
        values: bool,
    },
    /// Softmax attention. Inputs: `q`, positions (I32), the [`Op::KvStore`] or [`Op::FusedQkv`] it
    /// must follow, and the window (I32) unless the layout is causal.
    Attention(Attention),
    /// [`FusedQkv`]; its value is the rotated `q`. Inputs: `x`, positions (I32), cells (I32).
    FusedQkv(Box<FusedQkv>),
    /// `silu(gate(x)) * up(x)`, both projections in one node. Input: `x`.
    FusedFfn {
        /// Gate projection.
        gate: WeightId,
        /// Up projection.
        up: WeightId,
        /// Norm of `x` before both.
        input_norm: Option<Norm>,
    },
    /// [`FusedMatMul`]. Inputs: `x`, the residual if it adds one, row numbers (I32) if it gathers.
    FusedMatMul(Box<FusedMatMul>),
}

impl Op {
    /// Name used in dumps, profiles and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input(_) => "Input",
            Op::View { .. } => "View",
            Op::Embed { .. } => "Embed",
            Op::GetRows => "GetRows",
            Op::MatMul { .. } => "MatMul",
            Op::AddBias { .. } => "AddBias",
            Op::Add => "Add",
            Op::Mul => "Mul",
            Op::Scale { .. } => "Scale",
            Op::Silu => "Silu",
            Op::SwiGlu => "SwiGlu",
            Op::RmsNorm(_) => "RmsNorm",
            Op::QkNorm { .. } => "QkNorm",
            Op::Rope(_) => "Rope",
            Op::Softmax { .. } => "Softmax",
            Op::BatchMatMul { .. } => "BatchMatMul",
            Op::KvStore { .. } => "KvStore",
            Op::KvLoad { .. } => "KvLoad",
            Op::Attention(_) => "Attention",
            Op::FusedQkv(_) => "FusedQkv",
            Op::FusedFfn { .. } => "FusedFfn",
            Op::FusedMatMul(_) => "FusedMatMul",
        }
    }

    /// How many inputs the operation takes.
    pub fn arity(&self) -> RangeInclusive<usize> {
        match self {
            Op::Input(_) => 0..=0,
            Op::View { .. }
            | Op::Embed { .. }
            | Op::MatMul { .. }
            | Op::AddBias { .. }
            | Op::Scale { .. }
            | Op::Silu
            | Op::RmsNorm(_)
            | Op::QkNorm { .. }
            | Op::KvLoad { .. }
            | Op::FusedFfn { .. } => 1..=1,
            Op::GetRows | Op::Add | Op::Mul | Op::SwiGlu | Op::Rope(_) | Op::BatchMatMul { .. } => {
                2..=2
            }
            Op::Softmax { .. } => 1..=2,
            Op::KvStore { .. } | Op::FusedQkv(_) => 3..=3,
            Op::FusedMatMul(product) => product.inputs()..=product.inputs(),
            Op::Attention(attention) if attention.window == WindowLayout::Causal => 3..=3,
            Op::Attention(_) => 4..=4,
        }
    }

    /// Weights the operation names, each once, in a fixed order.
    pub fn weights(&self) -> Vec<WeightId> {
        match self {
            Op::Embed { weight } | Op::MatMul { weight } | Op::AddBias { weight } => vec![*weight],
            Op::RmsNorm(norm) | Op::QkNorm { norm, .. } => vec![norm.gain],
            Op::Rope(rope) => rope.factors.into_iter().collect(),
            Op::FusedFfn {
                gate,
                up,
                input_norm,
            } => {
                let gain = input_norm.map(|norm| norm.gain);
                [*gate, *up].into_iter().chain(gain).collect()
            }
            Op::FusedQkv(qkv) => qkv.all_weights(),
            Op::FusedMatMul(product) => product.all_weights(),
            _ => Vec::new(),
        }
    }

    /// The layer whose KV region the operation reads or writes.
    pub fn kv_layer(&self) -> Option<usize> {
        match self {
            Op::KvStore { layer } | Op::KvLoad { layer, .. } => Some(*layer),
            Op::Attention(attention) => Some(attention.layer),
            Op::FusedQkv(qkv) => Some(qkv.layer),
            _ => None,
        }
    }

    /// Whether a backend must be ready to find the output in the buffer of the first input
    /// (`task.output.buffer == task.inputs[0].buffer`, same offset and stride).
    pub fn runs_in_place(&self) -> bool {
        matches!(
            self,
            Op::AddBias { .. }
                | Op::Add
                | Op::Mul
                | Op::Scale { .. }
                | Op::Silu
                | Op::SwiGlu
                | Op::QkNorm { .. }
                | Op::Rope(_)
        )
    }

    /// Whether the value is the first input's memory, never moved: [`Op::View`] and [`Op::KvStore`].
    pub fn shares_input(&self) -> bool {
        matches!(self, Op::View { .. } | Op::KvStore { .. })
    }
}

/// One operation, its inputs and the shape of its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Values read, in the order [`Op`] gives.
    pub inputs: Vec<NodeId>,
    /// Features per row.
    pub width: usize,
    /// Rows.
    pub rows: Rows,
    /// Element type.
    pub dtype: DType,
    /// Name for errors and dumps, for example `blk.3.attn_q`.
    pub name: String,
}

/// A directed acyclic graph in execution order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Nodes; inputs of a node come before it.
    pub nodes: Vec<Node>,
    /// Names of the weights that nodes refer to, each once.
    pub weights: Vec<String>,
    /// Nodes whose value the caller reads after a step.
    pub outputs: Vec<NodeId>,
}

impl Graph {
    /// The node of this id, which must be one of this graph's.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Name of a weight that a node of this graph refers to.
    pub fn weight_name(&self, id: WeightId) -> &str {
        &self.weights[id.0 as usize]
    }
}
