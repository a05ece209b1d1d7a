//! Whether a node is well formed and this backend has what it needs: the one answer behind both
//! `supports` and `execute`.

use minfer_graph::{Attention, DType, FusedQkv, Graph, Node, Norm, Op, Rope, Rows, WeightId};

use super::error::{NodeError, require};
use super::weights::Weights;

pub(super) fn check(graph: &Graph, node: &Node, weights: &Weights) -> Result<(), NodeError> {
    let checker = Checker {
        graph,
        node,
        weights,
    };
    checker.arity()?;
    checker.op()
}

struct Checker<'a> {
    graph: &'a Graph,
    node: &'a Node,
    weights: &'a Weights,
}

impl Checker<'_> {
    fn arity(&self) -> Result<(), NodeError> {
        let expected = self.node.op.arity();
        let found = self.node.inputs.len();
        if !expected.contains(&found) {
            let expected = format!("{} to {}", expected.start(), expected.end());
            return Err(NodeError::Arity { found, expected });
        }
        for (input, id) in self.node.inputs.iter().enumerate() {
            if self.graph.nodes.len() <= id.0 as usize {
                return Err(NodeError::Dangling { input });
            }
        }
        Ok(())
    }

    fn input(&self, i: usize) -> &Node {
        self.graph.node(self.node.inputs[i])
    }

    fn op(&self) -> Result<(), NodeError> {
        match &self.node.op {
            Op::Input(_) => Ok(()),
            Op::View { offset } => {
                let end = offset.saturating_add(self.node.width);
                let width = self.input(0).width;
                require(end <= width, "the view's end", end, format!("<= {width}"))
            }
            Op::Embed { weight } => {
                self.indices(0, self.node.rows)?;
                let table = self.weights.table(self.graph, *weight, self.node.width);
                Ok(table.map(|_| ())?)
            }
            Op::GetRows => {
                self.indices(1, self.node.rows)?;
                self.activation(0, self.node.width, self.input(0).rows)
            }
            Op::MatMul { weight } => self.matmul(*weight, self.node.width),
            Op::AddBias { weight } => {
                self.like(0)?;
                self.vector(*weight, self.node.width)
            }
            Op::Add | Op::Mul | Op::SwiGlu => {
                self.like(0)?;
                self.like(1)
            }
            Op::Scale { .. } | Op::Silu => self.like(0),
            Op::RmsNorm(norm) => self.norm(norm, self.node.width),
            Op::QkNorm { norm, head_dim } => self.norm(norm, *head_dim),
            Op::Rope(rope) => {
                self.like(0)?;
                self.indices(1, self.node.rows)?;
                self.rope(rope, self.node.width)
            }
            Op::Softmax { groups, .. } => self.softmax(*groups),
            Op::BatchMatMul {
                heads,
                kv_heads,
                transposed,
            } => self.batch_matmul(*heads, *kv_heads, *transposed),
            Op::KvStore { .. } => {
                self.like(0)?;
                self.like(1)?;
                self.indices(2, self.node.rows)
            }
            Op::KvLoad { .. } => match self.node.rows {
                Rows::Fixed(_) => Ok(()),
                rows => Err(NodeError::value("rows", format!("{rows:?}"), "Fixed")),
            },
            Op::Attention(attention) => self.attention(attention),
            Op::FusedQkv(qkv) => self.fused_qkv(qkv),
            Op::FusedFfn {
                gate,
                up,
                input_norm,
            } => {
                self.no_norm(*input_norm)?;
                self.matmul(*gate, self.node.width)?;
                self.matmul(*up, self.node.width)
            }
            Op::FusedMatMul(_) => Err(NodeError::product()),
        }
    }

    /// Refuses a fused node that would normalize its input.
    fn no_norm(&self, norm: Option<Norm>) -> Result<(), NodeError> {
        match norm {
            None => Ok(()),
            Some(_) => Err(NodeError::Unsupported {
                op: self.node.op.name(),
                why: "a norm in front of it is as fast",
            }),
        }
    }

    fn activation(&self, i: usize, width: usize, rows: Rows) -> Result<(), NodeError> {
        let input = self.input(i);
        let found = (input.dtype, input.width, input.rows);
        let expected = (DType::F32, width, rows);
        require(
            found == expected,
            "an input",
            format_args!("{found:?}"),
            format_args!("{expected:?}"),
        )
    }

    /// Input `i` has the shape of the value.
    fn like(&self, i: usize) -> Result<(), NodeError> {
        self.activation(i, self.node.width, self.node.rows)
    }

    fn integers(&self, i: usize, width: usize, rows: Rows) -> Result<(), NodeError> {
        let input = self.input(i);
        let found = (input.dtype, input.width, input.rows);
        let expected = (DType::I32, width, rows);
        require(
            found == expected,
            "an input",
            format_args!("{found:?}"),
            format_args!("{expected:?}"),
        )
    }

    fn indices(&self, i: usize, rows: Rows) -> Result<(), NodeError> {
        self.integers(i, 1, rows)
    }

    fn vector(&self, weight: WeightId, len: usize) -> Result<(), NodeError> {
        Ok(self.weights.vector(self.graph, weight, len).map(|_| ())?)
    }

    fn matmul(&self, weight: WeightId, out_dim: usize) -> Result<(), NodeError> {
        let in_dim = self.input(0).width;
        self.activation(0, in_dim, self.node.rows)?;
        let matrix = self.weights.matrix(self.graph, weight, in_dim, out_dim);
        Ok(matrix.map(|_| ())?)
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

    fn rope(&self, rope: &Rope, width: usize) -> Result<(), NodeError> {
        let Rope {
            head_dim, n_rot, ..
        } = *rope;
        self.parts("head_dim", head_dim, width)?;
        let valid = n_rot > 0 && n_rot.is_multiple_of(2) && n_rot <= head_dim;
        require(
            valid,
            "n_rot",
            n_rot,
            format_args!("even, at most {head_dim}"),
        )?;
        match rope.factors {
            Some(factors) => self.vector(factors, n_rot / 2),
            None => Ok(()),
        }
    }

    fn softmax(&self, groups: usize) -> Result<(), NodeError> {
        self.like(0)?;
        self.parts("groups", groups, self.node.width)?;
        match self.node.inputs.len() {
            1 => Ok(()),
            _ => self.indices(1, self.node.rows),
        }
    }

    fn batch_matmul(
        &self,
        heads: usize,
        kv_heads: usize,
        transposed: bool,
    ) -> Result<(), NodeError> {
        let (a, b) = (self.input(0), self.input(1));
        self.parts("kv_heads", kv_heads, heads)?;
        self.parts("kv_heads", kv_heads, b.width)?;
        let Rows::Fixed(n) = b.rows else {
            return Err(NodeError::value(
                "rows of b",
                format!("{:?}", b.rows),
                "Fixed",
            ));
        };
        let features = heads.saturating_mul(b.width / kv_heads);
        let scores = heads.saturating_mul(n);
        let (from, to) = match transposed {
            false => (features, scores),
            true => (scores, features),
        };
        self.activation(0, from, self.node.rows)?;
        self.activation(1, b.width, b.rows)?;
        let found = self.node.width;
        require(found == to, "width", found, to)?;
        require(a.width == from, "width of a", a.width, from)
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
        let width = n_head.saturating_mul(head_dim);
        let found = self.node.width;
        require(width > 0 && found == width, "width", found, width)?;
        self.like(0)?;
        self.indices(1, self.node.rows)?;
        match window.input_width() {
            0 => Ok(()),
            width => self.integers(3, width, self.node.rows),
        }
    }

    fn fused_qkv(&self, qkv: &FusedQkv) -> Result<(), NodeError> {
        self.no_norm(qkv.input_norm)?;
        let widths = [self.node.width, qkv.kv_width, qkv.kv_width];
        for (weight, width) in qkv.weights.iter().zip(widths) {
            self.matmul(*weight, width)?;
        }
        for (bias, width) in qkv.biases.iter().flatten().zip(widths) {
            self.vector(*bias, width)?;
        }
        for (norm, width) in qkv.norms.iter().flatten().zip(widths) {
            self.parts("head_dim", qkv.rope.head_dim, width)?;
            self.vector(norm.gain, qkv.rope.head_dim)?;
        }
        self.rope(&qkv.rope, self.node.width)?;
        self.rope(&qkv.rope, qkv.kv_width)?;
        self.indices(1, self.node.rows)?;
        self.indices(2, self.node.rows)
    }
}
