//! Operations on single rows.

use minfer_gguf::TensorType;
use minfer_graph::{Norm, Op, Rope, RopeStyle, Rows};

use super::{W0, activations, case, integers};
use crate::case::{Case, Value};
use crate::limit::Limit;
use crate::random::Random;

const ROUNDED: Limit = Limit::relative(4e-7, "a few roundings of f32 per element");
const EXPONENTIAL: Limit = Limit::relative(2e-6, "an f32 exponential, off by a few units");
const REDUCED: Limit = Limit::relative(4e-6, "an f32 sum over the row scales every element");

/// Widths that do and do not fill vectors.
const WIDTHS: [usize; 4] = [1, 33, 896, 4864];
/// Rows of most cases: enough to be shared out unevenly.
const ROWS: usize = 7;

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(1);
    let mut cases = Vec::new();
    for width in WIDTHS {
        elementwise(&mut random, width, &mut cases);
    }
    picks(&mut random, &mut cases);
    norms(&mut random, &mut cases);
    ropes(&mut random, &mut cases);
    softmaxes(&mut random, &mut cases);
    cases
}

fn elementwise(random: &mut Random, width: usize, cases: &mut Vec<Case>) {
    let detail = format!("width {width}");
    let mut unary = |op, limit| {
        let x = activations(random, width, ROWS);
        cases.push(case(op, &detail, width, ROWS, limit).inputs([x]));
    };
    unary(Op::Scale { factor: -0.37 }, ROUNDED);
    unary(Op::Silu, EXPONENTIAL);
    for (op, limit) in [
        (Op::Add, ROUNDED),
        (Op::Mul, ROUNDED),
        (Op::SwiGlu, EXPONENTIAL),
    ] {
        let a = activations(random, width, ROWS);
        let b = activations(random, width, ROWS);
        cases.push(case(op, &detail, width, ROWS, limit).inputs([a, b]));
    }
    let x = activations(random, width, ROWS);
    let bias = random.vector("bias", width);
    cases.push(
        case(Op::AddBias { weight: W0 }, &detail, width, ROWS, ROUNDED)
            .inputs([x])
            .weights([bias]),
    );
    if width == WIDTHS[1] {
        let extremes = [
            -1e30, -200.0, -88.0, -20.0, -0.0, 0.0, 1e-30, 20.0, 88.5, 100.0, 1e4,
        ];
        let x = Value::F32 {
            width: extremes.len(),
            rows: Rows::Tokens,
            data: extremes.to_vec(),
        };
        let limit = Limit {
            absolute: 2e-6,
            ..Limit::relative(0.0, "an f32 exponential; large values pass unchanged")
        };
        cases.push(case(Op::Silu, "extremes", extremes.len(), 1, limit).inputs([x]));
    }
}

fn picks(random: &mut Random, cases: &mut Vec<Case>) {
    let indices = [4, 0, 9, 9, 1];
    for ty in TensorType::WEIGHTS {
        let table = random.matrix("table", ty, 512, 10);
        cases.push(
            case(Op::Embed { weight: W0 }, ty.name(), 512, 5, Limit::EXACT)
                .inputs([integers(indices)])
                .weights([table]),
        );
    }
    let x = Value::F32 {
        width: 33,
        rows: Rows::Fixed(10),
        data: random.normals(330),
    };
    cases.push(case(Op::GetRows, "10 x 33", 33, 5, Limit::EXACT).inputs([x, integers(indices)]));
}

fn norms(random: &mut Random, cases: &mut Vec<Case>) {
    for (width, eps) in [(33, 1e-6), (896, 1e-5), (4096, 1e-6)] {
        let x = activations(random, width, ROWS);
        let gain = random.vector("gain", width);
        let op = Op::RmsNorm(Norm { gain: W0, eps });
        let detail = format!("width {width}");
        cases.push(
            case(op, detail, width, ROWS, REDUCED)
                .inputs([x])
                .weights([gain]),
        );
    }
    let tiny = Value::F32 {
        width: 64,
        rows: Rows::Tokens,
        data: random.normals(128).iter().map(|x| x * 1e-4).collect(),
    };
    let op = Op::RmsNorm(Norm {
        gain: W0,
        eps: 1e-5,
    });
    let gain = random.vector("gain", 64);
    cases.push(
        case(op, "epsilon decides", 64, 2, REDUCED)
            .inputs([tiny])
            .weights([gain]),
    );
    for (heads, head_dim) in [(16, 128), (3, 80)] {
        let width = heads * head_dim;
        let x = activations(random, width, ROWS);
        let gain = random.vector("gain", head_dim);
        let norm = Norm {
            gain: W0,
            eps: 1e-6,
        };
        let op = Op::QkNorm { norm, head_dim };
        let detail = format!("{heads} x {head_dim}");
        cases.push(
            case(op, detail, width, ROWS, REDUCED)
                .inputs([x])
                .weights([gain]),
        );
    }
}

fn ropes(random: &mut Random, cases: &mut Vec<Case>) {
    let positions = [0, 1, 77, 4095, 131_071, 999_999, 1_000_000];
    let limit = Limit::relative(6e-7, "f32 products of correctly rounded cosines and sines");
    for style in [RopeStyle::Interleaved, RopeStyle::Split] {
        for (head_dim, n_rot, freq_base, freq_scale, with_factors) in [
            (64, 64, 1e6, 1.0, false),
            (128, 128, 5e5, 1.0, true),
            (80, 32, 1e4, 0.25, false),
        ] {
            let width = 3 * head_dim;
            let rope = Rope {
                style,
                head_dim,
                n_rot,
                freq_base,
                freq_scale,
                factors: with_factors.then_some(W0),
            };
            let weights = match with_factors {
                true => vec![random.vector("rope_freqs.weight", n_rot / 2)],
                false => Vec::new(),
            };
            let x = activations(random, width, positions.len());
            let factors = if with_factors { ", factors" } else { "" };
            let detail = format!("{style:?} {n_rot} of {head_dim}, base {freq_base}{factors}");
            cases.push(
                case(Op::Rope(rope), detail, width, positions.len(), limit)
                    .inputs([x, integers(positions)])
                    .weights(weights),
            );
        }
    }
}

fn softmaxes(random: &mut Random, cases: &mut Vec<Case>) {
    let limit = Limit {
        absolute: 5e-7,
        ..Limit::relative(0.0, "f32 exponentials over their sum, at most 1")
    };
    for (groups, part) in [(1, 33), (4, 100)] {
        let width = groups * part;
        let op = Op::Softmax { groups, scale: 1.7 };
        let x = activations(random, width, ROWS);
        let plain = case(op.clone(), format!("{groups} x {part}"), width, ROWS, limit);
        cases.push(plain.inputs([x.clone()]));
        let positions = [0, 1, 15, 16, 31, 32, 31];
        let masked = format!("{groups} x {part}, masked");
        cases.push(case(op, masked, width, ROWS, limit).inputs([x, integers(positions)]));
    }
}
