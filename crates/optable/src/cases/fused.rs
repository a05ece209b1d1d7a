//! Nodes that stand for several.

use minfer_gguf::TensorType;
use minfer_graph::{FusedQkv, KvFormat, KvShape, Norm, Op, Rope, RopeStyle, WeightId};

use super::attention::{FORMATS, region};
use super::products::SUMMED;
use super::{W0, W1, activations, case, integers, product_of};
use crate::case::Case;
use crate::limit::Product;
use crate::random::Random;

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(4);
    let mut cases = Vec::new();
    for ty in TensorType::WEIGHTS {
        ffn(&mut random, [ty, ty], &mut cases);
        let variant = Variant {
            types: [ty; 3],
            format: KvFormat::F32,
            biases: false,
            norms: false,
        };
        qkv(&mut random, variant, &mut cases);
    }
    ffn(
        &mut random,
        [TensorType::Q4_K, TensorType::Q6_K],
        &mut cases,
    );
    ffn(&mut random, [TensorType::F16, TensorType::Q8_0], &mut cases);
    for format in FORMATS {
        for (biases, norms) in [(true, false), (false, true), (true, true)] {
            let types = [TensorType::Q4_K, TensorType::Q4_K, TensorType::Q6_K];
            let variant = Variant {
                types,
                format,
                biases,
                norms,
            };
            qkv(&mut random, variant, &mut cases);
        }
    }
    cases
}

fn product(types: &[TensorType]) -> Product {
    match types.iter().all(|ty| product_of(*ty) == Product::Float) {
        true => Product::Float,
        false => Product::Quantized,
    }
}

fn ffn(random: &mut Random, types: [TensorType; 2], cases: &mut Vec<Case>) {
    let (in_dim, width, rows) = (256, 150, 9);
    let weights = [
        random.matrix("gate", types[0], in_dim, width),
        random.matrix("up", types[1], in_dim, width),
    ];
    let x = activations(random, in_dim, rows);
    let op = Op::FusedFfn {
        gate: W0,
        up: W1,
        input_norm: None,
    };
    let detail = format!("{} and {}", types[0], types[1]);
    let limit = SUMMED.with(product(&types));
    cases.push(
        case(op, detail, width, rows, limit)
            .inputs([x])
            .weights(weights),
    );
}

struct Variant {
    types: [TensorType; 3],
    format: KvFormat,
    biases: bool,
    norms: bool,
}

fn qkv(random: &mut Random, variant: Variant, cases: &mut Vec<Case>) {
    let (in_dim, head_dim, heads, kv_heads) = (256, 32, 7, 2);
    let widths = [heads, kv_heads, kv_heads].map(|n| n * head_dim);
    let mut weights = Vec::new();
    for (i, name) in ["q", "k", "v"].into_iter().enumerate() {
        weights.push(random.matrix(name, variant.types[i], in_dim, widths[i]));
    }
    let biases = variant.biases.then(|| {
        let first = weights.len() as u32;
        for (name, width) in ["q.bias", "k.bias", "v.bias"].into_iter().zip(widths) {
            weights.push(random.vector(name, width));
        }
        [0, 1, 2].map(|i| WeightId(first + i))
    });
    let norms = variant.norms.then(|| {
        let first = weights.len() as u32;
        weights.push(random.vector("q_norm", head_dim));
        weights.push(random.vector("k_norm", head_dim));
        [0, 1].map(|i| Norm {
            gain: WeightId(first + i),
            eps: 1e-6,
        })
    });
    let node = FusedQkv {
        input_norm: None,
        weights: [0, 1, 2].map(WeightId),
        biases,
        norms,
        rope: Rope {
            style: RopeStyle::Split,
            head_dim,
            n_rot: head_dim,
            freq_base: 1e4,
            freq_scale: 1.0,
            factors: None,
        },
        layer: 0,
        kv_width: widths[1],
    };
    let shape = KvShape {
        cells: 30,
        width: widths[1],
        head_dim,
        format: variant.format,
    };
    let inputs = [
        activations(random, in_dim, 5),
        integers([7, 8, 9, 3000, 0]),
        integers([29, 0, 3, 4, 17]),
    ];
    let detail = format!(
        "{} {} {} to {:?}{}{}",
        variant.types[0],
        variant.types[1],
        variant.types[2],
        variant.format,
        if variant.biases { ", biases" } else { "" },
        if variant.norms { ", norms" } else { "" },
    );
    let limit = SUMMED.with(product(&variant.types));
    cases.push(
        case(Op::FusedQkv(Box::new(node)), detail, widths[0], 5, limit)
            .inputs(inputs)
            .weights(weights)
            .kv(region(random, shape)),
    );
}
