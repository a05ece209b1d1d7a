//! Stores, rotations and copies of KV cells.

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_graph::{KeyRope, KvFormat, RopeStyle, Rotation, WindowLayout};
use minfer_metal::ops::kv::{self, Cells};
use minfer_metal::ops::kv_rotate::kv_rotate;
use minfer_metal::ops::kv_stage::{Staging, kv_stage};
use minfer_softmetal::SoftBuffer;

use super::table::{Table, Work};
use super::{CELLS, FORMATS, HEAD_DIM, PROMPT, region};
use crate::attention::case::cell_of;
use crate::stage::{Stage, indices};
use crate::values::values;

pub fn count(table: &mut Table) {
    for format in FORMATS {
        store(table, format);
    }
    for format in FORMATS {
        rotate(table, format);
    }
    stage(table);
}

/// A region that is full.
fn full(stage: &Stage, format: KvFormat) -> SoftBuffer {
    let width = region(format).width;
    let rows = values(CELLS * width, 1);
    let cells = rows.chunks(width).map(|row| cell_of(element(format), row));
    stage.bytes(&cells.collect::<Vec<_>>().concat())
}

fn element(format: KvFormat) -> TensorType {
    match format {
        KvFormat::F32 => F32,
        KvFormat::F16 => F16,
        KvFormat::Q8_0 => Q8_0,
    }
}

fn store(table: &mut Table, format: KvFormat) {
    let shape = region(format);
    let work = Work::new(format!("{PROMPT} rows of {}", shape.width));
    let cells: Vec<_> = (0..PROMPT as i32).collect();
    table.count(&work, |stage| {
        let buffer = full(stage, format);
        let to = Cells {
            buffer: &buffer,
            shape,
        };
        let x = stage.value(shape.width, 0, &values(PROMPT * shape.width, 2));
        let places = stage.integers(&cells);
        let cells = indices(&places, &cells);
        stage
            .run(|encode| kv::store(encode, to, x.rows(), cells))
            .unwrap();
    });
}

fn rotate(table: &mut Table, format: KvFormat) {
    let shape = region(format);
    let rope = KeyRope {
        style: RopeStyle::Split,
        n_rot: HEAD_DIM,
        freq_base: 1e6,
        freq_scale: 1.0,
        factors: None,
    };
    let rotation = Rotation {
        cell: 0,
        len: CELLS,
        by: 32,
    };
    let work = Work::new(format!("{CELLS} cells of {}", shape.width));
    table.count(&work, |stage| {
        let buffer = full(stage, format);
        let keys = Cells {
            buffer: &buffer,
            shape,
        };
        stage
            .run(|encode| kv_rotate(encode, keys, rotation, &rope, None))
            .unwrap();
    });
}

fn stage(table: &mut Table) {
    let shape = region(KvFormat::Q8_0);
    let staging = Staging::new(WindowLayout::Causal, &[CELLS as i32 - 1], CELLS).unwrap();
    let staged = staging.shape(shape);
    let work = Work::new(format!("{CELLS} cells of {}", shape.width));
    table.count(&work, |stage| {
        let from = full(stage, KvFormat::Q8_0);
        let to = full(stage, KvFormat::F32);
        let [to, from] =
            [(&to, staged), (&from, shape)].map(|(buffer, shape)| Cells { buffer, shape });
        stage
            .run(|encode| kv_stage(encode, to, from, &staging))
            .unwrap();
    });
}
