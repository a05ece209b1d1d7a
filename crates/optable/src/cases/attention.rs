//! Operations on KV regions.

use minfer_gguf::quantize::quantize;
use minfer_graph::{Attention, KvFormat, KvShape, Op, Rows, WindowLayout};

use super::{activations, case, integers};
use crate::case::{Case, Region, Value};
use crate::limit::Limit;
use crate::random::Random;
use crate::reference::attention::cell_type;

pub(crate) const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(3);
    let mut cases = Vec::new();
    for format in FORMATS {
        stores(&mut random, format, &mut cases);
        for (heads, kv_heads, head_dim) in [(14, 2, 64), (4, 4, 128), (6, 2, 80)] {
            let width = kv_heads * head_dim;
            let shape = KvShape {
                cells: 300,
                width,
                head_dim,
                format,
            };
            if shape.cell_bytes().is_ok() {
                attentions(&mut random, shape, heads, &mut cases);
            }
        }
    }
    cases
}

/// A region of random cells.
pub(crate) fn region(random: &mut Random, shape: KvShape) -> Region {
    let mut encode = || {
        let mut bytes = Vec::new();
        for _ in 0..shape.cells {
            let row = random.normals(shape.width);
            bytes.extend(quantize(cell_type(shape.format), &row).expect("a KV format"));
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    };
    Region {
        shape,
        keys: encode(),
        values: encode(),
    }
}

fn stores(random: &mut Random, format: KvFormat, cases: &mut Vec<Case>) {
    let shape = KvShape {
        cells: 20,
        width: 96,
        head_dim: 32,
        format,
    };
    let [k, v] = [0, 1].map(|_| activations(random, shape.width, 5));
    let cells = integers([3, 0, 19, 7, 8]);
    let store = case(
        Op::KvStore { layer: 0 },
        format!("{format:?}"),
        shape.width,
        5,
        Limit::EXACT,
    );
    cases.push(store.inputs([k, v, cells]).kv(region(random, shape)));
    for values in [false, true] {
        let op = Op::KvLoad { layer: 0, values };
        let detail = format!("{format:?} {}", if values { "values" } else { "keys" });
        let load = case(op, detail, shape.width, 13, Limit::EXACT);
        cases.push(Case {
            rows: Rows::Fixed(13),
            kv: Some(region(random, shape)),
            inputs: vec![Value::Stored { width: shape.width }],
            ..load
        });
    }
}

fn attentions(random: &mut Random, shape: KvShape, heads: usize, cases: &mut Vec<Case>) {
    let positions = [0, 63, 64, 299, 130, 255, 256];
    let spans = [
        [0, 1],
        [5, 290],
        [64, 128],
        [0, 300],
        [200, 264],
        [299, 300],
        [1, 258],
    ];
    let maps = [
        [0, 1, 0, 0, 0, 0, 0, 0],
        [10, 70, 200, 30, 0, 0, 0, 0],
        [10, 70, 200, 31, 0, 0, 0, 0],
        [250, 50, 0, 50, 100, 5, 90, 2],
        [0, 300, 0, 0, 0, 0, 0, 0],
        [100, 0, 7, 64, 0, 0, 150, 64],
        [3, 1, 5, 1, 7, 1, 9, 1],
    ];
    for layout in [WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map] {
        let window = match layout {
            WindowLayout::Causal => None,
            WindowLayout::Span => Some(spans.concat()),
            WindowLayout::Map => Some(maps.concat()),
        };
        let attention = Attention {
            layer: 0,
            n_head: heads,
            n_head_kv: shape.width / shape.head_dim,
            head_dim: shape.head_dim,
            scale: 1.5 / (shape.head_dim as f32).sqrt(),
            window: layout,
        };
        let width = heads * shape.head_dim;
        let rows = positions.len();
        let mut inputs = vec![
            activations(random, width, rows),
            integers(positions),
            Value::Stored { width: shape.width },
        ];
        inputs.extend(window.map(|data| Value::I32 {
            width: layout.input_width(),
            rows: Rows::Tokens,
            data,
        }));
        let detail = format!(
            "{:?} {layout:?}, {heads}/{} heads of {}",
            shape.format, attention.n_head_kv, shape.head_dim
        );
        let limit = Limit::relative(1e-5, "f32 scores, exponentials and weighted sums");
        cases.push(
            case(Op::Attention(attention), detail, width, rows, limit)
                .inputs(inputs)
                .kv(region(random, shape)),
        );
    }
}
