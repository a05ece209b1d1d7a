//! The rows of the table.

mod attention;
mod fused;
mod products;
mod rows;

use minfer_gguf::{Tensor, TensorType};
use minfer_graph::{Op, Rows, WeightId};

use crate::case::{Case, Region, Value};
use crate::limit::{Limit, Product};
use crate::random::Random;

pub(crate) use attention::{FORMATS, region};

/// Every case, grouped by operation.
pub fn cases() -> Vec<Case> {
    [
        rows::cases(),
        products::cases(),
        attention::cases(),
        fused::cases(),
    ]
    .concat()
}

/// Names of the operations that a backend executes.
pub fn op_names() -> Vec<&'static str> {
    const ALL: [&str; 22] = [
        "Input",
        "View",
        "Embed",
        "GetRows",
        "MatMul",
        "AddBias",
        "Add",
        "Mul",
        "Scale",
        "Silu",
        "SwiGlu",
        "RmsNorm",
        "QkNorm",
        "Rope",
        "Softmax",
        "BatchMatMul",
        "KvStore",
        "KvLoad",
        "Attention",
        "FusedQkv",
        "FusedFfn",
        "FusedMatMul",
    ];
    ALL.into_iter()
        .filter(|name| !matches!(*name, "Input" | "View"))
        .collect()
}

/// Does not compile once an operation is added that [`op_names`] may lack.
#[allow(dead_code)]
fn every_operation_is_listed(op: &Op) {
    match op {
        Op::Input(_)
        | Op::View { .. }
        | Op::Embed { .. }
        | Op::GetRows
        | Op::MatMul { .. }
        | Op::AddBias { .. }
        | Op::Add
        | Op::Mul
        | Op::Scale { .. }
        | Op::Silu
        | Op::SwiGlu
        | Op::RmsNorm(_)
        | Op::QkNorm { .. }
        | Op::Rope(_)
        | Op::Softmax { .. }
        | Op::BatchMatMul { .. }
        | Op::KvStore { .. }
        | Op::KvLoad { .. }
        | Op::Attention(_)
        | Op::FusedQkv(_)
        | Op::FusedFfn { .. }
        | Op::FusedMatMul(_) => {}
    }
}

/// A case of `count` token rows, to be completed.
fn case(op: Op, detail: impl Into<String>, width: usize, count: usize, limit: Limit) -> Case {
    Case {
        detail: detail.into(),
        op,
        width,
        rows: Rows::Tokens,
        count,
        inputs: Vec::new(),
        weights: Vec::new(),
        kv: None,
        limit,
    }
}

impl Case {
    fn inputs(mut self, inputs: impl Into<Vec<Value>>) -> Self {
        self.inputs = inputs.into();
        self
    }

    fn weights(mut self, weights: impl Into<Vec<Tensor>>) -> Self {
        self.weights = weights.into();
        self
    }

    fn kv(mut self, region: Region) -> Self {
        self.kv = Some(region);
        self
    }
}

/// Random activations of token rows.
fn activations(random: &mut Random, width: usize, count: usize) -> Value {
    Value::F32 {
        width,
        rows: Rows::Tokens,
        data: random.normals(width * count),
    }
}

/// One integer per token row.
fn integers(data: impl Into<Vec<i32>>) -> Value {
    Value::I32 {
        width: 1,
        rows: Rows::Tokens,
        data: data.into(),
    }
}

fn product_of(ty: TensorType) -> Product {
    match ty {
        TensorType::F32 | TensorType::F16 | TensorType::BF16 => Product::Float,
        _ => Product::Quantized,
    }
}

const W0: WeightId = WeightId(0);
