//! The operations of the mock backend, written from their definitions in the IR.

use std::ops::Range;

use minfer_graph::{
    Attention, Backend, BackendError, FusedMatMul, FusedQkv, Graph, KvRegion, Norm, Op, Operand,
    Rope, RopeStyle, RowCount, Task, WindowLayout,
};

use super::Mock;

impl Mock {
    pub(super) fn compute(&mut self, task: Task<'_>) -> Result<(), BackendError> {
        let y = task.output;
        let x = task.inputs;
        let name = |id| task.graph.weight_name(id);
        match &task.node.op {
            Op::Embed { weight } => self.map(y, |m, i, r| {
                m.weights[name(*weight)][m.index(&x[0], r) * y.width + i]
            }),
            Op::GetRows => self.map(y, |m, i, r| m.get(&x[0], i, m.index(&x[1], r))),
            Op::MatMul { weight } => self.map(y, |m, o, r| m.dot(name(*weight), &x[0], o, r)),
            Op::AddBias { weight } => {
                self.map(y, |m, i, r| {
                    m.get(&x[0], i, r) + m.weights[name(*weight)][i]
                });
            }
            Op::Add => self.map(y, |m, i, r| m.get(&x[0], i, r) + m.get(&x[1], i, r)),
            Op::Mul => self.map(y, |m, i, r| m.get(&x[0], i, r) * m.get(&x[1], i, r)),
            Op::Scale { factor } => self.map(y, |m, i, r| factor * m.get(&x[0], i, r)),
            Op::Silu => self.map(y, |m, i, r| silu(m.get(&x[0], i, r))),
            Op::SwiGlu => self.map(y, |m, i, r| silu(m.get(&x[0], i, r)) * m.get(&x[1], i, r)),
            Op::FusedFfn {
                gate,
                up,
                input_norm,
            } => {
                let x = self.normed(x[0], input_norm, task.graph);
                self.map(y, |m, o, r| {
                    silu(m.dot(name(*gate), &x, o, r)) * m.dot(name(*up), &x, o, r)
                });
            }
            Op::FusedMatMul(product) => self.fused_matmul(&task, product),
            Op::RmsNorm(norm) => self.norm(y, &x[0], name(norm.gain), norm, y.width),
            Op::QkNorm { norm, head_dim } => {
                self.norm(y, &x[0], name(norm.gain), norm, *head_dim);
            }
            Op::Rope(rope) => self.rope(y, &x[0], &x[1], rope),
            Op::KvStore { .. } => self.kv_store(x, task.kv.expect("a region")),
            Op::KvLoad { values, .. } => {
                let region = task.kv.expect("a region");
                let cells = cells(region, *values);
                self.map(y, |m, i, r| m.get(&cells, i, r));
            }
            Op::Attention(attention) => {
                self.attention(y, x, attention, task.kv.expect("a region"));
            }
            Op::FusedQkv(qkv) => self.fused_qkv(&task, qkv),
            op => return Err(self.error(format!("{} is not in the mock", op.name()))),
        }
        Ok(())
    }

    /// Sets every element; `f` may read the element it replaces, so it can run in place.
    fn map(&mut self, y: Operand, f: impl Fn(&Mock, usize, usize) -> f32) {
        for row in 0..y.rows.total() {
            for feature in 0..y.width {
                let value = f(self, feature, row);
                self.set(&y, feature, row, value);
            }
        }
    }

    fn dot(&self, weight: &str, x: &Operand, output: usize, row: usize) -> f32 {
        let weights = &self.weights[weight][output * x.width..];
        (0..x.width).map(|i| weights[i] * self.get(x, i, row)).sum()
    }

    fn norm(&mut self, y: Operand, x: &Operand, gain: &str, norm: &Norm, group: usize) {
        for row in 0..y.rows.total() {
            for first in (0..y.width).step_by(group) {
                let squares = (first..first + group).map(|i| self.get(x, i, row).powi(2));
                let mean = squares.sum::<f32>() / group as f32;
                for i in first..first + group {
                    let gain = self.weights[gain][i - first];
                    let value = self.get(x, i, row) / (mean + norm.eps).sqrt() * gain;
                    self.set(&y, i, row, value);
                }
            }
        }
    }

    /// A new value.
    fn value(&mut self, width: usize, rows: RowCount) -> Operand {
        let buffer = self.alloc(4 * width * rows.total());
        Operand {
            buffer: buffer.expect("the mock has memory"),
            offset: 0,
            width,
            stride: width,
            rows,
        }
    }

    fn normed(&mut self, x: Operand, norm: &Option<Norm>, graph: &Graph) -> Operand {
        let Some(norm) = norm else { return x };
        let y = self.value(x.width, x.rows);
        self.norm(y, &x, graph.weight_name(norm.gain), norm, x.width);
        y
    }

    fn fused_matmul(&mut self, task: &Task<'_>, product: &FusedMatMul) {
        let (y, name) = (task.output, |id| task.graph.weight_name(id));
        let numbers = product.gathered.then(|| task.inputs[product.inputs() - 1]);
        let x = self.normed(task.inputs[0], &product.input_norm, task.graph);
        self.map(y, |m, o, r| {
            let r = numbers.map_or(r, |numbers| m.index(&numbers, r));
            let mut value = m.dot(name(product.weight), &x, o, r);
            if let Some(bias) = product.bias {
                value += m.weights[name(bias)][o];
            }
            if product.residual {
                value += m.get(&task.inputs[1], o, r);
            }
            value
        });
    }

