//! The bytes that a step has to move, from its graph alone.

use std::collections::HashMap;

use minfer_graph::{Graph, KvLayout, Op, StepRows, WeightCatalog, WeightId};
use serde::Serialize;

/// Bytes that a step moves if it moves each once: weights that it reads, KV rows that it writes and reads, and the
/// value of every node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    pub weights: u64,
    pub kv: u64,
    pub activations: u64,
}

impl Traffic {
    pub fn total(self) -> u64 {
        self.weights + self.kv + self.activations
    }
}

/// The traffic of a step with these rows whose queries see `cells` cells together.
pub fn traffic(
    graph: &Graph,
    catalog: &WeightCatalog,
    kv: &KvLayout,
    rows: StepRows,
    cells: usize,
) -> Traffic {
    let mut weights: HashMap<&str, u64> = HashMap::new();
    let mut traffic = Traffic::default();
    for node in &graph.nodes {
        let count = rows.of(node.rows).total() as u64;
        if count == 0 {
            continue;
        }
        for id in node.op.weights() {
            let name = graph.weight_name(id);
            let bytes = weight_bytes(catalog, graph, id, &node.op, count);
            let known = weights.entry(name).or_default();
            *known = bytes.max(*known);
        }
        traffic.kv += kv_rows(&node.op, count, cells as u64) * kv_row_bytes(kv, &node.op);
        if !node.op.shares_input() {
            traffic.activations += count * (node.width * node.dtype.bytes()) as u64;
        }
    }
    traffic.weights = weights.values().sum();
    traffic
}

/// Bytes of a weight that a node reads: of an embedding only a row for each of its `rows`.
fn weight_bytes(catalog: &WeightCatalog, graph: &Graph, id: WeightId, op: &Op, rows: u64) -> u64 {
    let Some(info) = catalog.get(graph.weight_name(id)) else {
        return 0;
    };
    let row = info.ty.row_bytes(info.dim(0)).unwrap_or(0) as u64;
    let table: u64 = (1..info.shape.len()).map(|i| info.dim(i) as u64).product();
    match op {
        Op::Embed { .. } => row * rows.min(table),
        _ => row * table,
    }
}

/// Rows of keys, and as many of values, that a node writes or reads.
fn kv_rows(op: &Op, rows: u64, cells: u64) -> u64 {
    match op {
        Op::KvStore { .. } | Op::FusedQkv(_) => 2 * rows,
        Op::Attention(_) => 2 * cells,
        _ => 0,
    }
}

fn kv_row_bytes(kv: &KvLayout, op: &Op) -> u64 {
    let shape = op.kv_layer().and_then(|layer| kv.layer(layer));
    let bytes = shape.and_then(|shape| shape.format.row_bytes(shape.width));
    bytes.unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use minfer_gguf::TensorType;
    use minfer_graph::{
        AttentionHeads, Fusion, GraphBuilder, GraphParams, Input, KvFormat, KvShape, RowCount,
        WindowLayout,
    };

    use super::*;

    const HEADS: AttentionHeads = AttentionHeads {
        n_head: 2,
        n_head_kv: 1,
        head_dim: 32,
        scale: 0.2,
    };

    fn catalog() -> WeightCatalog {
        let mut catalog = WeightCatalog::default();
        catalog.insert("token_embd.weight", TensorType::Q8_0, &[64, 100]);
        catalog.insert("blk.0.attn_q.weight", TensorType::Q4_0, &[64, 64]);
        catalog.insert("blk.0.attn_k.weight", TensorType::F16, &[64, 32]);
        catalog.insert("blk.0.attn_norm.weight", TensorType::F32, &[64]);
        catalog
    }

    fn layout() -> KvLayout {
        let shape = KvShape {
            cells: 40,
            width: 32,
            head_dim: 32,
            format: KvFormat::Q8_0,
        };
        KvLayout::uniform(1, shape)
    }

    /// A layer whose keys are its values, and whose output is made with the embeddings.
    fn graph() -> Graph {
        let (catalog, kv) = (catalog(), layout());
        let params = GraphParams {
            max_tokens: 8,
            max_outputs: 1,
            window: WindowLayout::Causal,
            kv_format: KvFormat::Q8_0,
            generated_only: false,
            fusion: Fusion::default(),
        };
        let mut builder = GraphBuilder::new(&catalog, params, &kv);
        let tokens = builder.input(Input::Tokens).unwrap();
        let x = builder.embed(tokens, "token_embd").unwrap();
        let mut layer = builder.layer(0);
        let normed = layer.rms_norm(x, "attn_norm", 1e-5).unwrap();
        let q = layer.matmul(normed, "attn_q").unwrap();
        let k = layer.matmul(normed, "attn_k").unwrap();
        let stored = layer.kv_store(k, k, 0).unwrap();
        let attention = layer.attention(q, stored, HEADS).unwrap();
        drop(layer);
        let rows = builder.input(Input::OutputRows).unwrap();
        let last = builder.get_rows(attention, rows).unwrap();
        let logits = builder.matmul_named(last, "token_embd", "output").unwrap();
        builder.output(logits).unwrap();
        builder.finish()
    }

    fn of(outputs: usize) -> Traffic {
        let prompt = |prompt| RowCount {
            prompt,
            generated: 0,
        };
        let rows = StepRows {
            tokens: prompt(3),
            outputs: prompt(outputs),
        };
        traffic(&graph(), &catalog(), &layout(), rows, 7)
    }

    #[test]
    fn every_byte_counts_once() {
        // Embeddings of 100 rows of two blocks of 34 bytes, all read for the logits; 64 rows of two blocks of 18
        // bytes; 32 rows of 64 halves; 64 floats.
        let weights = 6800 + 2304 + 4096 + 256;
        // Three keys and values written, seven read, of one block each.
        let kv = 2 * 34 * (3 + 7);
        // Three tokens, positions and cells; embeddings, norm, queries and attention of 64 floats for each; its keys of
        // 32; then one index, one row of 64 and 100 logits.
        let activations = 4 * (3 * 3 + 3 * (4 * 64 + 32) + 1 + 64 + 100);
        let expected = Traffic {
            weights,
            kv,
            activations,
        };
        assert_eq!(of(1), expected);
        assert_eq!(of(1).total(), weights + kv + activations);
    }

    #[test]
    fn without_logits_only_the_rows_of_the_tokens_are_embedded() {
        assert_eq!(of(0).weights, 3 * 68 + 2304 + 4096 + 256);
        assert_eq!(of(0).activations, of(1).activations - 4 * (1 + 64 + 100));
    }
}
