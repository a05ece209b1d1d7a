//! A graph that makes keys and values, stores them and attends to them, and the same in double precision.

use minfer_gguf::TensorType;
use minfer_gguf::quantize::{dequantize, quantize};
use minfer_graph::{
    AttentionHeads, Backend, Executor, Fusion, Graph, GraphBuilder, GraphError, GraphParams,
    KvFormat, KvLayout, KvShape, MAX_WINDOW_RUNS, RowCount, Rows, StepInputs, StepRows,
    WindowLayout,
};
use minfer_metal::backend::MetalBackend;
use minfer_metal::device::Device;
use minfer_testdata::Random;

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
}

#[derive(Clone, Copy, Debug)]
pub enum Role {
    Prompt,
    Generated,
}

/// A token: where its key and value go, and the runs of cells that it sees, as first cell and length.
#[derive(Clone, Debug)]
pub struct Row {
    pub cell: usize,
    pub window: Vec<[usize; 2]>,
}

impl Row {
    /// The token at a position of a sequence whose cells follow from positions.
    pub fn at(position: usize, cell_of: impl Fn(usize) -> usize) -> Row {
        let mut window: Vec<[usize; 2]> = Vec::new();
        for cell in (0..=position).map(&cell_of) {
            match window.last_mut() {
                Some([first, len]) if *first + *len == cell => *len += 1,
                _ => window.push([cell, 1]),
            }
        }
        Row {
            cell: cell_of(position),
            window,
        }
    }

    fn keys(&self) -> usize {
        self.window.iter().map(|run| run[1]).sum()
    }
}

/// Queries, keys or values of a token, from its number alone.
fn features(token: usize, which: u64, width: usize) -> Vec<f32> {
    let mut random = Random(token as u64 * 8 + which);
    (0..width)
        .map(|_| random.below(4001) as f32 / 1000.0 - 2.0)
        .collect()
}

/// What the graph multiplies queries, keys and values by, without rounding.
const FACTORS: [f32; 3] = [2.0, -0.5, 4.0];

/// Tokens that are computed on one backend.
pub struct Sequence {
    executor: Executor,
    params: GraphParams,
    shape: Shape,
    /// Keys and values by cell, as stored.
    cells: Vec<Option<[Vec<f64>; 2]>>,
    tokens: usize,
}

