//! What works on rows of activations, picks rows, or touches memory.

use minfer_graph::{Rope, RopeStyle};
use minfer_metal::device::{BufferRange, Device};
use minfer_metal::ops::elementwise::{self, Binary};
use minfer_metal::ops::norm::rms_norm;
use minfer_metal::ops::rope::{Turns, rope};
use minfer_metal::ops::rows::{embed, get_rows};
use minfer_metal::ops::touch::{self, touch_pages};
use minfer_metal::ops::{Encode, OpError, Rows};
use minfer_softmetal::{SoftBuffer, SoftDevice};

use super::table::{Table, Work};
use super::{HEAD_DIM, PROMPT, WIDTH};
use crate::stage::{Weight, indices, list};
use crate::values::values;
use crate::weights::{TYPES, WeightType};

/// Of an embedding whose rows are whole blocks of every type.
const EMBEDDED: usize = 1024;
const PAGES: usize = 64;

/// An operation of three values of a shape.
type Operation = fn(&mut Encode<'_, SoftDevice>, [Rows<'_, SoftBuffer>; 3]) -> Result<(), OpError>;

pub fn count(table: &mut Table) {
    let operations: [Operation; 6] = [
        |encode, [y, a, b]| elementwise::binary(encode, Binary::Add, y, a, b),
        |encode, [y, a, b]| elementwise::binary(encode, Binary::Mul, y, a, b),
        |encode, [y, a, b]| elementwise::binary(encode, Binary::SwiGlu, y, a, b),
        |encode, [y, x, _]| elementwise::scale(encode, y, x, 0.5),
        |encode, [y, x, _]| elementwise::silu(encode, y, x),
        |encode, [y, x, gain]| rms_norm(encode, y, x, Rows { rows: 1, ..gain }, 1e-6),
    ];
    for operation in operations {
        activation(table, operation);
    }
    rotate(table);
    pick(table);
    for ty in &TYPES {
        embedding(table, ty);
    }
    touch(table);
}

fn activation(table: &mut Table, operation: Operation) {
    let work = Work::new(format!("{PROMPT} rows of {WIDTH}"));
    table.count(&work, |stage| {
        let operands = [1, 2, 3].map(|seed| stage.value(WIDTH, 0, &values(PROMPT * WIDTH, seed)));
        stage
            .run(|encode| operation(encode, operands.each_ref().map(|value| value.rows())))
            .unwrap();
    });
}

fn rotate(table: &mut Table) {
    for style in [RopeStyle::Split, RopeStyle::Interleaved] {
        let rotation = Rope {
            style,
            head_dim: HEAD_DIM,
            n_rot: HEAD_DIM,
            freq_base: 1e6,
            freq_scale: 1.0,
            factors: None,
        };
        let turns = Turns::new(&rotation, None).unwrap();
        let heads = WIDTH / HEAD_DIM;
        let style = format!("{style:?}").to_lowercase();
        let work = Work::new(format!("{PROMPT} rows of {heads} heads, {style}"));
        table.count(&work, |stage| {
            let [y, x] = [1, 2].map(|seed| stage.value(WIDTH, 0, &values(PROMPT * WIDTH, seed)));
            let positions = stage.integers(&(0..PROMPT as i32).collect::<Vec<_>>());
            let positions = list(&positions, PROMPT);
            stage
                .run(|encode| rope(encode, &rotation, y.rows(), x.rows(), positions, &turns))
                .unwrap();
        });
    }
}

/// The rows whose logits are wanted.
fn pick(table: &mut Table) {
    let picked = [9, 30, 44, 63];
    let work = Work::new(format!("{} of {PROMPT} rows of {WIDTH}", picked.len()));
    table.count(&work, |stage| {
        let x = stage.value(WIDTH, 0, &values(PROMPT * WIDTH, 1));
        let y = stage.value(WIDTH, 0, &values(picked.len() * WIDTH, 2));
        let places = stage.integers(&picked);
        let picked = indices(&places, &picked);
        stage
            .run(|encode| get_rows(encode, y.rows(), x.rows(), picked))
            .unwrap();
    });
}

fn embedding(table: &mut Table, ty: &'static WeightType) {
    let tokens: Vec<_> = (0..PROMPT as i32).map(|i| i * 7 % PROMPT as i32).collect();
    let weight = Weight::random(ty, [EMBEDDED, PROMPT], 1);
    let work = Work::new(format!("{PROMPT} rows of {EMBEDDED}"));
    table.count(&work, |stage| {
        let buffer = stage.bytes(&weight.bytes);
        let places = stage.integers(&tokens);
        let y = stage.value(EMBEDDED, 0, &vec![0.0; PROMPT * EMBEDDED]);
        let (matrix, tokens) = (weight.matrix(&buffer), indices(&places, &tokens));
        stage
            .run(|encode| embed(encode, y.rows(), matrix, tokens))
            .unwrap();
    });
}

fn touch(table: &mut Table) {
    let work = Work::new(format!("{PAGES} pages"));
    table.count(&work, |stage| {
        let page_bytes = stage.device.info().page_bytes;
        let memory = stage.bytes(&vec![1; PAGES * page_bytes]);
        let words = stage.bytes(&vec![0; touch::words(&memory, page_bytes)]);
        stage
            .run(|encode| touch_pages(encode, BufferRange::whole(&words), &memory))
            .unwrap();
    });
}
