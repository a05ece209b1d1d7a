//! A projection, its bias and the residual stream it is added to, into one node.

use super::{Pass, Rewrite};
use crate::ir::{FusedMatMul, Node, NodeId, Op, WeightId};

/// `Add(AddBias?(MatMul(x)), r)`, or with the operands of the sum swapped. Where `x` and `r` are rows of
/// the same numbers, read here alone, they are picked by the node itself.
pub(super) fn residual(pass: &Pass<'_>, at: NodeId) -> Option<Rewrite> {
    let sum = pass.node(at);
    let (Op::Add, &[a, b]) = (&sum.op, sum.inputs.as_slice()) else {
        return None;
    };
    let first = Projection::ending_at(pass, a).map(|projection| (projection, b));
    let (projection, residual) = first.or_else(|| Some((Projection::ending_at(pass, b)?, a)))?;
    let Projection {
        x,
        weight,
        bias,
        mut absorbed,
    } = projection;
    let here = |id: NodeId| pass.backend(id) == pass.backend(at);
    let both_here = here(x) && here(residual);
    let gathered = same_rows(pass, x, residual).filter(|_| both_here);
    let inputs = match gathered {
        Some(sources) => {
            absorbed.extend([x, residual]);
            sources.to_vec()
        }
        None => vec![x, residual],
    };
    let product = FusedMatMul {
        weight,
        input_norm: None,
        bias,
        residual: true,
        gathered: gathered.is_some(),
    };
    Some(Rewrite {
        node: Node {
            op: Op::FusedMatMul(Box::new(product)),
            inputs,
            ..sum.clone()
        },
        absorbed,
        value: None,
    })
}

/// A product and its bias, each read once.
struct Projection {
    x: NodeId,
    weight: WeightId,
    bias: Option<WeightId>,
    absorbed: Vec<NodeId>,
}

impl Projection {
    fn ending_at(pass: &Pass<'_>, end: NodeId) -> Option<Projection> {
        let mut absorbed = vec![end];
        let mut product = pass.node(end);
        let mut bias = None;
        if let Op::AddBias { weight } = &product.op {
            bias = Some(*weight);
            absorbed.push(product.inputs[0]);
            product = pass.node(product.inputs[0]);
        }
        let Op::MatMul { weight } = &product.op else {
            return None;
        };
        let all_once = absorbed.iter().all(|&id| pass.is_read_once(id));
        all_once.then_some(Projection {
            x: product.inputs[0],
            weight: *weight,
            bias,
            absorbed,
        })
    }
}

/// What `a` and `b` pick rows of, and the numbers of these rows; `None` unless both do, of the same
/// numbers, and nothing else reads either.
fn same_rows(pass: &Pass<'_>, a: NodeId, b: NodeId) -> Option<[NodeId; 3]> {
    let picked = |id: NodeId| match (&pass.node(id).op, pass.node(id).inputs.as_slice()) {
        (Op::GetRows, &[source, numbers]) if pass.is_read_once(id) => Some((source, numbers)),
        _ => None,
    };
    let (a, b) = (picked(a)?, picked(b)?);
    (a.1 == b.1).then_some([a.0, b.0, a.1])
}
