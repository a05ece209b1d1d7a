//! Products of activations with weights and with each other.

use minfer_gguf::TensorType;
use minfer_graph::{Op, Rows};

use super::{W0, activations, case, product_of};
use crate::case::{Case, Value};
use crate::limit::Limit;
use crate::random::Random;

pub(super) const SUMMED: Limit = Limit::relative(1e-5, "an f32 sum of some hundred products");

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(2);
    let mut cases = Vec::new();
    for ty in TensorType::WEIGHTS {
        let unit = ty.block_len();
        for (in_dim, out_dim, rows) in [(256, 1, 1), (512, 67, 5), (768, 100, 19)] {
            matmul(&mut random, ty, [in_dim, out_dim, rows], &mut cases);
        }
        if unit <= 32 {
            matmul(&mut random, ty, [96, 37, 3], &mut cases);
        }
        if unit == 1 {
            matmul(&mut random, ty, [83, 37, 3], &mut cases);
        }
    }
    for transposed in [false, true] {
        for (heads, kv_heads, k, n) in [(4, 4, 32, 5), (14, 2, 64, 50)] {
            batch(&mut random, [heads, kv_heads, k, n], transposed, &mut cases);
        }
    }
    // Projections of Qwen2.5 0.5B, whose width is no multiple of 256. More than 32 rows are several tiles.
    for (ty, out_dim, rows) in [(TensorType::Q4_0, 896, 9), (TensorType::Q8_0, 128, 41)] {
        matmul(&mut random, ty, [896, out_dim, rows], &mut cases);
    }
    cases
}

fn matmul(
    random: &mut Random,
    ty: TensorType,
    [in_dim, out_dim, rows]: [usize; 3],
    cases: &mut Vec<Case>,
) {
    let weight = random.matrix("weight", ty, in_dim, out_dim);
    let x = activations(random, in_dim, rows);
    let detail = format!("{ty} [{in_dim}, {out_dim}] x {rows}");
    let limit = SUMMED.with(product_of(ty));
    cases.push(
        case(Op::MatMul { weight: W0 }, detail, out_dim, rows, limit)
            .inputs([x])
            .weights([weight]),
    );
}

fn batch(
    random: &mut Random,
    [heads, kv_heads, k, n]: [usize; 4],
    transposed: bool,
    cases: &mut Vec<Case>,
) {
    let (from, to) = if transposed { (n, k) } else { (k, n) };
    let a = activations(random, heads * from, 6);
    let b = Value::F32 {
        width: kv_heads * k,
        rows: Rows::Fixed(n),
        data: random.normals(kv_heads * k * n),
    };
    let op = Op::BatchMatMul {
        heads,
        kv_heads,
        transposed,
    };
    let kind = if transposed { "values" } else { "scores" };
    let detail = format!("{kind} {heads}/{kv_heads} heads of {k}, {n} cells");
    cases.push(case(op, detail, heads * to, 6, SUMMED).inputs([a, b]));
}
