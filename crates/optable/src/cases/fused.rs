//! Nodes that stand for several.

use minfer_gguf::{Tensor, TensorType};
use minfer_graph::{
    FusedMatMul, FusedQkv, KvFormat, KvShape, Norm, Op, Rope, RopeStyle, Rows, WeightId,
};

use super::attention::{FORMATS, region};
use super::products::SUMMED;
use super::{activations, case, integers, product_of};
use crate::case::{Case, Value};
use crate::limit::Product;
use crate::random::Random;

/// Row counts that kernels for few rows split differently.
const ROWS: [usize; 7] = [1, 2, 3, 5, 8, 9, 17];

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(4);
    let mut cases = Vec::new();
    let types = TensorType::WEIGHTS;
    for (i, ty) in types.into_iter().enumerate() {
        let plain = Qkv::plain([ty; 3]);
        cases.push(ffn(&mut random, [ty, ty], false, 9));
        cases.extend(FORMATS.map(|format| qkv(&mut random, Qkv { format, ..plain })));
        // Every type with another one, after a norm.
        let other = |distance: usize| types[(i + distance) % types.len()];
        let rows = ROWS[i % ROWS.len()];
        cases.push(ffn(&mut random, [ty, other(4)], true, rows));
        cases.push(qkv(
            &mut random,
            Qkv {
                types: [ty, other(5), other(7)],
                format: FORMATS[i % FORMATS.len()],
                input_norm: true,
                biases: i % 4 == 1,
                norms: i % 4 == 2,
                rows,
                ..plain
            },
        ));
        // Every combination twice, with different types.
        for parts in [i + 1, (i + 9) % 16] {
            cases.push(matmul(&mut random, ty, parts, ROWS[(i + parts) % 7]));
        }
    }
    for (gate, up) in [
        (TensorType::Q4_K, TensorType::Q6_K),
        (TensorType::F16, TensorType::Q8_0),
    ] {
        cases.push(ffn(&mut random, [gate, up], false, 9));
    }
    for format in FORMATS {
        for (biases, norms) in [(true, false), (false, true), (true, true)] {
            let mixed = Qkv {
                format,
                biases,
                norms,
                ..Qkv::plain([TensorType::Q4_K, TensorType::Q4_K, TensorType::Q6_K])
            };
            cases.push(qkv(&mut random, mixed));
        }
        cases.extend(head_shapes(&mut random, format));
    }
    cases
}

/// Heads as models have them, after a norm, and rotations of a part.
fn head_shapes(random: &mut Random, format: KvFormat) -> [Case; 3] {
    let q4 = Qkv {
        format,
        input_norm: true,
        ..Qkv::plain([TensorType::Q5_0, TensorType::Q5_0, TensorType::Q8_0])
    };
    let qwen2 = Qkv {
        biases: true,
        heads: [64, 14, 2],
        ..q4
    };
    let qwen3 = Qkv {
        types: [TensorType::Q4_K, TensorType::Q4_K, TensorType::Q6_K],
        norms: true,
        heads: [128, 2, 1],
        rows: 9,
        ..q4
    };
    let part = Qkv {
        types: [TensorType::F16, TensorType::BF16, TensorType::F32],
        style: RopeStyle::Interleaved,
        n_rot: 40,
        factors: true,
        heads: [64, 3, 3],
        rows: 2,
        ..q4
    };
    [qwen2, qwen3, part].map(|variant| qkv(random, variant))
}

fn product(types: &[TensorType]) -> Product {
    match types.iter().all(|ty| product_of(*ty) == Product::Float) {
        true => Product::Float,
        false => Product::Quantized,
    }
}

/// Weights as they are made, by id.
struct Weights<'a> {
    random: &'a mut Random,
    made: Vec<Tensor>,
}

impl<'a> Weights<'a> {
    fn new(random: &'a mut Random) -> Self {
        let made = Vec::new();
        Weights { random, made }
    }

    fn add(&mut self, weight: Tensor) -> WeightId {
        self.made.push(weight);
        WeightId(self.made.len() as u32 - 1)
    }

    fn matrix(&mut self, name: &str, ty: TensorType, [from, to]: [usize; 2]) -> WeightId {
        let weight = self.random.matrix(name, ty, from, to);
        self.add(weight)
    }

    fn vector(&mut self, name: &str, width: usize) -> WeightId {
        let weight = self.random.vector(name, width);
        self.add(weight)
    }

    fn norm(&mut self, name: &str, width: usize) -> Norm {
        Norm {
            gain: self.vector(name, width),
            eps: 1e-6,
        }
    }
}

/// `, name` for each name that applies.
fn listed<const N: usize>(parts: [(bool, &str); N]) -> String {
    let names = parts.into_iter().filter(|(on, _)| *on);
    names.map(|(_, name)| format!(", {name}")).collect()
}

fn ffn(random: &mut Random, types: [TensorType; 2], norm: bool, rows: usize) -> Case {
    let (in_dim, width) = (256, 150);
    let mut weights = Weights::new(random);
    let [gate, up] = [("gate", types[0]), ("up", types[1])]
        .map(|(name, ty)| weights.matrix(name, ty, [in_dim, width]));
    let op = Op::FusedFfn {
        gate,
        up,
        input_norm: norm.then(|| weights.norm("norm", in_dim)),
    };
    let made = weights.made;
    let x = activations(random, in_dim, rows);
    let named = listed([(norm, "norm")]);
    let detail = format!("{} and {} x {rows}{named}", types[0], types[1]);
    let limit = SUMMED.with(product(&types));
    case(op, detail, width, rows, limit)
        .inputs([x])
        .weights(made)
}

