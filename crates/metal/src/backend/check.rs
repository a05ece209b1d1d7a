//! Whether a node is well formed and there are kernels for it: the one answer behind both `supports` and `execute`.

use minfer_graph::{
    Attention, DType, FusedMatMul, FusedQkv, Graph, Node, Norm, Op, Rope, Rows, WeightId,
};

use super::error::{NodeError, require};
use super::weights::Weights;
use crate::device::Buffer;
use crate::ops::attention::MOST_FEATURES;
use crate::ops::fused_qkv;
use crate::ops::rope::MOST_ROTATED;

pub(super) fn check<B: Buffer>(
    graph: &Graph,
    node: &Node,
    weights: &Weights<B>,
) -> Result<(), NodeError> {
    let checker = Checker {
        graph,
        node,
        weights,
    };
    checker.inputs()?;
    checker.op()
}

struct Checker<'a, B> {
    graph: &'a Graph,
    node: &'a Node,
    weights: &'a Weights<B>,
}

impl<B: Buffer> Checker<'_, B> {
    fn inputs(&self) -> Result<(), NodeError> {
        let arity = self.node.op.arity();
        let found = self.node.inputs.len();
        require(
            arity.contains(&found),
            "the number of inputs",
            found,
            format_args!("{arity:?}"),
        )?;
        let nodes = self.graph.nodes.len();
        for id in &self.node.inputs {
            let exists = (id.0 as usize) < nodes;
            require(
                exists,
                "an input",
                id.0,
                format_args!("a node below {nodes}"),
            )?;
        }
        Ok(())
    }

    fn input(&self, i: usize) -> &Node {
        self.graph.node(self.node.inputs[i])
    }

    fn op(&self) -> Result<(), NodeError> {
        let Node {
            op, width, rows, ..
        } = self.node;
        let (width, rows) = (*width, *rows);
        match op {
            Op::Input(_) => Ok(()),
            Op::View { offset } => {
                let end = offset.saturating_add(width);
                let input = self.input(0).width;
                require(
                    end <= input,
                    "the view's end",
                    end,
                    format_args!("at most {input}"),
                )
            }
            Op::Embed { weight } => {
                self.integers(0, 1, rows)?;
                self.weights.table(self.graph, *weight, width, op.name())?;
                Ok(())
            }
            Op::GetRows => {
                self.integers(1, 1, rows)?;
                self.value(0, DType::F32, width, self.input(0).rows)
            }
            Op::MatMul { weight } => self.matmul(*weight, width),
            Op::AddBias { weight } => {
                self.like(0)?;
                self.vector(*weight, width)
            }
            Op::Add | Op::Mul | Op::SwiGlu => {
                self.like(0)?;
                self.like(1)
            }
            Op::Scale { .. } | Op::Silu => self.like(0),
            Op::RmsNorm(norm) => self.norm(norm, width),
            Op::QkNorm { norm, head_dim } => self.norm(norm, *head_dim),
            Op::Rope(rope) => {
                self.like(0)?;
                self.rope(rope, width)
            }
            Op::KvStore { .. } => {
                self.like(0)?;
                self.like(1)?;
                self.integers(2, 1, rows)
            }
            Op::KvLoad { .. } => {
                let is_fixed = matches!(rows, Rows::Fixed(_));
                require(is_fixed, "the rows", format_args!("{rows:?}"), "Fixed")
            }
            Op::Attention(attention) => self.attention(attention),
            Op::Softmax { .. } | Op::BatchMatMul { .. } => {
                self.unsupported("attention is one kernel")
            }
            Op::FusedQkv(node) => self.fused_qkv(node),
            Op::FusedFfn {
                gate,
                up,
                input_norm,
            } => {
                self.input_norm(*input_norm)?;
                self.matmul(*gate, width)?;
                self.matmul(*up, width)
            }
            Op::FusedMatMul(node) => self.fused_matmul(node),
        }
    }

    fn unsupported(&self, why: &'static str) -> Result<(), NodeError> {
        let op = self.node.op.name();
        Err(NodeError::Unsupported { op, why })
    }

    fn value(&self, i: usize, dtype: DType, width: usize, rows: Rows) -> Result<(), NodeError> {
        let input = self.input(i);
        let found = (input.dtype, input.width, input.rows);
        let expected = (dtype, width, rows);
        require(
            found == expected,
            "an input",
            format_args!("{found:?}"),
            format_args!("{expected:?}"),
        )
    }

    /// Input `i` has the shape of the value.
    fn like(&self, i: usize) -> Result<(), NodeError> {
        self.value(i, DType::F32, self.node.width, self.node.rows)
    }

    fn integers(&self, i: usize, width: usize, rows: Rows) -> Result<(), NodeError> {
        self.value(i, DType::I32, width, rows)
    }

    fn vector(&self, weight: WeightId, len: usize) -> Result<(), NodeError> {
        self.weights.vector(self.graph, weight, len)?;
        Ok(())
    }

    /// A product of input 0.
    fn matmul(&self, weight: WeightId, out_width: usize) -> Result<(), NodeError> {
        self.value(0, DType::F32, self.input(0).width, self.node.rows)?;
        self.projection(weight, out_width)
    }

    fn projection(&self, weight: WeightId, out_width: usize) -> Result<(), NodeError> {
        let (shape, op) = ([self.input(0).width, out_width], self.node.op.name());
        self.weights.matrix(self.graph, weight, shape, op)?;
        Ok(())
    }

    fn input_norm(&self, norm: Option<Norm>) -> Result<(), NodeError> {
        match norm {
            Some(norm) => self.vector(norm.gain, self.input(0).width),
            None => Ok(()),
        }
    }

    fn norm(&self, norm: &Norm, part: usize) -> Result<(), NodeError> {
        self.like(0)?;
        self.parts("head_dim", part, self.node.width)?;
        self.vector(norm.gain, part)
    }

    fn parts(&self, what: &'static str, part: usize, width: usize) -> Result<(), NodeError> {
        let divides = part > 0 && width.is_multiple_of(part);
        require(divides, what, part, format_args!("a divisor of {width}"))
    }

    /// A rotation of values of this width by the positions in input 1.
    fn rope(&self, rope: &Rope, width: usize) -> Result<(), NodeError> {
        let Rope {
            head_dim, n_rot, ..
        } = *rope;
        self.integers(1, 1, self.node.rows)?;
        self.parts("head_dim", head_dim, width)?;
        require(
            head_dim.is_multiple_of(2),
            "head_dim",
            head_dim,
            "an even number",
        )?;
        let most = head_dim.min(MOST_ROTATED);
        let is_valid = n_rot > 0 && n_rot.is_multiple_of(2) && n_rot <= most;
        let expected = format_args!("even and at most {most}");
        require(is_valid, "n_rot", n_rot, expected)?;
        match rope.factors {
            Some(factors) => self.vector(factors, n_rot / 2),
            None => Ok(()),
        }
    }

    fn attention(&self, attention: &Attention) -> Result<(), NodeError> {
        let Attention {
            n_head,
            n_head_kv,
            head_dim,
            window,
            ..
        } = *attention;
        self.parts("n_head_kv", n_head_kv, n_head)?;
        let (found, width) = (self.node.width, n_head.saturating_mul(head_dim));
        require(width > 0 && found == width, "the width", found, width)?;
        let is_small = head_dim <= MOST_FEATURES;
        require(
            is_small,
            "head_dim",
            head_dim,
            format_args!("at most {MOST_FEATURES}"),
        )?;
        self.like(0)?;
        self.integers(1, 1, self.node.rows)?;
        match window.input_width() {
            0 => Ok(()),
            width => self.integers(3, width, self.node.rows),
        }
    }

    fn fused_qkv(&self, node: &FusedQkv) -> Result<(), NodeError> {
        let (q, kv) = (self.node.width, node.kv_width);
        let head_dim = node.rope.head_dim;
        let is_served = fused_qkv::serves(head_dim);
        require(is_served, "head_dim", head_dim, "even and at most 256")?;
        self.rope(&node.rope, q)?;
        self.rope(&node.rope, kv)?;
        self.integers(2, 1, self.node.rows)?;
        self.input_norm(node.input_norm)?;
        for (i, width) in [q, kv, kv].into_iter().enumerate() {
            self.matmul(node.weights[i], width)?;
            if let Some(biases) = node.biases {
                self.vector(biases[i], width)?;
            }
        }
        for norm in node.norms.iter().flatten() {
            self.vector(norm.gain, head_dim)?;
        }
        Ok(())
    }

    fn fused_matmul(&self, node: &FusedMatMul) -> Result<(), NodeError> {
        let Node { width, rows, .. } = *self.node;
        let source = match node.gathered {
            true => self.input(0).rows,
            false => rows,
        };
        self.value(0, DType::F32, self.input(0).width, source)?;
        if node.residual {
            self.value(1, DType::F32, width, source)?;
        }
        if node.gathered {
            self.integers(node.inputs() - 1, 1, rows)?;
        }
        if let Some(bias) = node.bias {
            self.vector(bias, width)?;
        }
        self.input_norm(node.input_norm)?;
        self.projection(node.weight, width)
    }
}
