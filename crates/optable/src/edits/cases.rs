//! The cases.

use minfer_gguf::quantize::quantize;
use minfer_graph::{KeyRope, KvFormat, KvShape, RopeStyle, Rotation, RowCopy, RowEdit};

use super::reference::{self, Frequencies};
use super::{EditCase, Origin};
use crate::case::Region;
use crate::cases::{FORMATS, region};
use crate::random::Random;
use crate::reference::attention::cell_type;

const CELLS: usize = 80;
/// Cells that a rotation turns; those around them stay.
const TURNED: std::ops::Range<usize> = 3..77;

/// Kinds of edits.
pub fn edit_names() -> [&'static str; 2] {
    ["Copy", "Rotate"]
}

/// Every case, grouped by format.
pub fn edit_cases() -> Vec<EditCase> {
    let mut random = Random::new(5);
    let mut cases = Vec::new();
    for format in FORMATS {
        copies(&mut random, format, &mut cases);
        for style in [RopeStyle::Interleaved, RopeStyle::Split] {
            rotations(&mut random, format, style, &mut cases);
        }
    }
    cases
}

fn copies(random: &mut Random, format: KvFormat, cases: &mut Vec<EditCase>) {
    let shape = KvShape {
        cells: CELLS,
        width: 96,
        head_dim: 32,
        format,
    };
    for (from, to, len) in [
        (0, 20, 20),
        (20, 0, 20),
        (5, 4, 35),
        (4, 5, 35),
        (10, 3, 12),
        (3, 10, 12),
        (7, 7, 9),
        (39, 0, 1),
        (11, 12, 0),
    ] {
        cases.push(EditCase {
            detail: format!("{format:?} {from}..{} to {to}", from + len),
            edit: RowEdit::Copy(RowCopy { from, to, len }),
            rope: rope(RopeStyle::Split, 32, 1e4),
            factors: None,
            region: region(random, shape),
            origin: None,
        });
    }
}

fn rope(style: RopeStyle, n_rot: usize, freq_base: f32) -> KeyRope {
    KeyRope {
        style,
        n_rot,
        freq_base,
        freq_scale: 1.0,
        factors: None,
    }
}

fn rotations(random: &mut Random, format: KvFormat, style: RopeStyle, cases: &mut Vec<EditCase>) {
    let scaled = KeyRope {
        freq_scale: 0.25,
        ..rope(style, 48, 1e4)
    };
    let with_factors = KeyRope {
        factors: Some("rope_freqs.weight".to_owned()),
        ..rope(style, 128, 5e5)
    };
    for (head_dim, rope) in [
        (64, rope(style, 64, 1e6)),
        (128, with_factors),
        (96, scaled),
        (64, self::rope(style, 32, 1e4)),
    ] {
        let shape = KvShape {
            cells: CELLS,
            width: 3 * head_dim,
            head_dim,
            format,
        };
        for by in [0, 1, 77, 4095, 1_000_000] {
            cases.push(rotation(random, shape, &rope, by));
        }
    }
}

fn rotation(random: &mut Random, shape: KvShape, rope: &KeyRope, by: usize) -> EditCase {
    let factors = rope
        .factors
        .as_ref()
        .map(|name| random.vector(name, rope.n_rot / 2));
    let frequencies = Frequencies::new(rope, factors.as_ref());
    let keys: Vec<f64> = random
        .normals(shape.cells * shape.width)
        .into_iter()
        .map(f64::from)
        .collect();
    let positions: Vec<usize> = (0..shape.cells).map(|cell| by + 5 * cell).collect();
    let encoded = keys
        .chunks(shape.width)
        .zip(&positions)
        .flat_map(|(key, &position)| {
            let turned = frequencies.rotate(&shape, key, position as f64);
            let turned: Vec<f32> = turned.into_iter().map(|x| x as f32).collect();
            let mut cell = quantize(cell_type(shape.format), &turned).expect("a KV format");
            cell.resize(cell.len().next_multiple_of(4), reference::PADDING);
            cell
        });
    let region = Region {
        keys: encoded.collect(),
        ..region(random, shape)
    };
    let given = if factors.is_some() { ", factors" } else { "" };
    EditCase {
        detail: format!(
            "{:?} {:?} {} of {}, base {}{given}, by {by}",
            shape.format, rope.style, rope.n_rot, shape.head_dim, rope.freq_base
        ),
        edit: RowEdit::Rotate(Rotation {
            cell: TURNED.start,
            len: TURNED.len(),
            by,
        }),
        rope: rope.clone(),
        factors,
        region,
        origin: Some(Origin { keys, positions }),
    }
}