/// The lowest bits of `parts` say what there is beside the product.
fn matmul(random: &mut Random, ty: TensorType, parts: usize, rows: usize) -> Case {
    let [norm, bias, residual, gathered] = [1, 2, 4, 8].map(|part| parts & part != 0);
    let (in_dim, width) = (256 + 256 * (rows % 3), 30 + 7 * rows);
    let mut weights = Weights::new(random);
    let node = FusedMatMul {
        weight: weights.matrix("weight", ty, [in_dim, width]),
        input_norm: norm.then(|| weights.norm("norm", in_dim)),
        bias: bias.then(|| weights.vector("bias", width)),
        residual,
        gathered,
    };
    let made = weights.made;
    let sources = rows + 3;
    let mut source = |width| match gathered {
        true => Value::F32 {
            width,
            rows: Rows::Fixed(sources),
            data: random.normals(width * sources),
        },
        false => activations(random, width, rows),
    };
    let mut inputs = vec![source(in_dim)];
    if residual {
        inputs.push(source(width));
    }
    if gathered {
        let numbers: Vec<_> = (0..rows).map(|r| ((r * 5 + 2) % sources) as i32).collect();
        inputs.push(integers(numbers));
    }
    let named = listed([
        (norm, "norm"),
        (bias, "bias"),
        (residual, "residual"),
        (gathered, "gathered"),
    ]);
    let detail = format!("{ty} [{in_dim}, {width}] x {rows}{named}");
    let limit = SUMMED.with(product_of(ty));
    let op = Op::FusedMatMul(Box::new(node));
    case(op, detail, width, rows, limit)
        .inputs(inputs)
        .weights(made)
}

#[derive(Clone, Copy)]
struct Qkv {
    types: [TensorType; 3],
    format: KvFormat,
    input_norm: bool,
    biases: bool,
    norms: bool,
    /// Features of a head, heads of q, heads of k and v.
    heads: [usize; 3],
    style: RopeStyle,
    n_rot: usize,
    factors: bool,
    rows: usize,
}

impl Qkv {
    fn plain(types: [TensorType; 3]) -> Self {
        Qkv {
            types,
            format: KvFormat::F32,
            input_norm: false,
            biases: false,
            norms: false,
            heads: [32, 7, 2],
            style: RopeStyle::Split,
            n_rot: 32,
            factors: false,
            rows: 5,
        }
    }

    fn detail(&self) -> String {
        let Qkv { types, format, .. } = self;
        let [head_dim, heads, kv_heads] = self.heads;
        let named = listed([
            (self.input_norm, "norm"),
            (self.biases, "biases"),
            (self.norms, "head norms"),
            (self.factors, "factors"),
        ]);
        format!(
            "{} {} {} to {format:?}, {heads}/{kv_heads} heads of {head_dim} x {}{named}",
            types[0], types[1], types[2], self.rows
        )
    }
}

fn qkv(random: &mut Random, variant: Qkv) -> Case {
    let in_dim = 256;
    let [head_dim, heads, kv_heads] = variant.heads;
    let widths = [heads, kv_heads, kv_heads].map(|n| n * head_dim);
    let mut weights = Weights::new(random);
    let projections = [(0, "q"), (1, "k"), (2, "v")];
    let projected =
        projections.map(|(i, name)| weights.matrix(name, variant.types[i], [in_dim, widths[i]]));
    let mut bias = |(i, name)| weights.vector(&format!("{name}.bias"), widths[i]);
    let biases = variant.biases.then(|| projections.map(&mut bias));
    let mut head_norm = |name| weights.norm(name, head_dim);
    let norms = (variant.norms).then(|| ["q_norm", "k_norm"].map(&mut head_norm));
    let node = FusedQkv {
        weights: projected,
        biases,
        norms,
        input_norm: (variant.input_norm).then(|| weights.norm("norm", in_dim)),
        rope: Rope {
            style: variant.style,
            head_dim,
            n_rot: variant.n_rot,
            freq_base: 1e4,
            freq_scale: 1.0,
            factors: (variant.factors).then(|| weights.vector("factors", variant.n_rot / 2)),
        },
        layer: 0,
        kv_width: widths[1],
    };
    let made = weights.made;
    let shape = KvShape {
        cells: 30,
        width: widths[1],
        head_dim,
        format: variant.format,
    };
    let rows = variant.rows;
    let positions: Vec<_> = (0..rows).map(|r| [7, 8, 9, 3000, 0][r % 5]).collect();
    let cells: Vec<_> = (0..rows)
        .map(|r| ((r * 7 + 29) % shape.cells) as i32)
        .collect();
    let inputs = [
        activations(random, in_dim, rows),
        integers(positions),
        integers(cells),
    ];
    let limit = SUMMED.with(product(&variant.types));
    let op = Op::FusedQkv(Box::new(node));
    case(op, variant.detail(), widths[0], rows, limit)
        .inputs(inputs)
        .weights(made)
        .kv(region(random, shape))
}
