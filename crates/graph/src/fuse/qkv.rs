//! Query, key and value projections up to the KV store, into one node.

use super::{Pass, Rewrite};
use crate::ir::{FusedQkv, Node, NodeId, Norm, Op, Rope, WeightId};

/// `KvStore(Rope(QkNorm?(AddBias?(MatMul(x)))), AddBias?(MatMul(x)), cells)` with the query of the
/// attention that reads it, a chain like that of the key.
pub(super) fn qkv(pass: &Pass<'_>, at: NodeId) -> Option<Rewrite> {
    let store = pass.node(at);
    let (Op::KvStore { layer }, &[k_end, v_end, cells]) = (&store.op, store.inputs.as_slice())
    else {
        return None;
    };
    let q_end = only_query(pass, at)?;
    let mut absorbed = Vec::new();
    let q = Chain::ending_at(pass, q_end, &mut absorbed)?;
    let k = Chain::ending_at(pass, k_end, &mut absorbed)?;
    let v = Chain::ending_at(pass, v_end, &mut absorbed)?;
    let (rope, positions) = q.rope?;
    if k.rope != q.rope || v.rope.is_some() || v.norm.is_some() {
        return None;
    }
    if k.x != q.x || v.x != q.x {
        return None;
    }
    let biases = all_or_none([q.bias, k.bias, v.bias])?;
    let norms = all_or_none([q.norm, k.norm])?;
    let fused = FusedQkv {
        input_norm: None,
        weights: [q.weight, k.weight, v.weight],
        biases,
        norms,
        rope,
        layer: *layer,
        kv_width: store.width,
    };
    let query = pass.node(q_end);
    Some(Rewrite {
        node: Node {
            op: Op::FusedQkv(Box::new(fused)),
            inputs: vec![q.x, positions, cells],
            name: sibling(&store.name, "attn_qkv"),
            ..query.clone()
        },
        absorbed,
        value: Some(q_end),
    })
}

/// The query of all the attentions that read the store; `None` if anything else does.
fn only_query(pass: &Pass<'_>, store: NodeId) -> Option<NodeId> {
    let mut query = None;
    for &consumer in pass.consumers(store) {
        let node = pass.node(consumer);
        let (Op::Attention(_), &[q, _, stored, ..]) = (&node.op, node.inputs.as_slice()) else {
            return None;
        };
        if stored != store || q == store || query.is_some_and(|seen| seen != q) {
            return None;
        }
        query = Some(q);
    }
    query.filter(|_| !pass.is_output(store))
}

/// A projection and what follows it.
struct Chain {
    x: NodeId,
    weight: WeightId,
    bias: Option<WeightId>,
    norm: Option<Norm>,
    /// Rotation and its positions.
    rope: Option<(Rope, NodeId)>,
}

impl Chain {
    /// Walks back from the last node to the projection, collecting the nodes passed.
    fn ending_at(pass: &Pass<'_>, end: NodeId, absorbed: &mut Vec<NodeId>) -> Option<Chain> {
        let (mut bias, mut norm, mut rope) = (None, None, None);
        let mut id = end;
        loop {
            let node = pass.node(id);
            absorbed.push(id);
            // Each stage may come once, and only in front of the stages already seen.
            match &node.op {
                Op::Rope(r) if rope.is_none() && norm.is_none() && bias.is_none() => {
                    rope = Some((*r, node.inputs[1]));
                }
                Op::QkNorm { norm: n, head_dim } if norm.is_none() && bias.is_none() => {
                    if rope.is_none_or(|(r, _)| r.head_dim != *head_dim) {
                        return None;
                    }
                    norm = Some(*n);
                }
                Op::AddBias { weight } if bias.is_none() => bias = Some(*weight),
                Op::MatMul { weight } => {
                    return Some(Chain {
                        x: node.inputs[0],
                        weight: *weight,
                        bias,
                        norm,
                        rope,
                    });
                }
                _ => return None,
            }
            id = node.inputs[0];
        }
    }
}

/// The parts if all are present, `None` within if all are absent, and no result for a mixture.
fn all_or_none<T: Copy, const N: usize>(parts: [Option<T>; N]) -> Option<Option<[T; N]>> {
    let present: Vec<T> = parts.into_iter().flatten().collect();
    match present.len() {
        0 => Some(None),
        _ => present.try_into().ok().map(Some),
    }
}

/// `blk.3.kv_store` to `blk.3.<name>`.
fn sibling(of: &str, name: &str) -> String {
    match of.rsplit_once('.') {
        Some((scope, _)) => format!("{scope}.{name}"),
        None => name.to_owned(),
    }
}
