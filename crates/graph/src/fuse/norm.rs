//! A norm into the one node that reads it, a projection or several.

use super::{Pass, Rewrite};
use crate::ir::{FusedMatMul, FusedQkv, NodeId, Norm, Op};

/// A projection whose `x` is `RmsNorm(z)`, to one of `z`.
pub(super) fn norm(pass: &Pass<'_>, at: NodeId) -> Option<Rewrite> {
    let mut node = pass.node(at).clone();
    let &x = node.inputs.first()?;
    let (Op::RmsNorm(norm), [z]) = (&pass.node(x).op, pass.node(x).inputs.as_slice()) else {
        return None;
    };
    if !pass.is_read_once(x) {
        return None;
    }
    node.op = with_input_norm(&node.op, *norm)?;
    node.inputs[0] = *z;
    Some(Rewrite {
        node,
        absorbed: vec![x],
        value: None,
    })
}

/// The operation with a norm in front, if it can have one and has none.
fn with_input_norm(op: &Op, norm: Norm) -> Option<Op> {
    let input_norm = Some(norm);
    match op {
        Op::MatMul { weight } => Some(Op::FusedMatMul(Box::new(FusedMatMul {
            weight: *weight,
            input_norm,
            bias: None,
            residual: false,
            gathered: false,
        }))),
        Op::FusedMatMul(product) if product.input_norm.is_none() => {
            Some(Op::FusedMatMul(Box::new(FusedMatMul {
                input_norm,
                ..**product
            })))
        }
        Op::FusedFfn {
            gate,
            up,
            input_norm: None,
        } => Some(Op::FusedFfn {
            gate: *gate,
            up: *up,
            input_norm,
        }),
        Op::FusedQkv(qkv) if qkv.input_norm.is_none() => Some(Op::FusedQkv(Box::new(FusedQkv {
            input_norm,
            ..(**qkv).clone()
        }))),
        _ => None,
    }
}