impl Sequence {
    pub fn new<D: Device + 'static>(
        backend: MetalBackend<D>,
        shape: Shape,
        kv: (KvFormat, usize),
        window: WindowLayout,
        max_tokens: usize,
    ) -> Self {
        let (format, cells) = kv;
        let region = KvShape {
            cells,
            width: shape.kv_heads * shape.head_dim,
            head_dim: shape.head_dim,
            format,
        };
        let backends: Vec<Box<dyn Backend>> = vec![Box::new(backend)];
        let mut executor = Executor::new(backends, KvLayout::uniform(1, region));
        let params = GraphParams {
            max_tokens,
            max_outputs: 1,
            window,
            kv_format: format,
            fusion: Fusion::default(),
            generated_only: false,
        };
        let layout = executor.kv().layout().clone();
        let catalog = executor.catalog().clone();
        let build =
            |params: &GraphParams| graph(GraphBuilder::new(&catalog, *params, &layout), shape);
        executor.prepare(&params, build).unwrap();
        Sequence {
            executor,
            params,
            shape,
            cells: vec![None; cells],
            tokens: 0,
        }
    }

    fn widths(&self) -> [usize; 3] {
        let Shape {
            heads,
            kv_heads,
            head_dim,
        } = self.shape;
        [heads, kv_heads, kv_heads].map(|heads| heads * head_dim)
    }

    /// Computes tokens: what attention gives, and what it should.
    pub fn run(&mut self, rows: &[Row], role: Role) -> (Vec<f32>, Vec<f64>) {
        let tokens = self.tokens..self.tokens + rows.len();
        self.tokens = tokens.end;
        let widths = self.widths();
        let made = [0, 1, 2].map(|which: usize| -> Vec<f32> {
            let of_token = |token| features(token, which as u64, widths[which]);
            tokens.clone().flat_map(of_token).collect()
        });
        let found = self.compute(rows, role, &made);
        for (i, row) in rows.iter().enumerate() {
            self.cells[row.cell] = Some([1, 2].map(|which| {
                let values = made[which][i * widths[which]..][..widths[which]].iter();
                let values: Vec<_> = values.map(|value| value * FACTORS[which]).collect();
                stored(self.params.kv_format, &values)
            }));
        }
        let expected = rows.iter().zip(made[0].chunks(widths[0]));
        (
            found,
            expected.flat_map(|(row, q)| self.attend(row, q)).collect(),
        )
    }

    fn compute(&mut self, rows: &[Row], role: Role, made: &[Vec<f32>; 3]) -> Vec<f32> {
        let number = |n: usize| i32::try_from(n).unwrap();
        let positions: Vec<_> = rows.iter().map(|row| number(row.keys() - 1)).collect();
        let cells: Vec<_> = rows.iter().map(|row| number(row.cell)).collect();
        let window = |row: &Row| -> Vec<i32> {
            let runs = row.window.iter();
            match self.params.window {
                WindowLayout::Causal => Vec::new(),
                WindowLayout::Span => runs
                    .flat_map(|&[first, len]| [number(first), number(first + len)])
                    .collect(),
                WindowLayout::Map => {
                    let mut runs: Vec<_> = runs.flatten().map(|&n| number(n)).collect();
                    runs.resize(2 * MAX_WINDOW_RUNS, 0);
                    runs
                }
            }
        };
        let window: Vec<_> = rows.iter().flat_map(window).collect();
        let tokens = match role {
            Role::Prompt => RowCount {
                prompt: rows.len(),
                generated: 0,
            },
            Role::Generated => RowCount {
                prompt: 0,
                generated: rows.len(),
            },
        };
        let step = StepInputs {
            rows: StepRows {
                tokens,
                outputs: RowCount::default(),
            },
            positions: &positions,
            cells: &cells,
            window: &window,
            activations: &[&made[0], &made[1], &made[2]],
            ..StepInputs::default()
        };
        let outputs = self.executor.run(&self.params, &step).unwrap();
        outputs.values(0).to_vec()
    }

    fn attend(&self, row: &Row, q: &[f32]) -> Vec<f64> {
        let Shape {
            heads,
            kv_heads,
            head_dim,
        } = self.shape;
        let runs = row
            .window
            .iter()
            .flat_map(|&[first, len]| first..first + len);
        let cells: Vec<_> = runs
            .map(|cell| self.cells[cell].as_ref().unwrap())
            .collect();
        let mut y = Vec::new();
        for (head, q) in q.chunks(head_dim).enumerate() {
            let part = head / (heads / kv_heads) * head_dim..;
            let score = |[key, _]: &&[Vec<f64>; 2]| -> f64 {
                let pairs = q.iter().zip(&key[part.clone()]);
                let products = pairs.map(|(q, k)| f64::from(*q * FACTORS[0]) * k);
                products.sum::<f64>() * f64::from(scale(head_dim))
            };
            let scores: Vec<_> = cells.iter().map(score).collect();
            let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<_> = scores.iter().map(|score| (score - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let value = |feature: usize| {
                let weighted = cells.iter().zip(&weights);
                weighted
                    .map(|([_, value], weight)| weight * value[feature])
                    .sum::<f64>()
                    / total
            };
            y.extend((part.start..part.start + head_dim).map(value));
        }
        y
    }
}

fn scale(head_dim: usize) -> f32 {
    1.0 / (head_dim as f32).sqrt()
}

fn graph(mut b: GraphBuilder<'_>, shape: Shape) -> Result<Graph, GraphError> {
    let width = shape.kv_heads * shape.head_dim;
    let mut made = Vec::new();
    for (n, width) in [shape.heads * shape.head_dim, width, width]
        .into_iter()
        .enumerate()
    {
        let x = b.activations(n as u32, width, Rows::Tokens)?;
        made.push(b.scale(x, FACTORS[n], ["q", "k", "v"][n])?);
    }
    let stored = b.kv_store(made[1], made[2], 0)?;
    let heads = AttentionHeads {
        n_head: shape.heads,
        n_head_kv: shape.kv_heads,
        head_dim: shape.head_dim,
        scale: scale(shape.head_dim),
    };
    let y = b.attention(made[0], stored, heads)?;
    b.output(y)?;
    Ok(b.finish())
}

/// A key or value after its encoding.
fn stored(format: KvFormat, values: &[f32]) -> Vec<f64> {
    let ty = match format {
        KvFormat::F32 => TensorType::F32,
        KvFormat::F16 => TensorType::F16,
        KvFormat::Q8_0 => TensorType::Q8_0,
    };
    let mut decoded = vec![0.0; values.len()];
    dequantize(ty, &quantize(ty, values).unwrap(), &mut decoded).unwrap();
    decoded.into_iter().map(f64::from).collect()
}