    fn rope(&mut self, y: Operand, x: &Operand, positions: &Operand, rope: &Rope) {
        let half = rope.n_rot / 2;
        for row in 0..y.rows.total() {
            for i in 0..y.width {
                let (head, d) = (i / rope.head_dim * rope.head_dim, i % rope.head_dim);
                let (pair, partner) = match rope.style {
                    RopeStyle::Interleaved => (d / 2, d ^ 1),
                    RopeStyle::Split => (d % half, (d + half) % rope.n_rot),
                };
                // The first of a pair turns both, so that it works in place.
                if d >= rope.n_rot || partner < d {
                    continue;
                }
                let frequency = rope.freq_base.powf(-2.0 * pair as f32 / rope.n_rot as f32);
                let angle = self.index(positions, row) as f32 * rope.freq_scale * frequency;
                let (a, b) = (self.get(x, i, row), self.get(x, head + partner, row));
                self.set(&y, i, row, a * angle.cos() - b * angle.sin());
                self.set(&y, head + partner, row, a * angle.sin() + b * angle.cos());
            }
        }
    }

    fn kv_store(&mut self, x: &[Operand], region: KvRegion) {
        let [k, v, indices] = x else {
            panic!("{} inputs", x.len())
        };
        for row in 0..k.rows.total() {
            let cell = self.index(indices, row);
            for i in 0..k.width {
                let (key, value) = (self.get(k, i, row), self.get(v, i, row));
                self.set(&cells(region, false), i, cell, key);
                self.set(&cells(region, true), i, cell, value);
            }
        }
    }

    fn fused_qkv(&mut self, task: &Task<'_>, qkv: &FusedQkv) {
        let (positions, indices) = (&task.inputs[1], task.inputs[2]);
        let x = &self.normed(task.inputs[0], &qkv.input_norm, task.graph);
        let [k, v] = [0, 1].map(|_| self.value(qkv.kv_width, x.rows));
        let name = |id| task.graph.weight_name(id);
        for (i, y) in [task.output, k, v].into_iter().enumerate() {
            self.map(y, |m, o, r| m.dot(name(qkv.weights[i]), x, o, r));
            if let Some(biases) = &qkv.biases {
                self.map(y, |m, o, r| m.get(&y, o, r) + m.weights[name(biases[i])][o]);
            }
            if i == 2 {
                continue;
            }
            if let Some(norms) = &qkv.norms {
                self.norm(y, &y, name(norms[i].gain), &norms[i], qkv.rope.head_dim);
            }
            self.rope(y, &y, positions, &qkv.rope);
        }
        self.kv_store(&[k, v, indices], task.kv.expect("a region"));
    }

    fn attention(&mut self, y: Operand, x: &[Operand], a: &Attention, region: KvRegion) {
        let (keys, values) = (cells(region, false), cells(region, true));
        for row in 0..y.rows.total() {
            for head in 0..a.n_head {
                let group = head / (a.n_head / a.n_head_kv) * a.head_dim;
                let first = head * a.head_dim;
                let mut scores = std::mem::take(&mut self.scores);
                scores.clear();
                for run in 0..runs(a.window) {
                    for cell in self.run(x, a.window, row, run) {
                        let products = (0..a.head_dim).map(|i| {
                            self.get(&x[0], first + i, row) * self.get(&keys, group + i, cell)
                        });
                        scores.push(products.sum::<f32>() * a.scale);
                    }
                }
                let max = scores.iter().fold(f32::NEG_INFINITY, |m, s| m.max(*s));
                let sum: f32 = scores.iter().map(|s| (s - max).exp()).sum();
                for i in 0..a.head_dim {
                    let (mut n, mut total) = (0, 0.0);
                    for run in 0..runs(a.window) {
                        for cell in self.run(x, a.window, row, run) {
                            let p = (scores[n] - max).exp();
                            total += p * self.get(&values, group + i, cell);
                            n += 1;
                        }
                    }
                    self.set(&y, first + i, row, total / sum);
                }
                self.scores = scores;
            }
        }
    }

    /// Cells of one run of a row's window.
    fn run(&self, x: &[Operand], layout: WindowLayout, row: usize, run: usize) -> Range<usize> {
        let bound = |i| self.bits(&x[3], i, row) as usize;
        match layout {
            WindowLayout::Causal => 0..self.index(&x[1], row) + 1,
            WindowLayout::Span => bound(0)..bound(1),
            WindowLayout::Map => bound(2 * run)..bound(2 * run) + bound(2 * run + 1),
        }
    }
}

fn runs(layout: WindowLayout) -> usize {
    match layout {
        WindowLayout::Map => minfer_graph::MAX_WINDOW_RUNS,
        _ => 1,
    }
}

fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// The keys or values of a region as an operand.
fn cells(region: KvRegion, values: bool) -> Operand {
    Operand {
        buffer: if values { region.values } else { region.keys },
        offset: 0,
        width: region.shape.width,
        stride: region.shape.width,
        rows: RowCount {
            prompt: region.shape.cells,
            generated: 0,
        },
    }
}
