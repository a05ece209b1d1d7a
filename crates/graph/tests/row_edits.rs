//! Rows of KV regions between steps, on backends without their own copies and rotations.

mod support;

use minfer_graph::{
    Executor, GraphError, KeyRope, KvLayout, KvPart, RopeStyle, Rotation, RowCopy, RowEdit,
    layer_of,
};
use support::*;

const PARTS: [KvPart; 2] = [KvPart::Keys, KvPart::Values];
/// Bytes of a row of 4 features.
const ROW: usize = 16;

/// Two layers on two backends, each row filled with a value of its own.
fn executor() -> Executor {
    let mut executor = Executor::new(
        vec![Mock::new("a").boxed(), Mock::new("b").boxed()],
        kv_layout(),
    );
    for tensor in weights() {
        executor.register_weight(&tensor, None).unwrap();
    }
    executor.set_preference(Some(Box::new(|_, node| layer_of(&node.name))));
    let catalog = executor.catalog().clone();
    executor
        .prepare(&params(1), |params| transformer(&catalog, params))
        .unwrap();
    for layer in 0..LAYERS {
        for part in PARTS {
            let bytes = (0..CELLS).flat_map(|cell| [mark(layer, part, cell); ROW]);
            let bytes: Vec<u8> = bytes.collect();
            executor.write_rows(layer, part, 0..CELLS, &bytes).unwrap();
        }
    }
    executor
}

fn mark(layer: usize, part: KvPart, cell: usize) -> u8 {
    (layer * 64 + usize::from(part == KvPart::Values) * 32 + cell) as u8
}

/// The cell each row came from, which every layer and part must agree on.
fn origins(executor: &mut Executor) -> Vec<usize> {
    let mut all = Vec::new();
    for layer in 0..LAYERS {
        for part in PARTS {
            let mut bytes = vec![0; CELLS * ROW];
            let cells = 0..CELLS;
            executor.read_rows(layer, part, cells, &mut bytes).unwrap();
            let origin = |row: &[u8]| {
                assert_eq!(row, [row[0]; ROW], "a torn row");
                usize::from(row[0] - mark(layer, part, 0))
            };
            all.push(bytes.chunks(ROW).map(origin).collect::<Vec<_>>());
        }
    }
    assert!(all.iter().all(|rows| *rows == all[0]), "{all:?}");
    all.swap_remove(0)
}

fn rope() -> KeyRope {
    KeyRope {
        style: RopeStyle::Split,
        n_rot: 4,
        freq_base: 100.0,
        freq_scale: 1.0,
        factors: None,
    }
}

fn copy(from: usize, to: usize, len: usize) -> RowEdit {
    RowEdit::Copy(RowCopy { from, to, len })
}

fn rotate(cell: usize, len: usize) -> RowEdit {
    RowEdit::Rotate(Rotation { cell, len, by: 1 })
}

#[test]
fn copies_reach_every_layer_in_order() {
    let mut executor = executor();
    // Down and up over themselves, then a row that the second copy wrote.
    let edits = [copy(3, 1, 4), copy(8, 10, 5), copy(10, 0, 1)];
    executor.edit_rows(&edits, &rope()).unwrap();
    assert_eq!(
        origins(&mut executor),
        [8, 3, 4, 5, 6, 5, 6, 7, 8, 9, 8, 9, 10, 11, 12, 15]
    );
}

#[test]
fn a_layer_without_a_region_has_no_rows_to_edit() {
    let mut executor = Executor::new(vec![Mock::new("a").boxed()], kv_layout());
    executor.edit_rows(&[copy(0, 1, 1)], &rope()).unwrap();
    let error = executor.read_rows(1, KvPart::Keys, 0..1, &mut [0; ROW]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "KV region of layer 1: no plan that needs it was prepared yet"
    );
    executor.set_kv_layout(KvLayout::default()).unwrap();
    let error = executor.write_rows(0, KvPart::Keys, 0..1, &[0; ROW]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "KV region of layer 0: only 0 layers have one"
    );
}

#[test]
fn rows_outside_a_region_are_refused_before_anything_changes() {
    let mut executor = executor();
    let unchanged: Vec<usize> = (0..CELLS).collect();
    for (bad, range) in [
        (copy(13, 0, 4), "13..17"),
        (copy(0, 16, 1), "16..17"),
        (
            copy(usize::MAX, 0, 2),
            "18446744073709551615..18446744073709551615",
        ),
        (rotate(10, 7), "10..17"),
    ] {
        let error = executor.edit_rows(&[copy(0, 8, 2), bad], &rope());
        let expected = format!("KV region of layer 0: cells {range} of 16");
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert_eq!(origins(&mut executor), unchanged);
    }
    for cells in [0..17, 17..17] {
        let mut bytes = vec![7; ROW * cells.len()];
        let read = executor.read_rows(1, KvPart::Values, cells.clone(), &mut bytes);
        let write = executor.write_rows(1, KvPart::Values, cells.clone(), &bytes);
        for error in [read.unwrap_err(), write.unwrap_err()] {
            assert!(matches!(
                error,
                GraphError::KvRows {
                    layer: 1,
                    end: 17,
                    ..
                }
            ));
        }
    }
    let error = executor.write_rows(1, KvPart::Keys, 2..5, &[0; 2 * ROW]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "KV region of layer 1: 3 rows take 48 bytes, not 32"
    );
    assert_eq!(origins(&mut executor), unchanged);
    executor.edit_rows(&[copy(0, 16, 0)], &rope()).unwrap();
    executor
        .read_rows(0, KvPart::Keys, 16..16, &mut [])
        .unwrap();
}

#[test]
fn a_rotation_that_does_not_fit_is_refused_before_anything_changes() {
    let mut executor = executor();
    let named = |name: &str| Some(name.to_owned());
    for (rope, expected) in [
        (
            KeyRope { n_rot: 3, ..rope() },
            "n_rot 3 is not even and in 2..=4",
        ),
        (
            KeyRope { n_rot: 6, ..rope() },
            "n_rot 6 is not even and in 2..=4",
        ),
        (
            KeyRope {
                freq_scale: 0.0,
                ..rope()
            },
            "freq_base 100 and freq_scale 0 must be positive",
        ),
        (
            KeyRope {
                factors: named("rope_freqs.weight"),
                ..rope()
            },
            "weight rope_freqs.weight is missing",
        ),
        (
            KeyRope {
                factors: named("output_norm.weight"),
                ..rope()
            },
            "output_norm.weight has shape [8], [2] is needed",
        ),
    ] {
        let error = executor.edit_rows(&[copy(0, 8, 2), rotate(0, 1)], &rope);
        let expected = format!("keys of layer 0 cannot be rotated: {expected}");
        assert_eq!(error.unwrap_err().to_string(), expected);
        assert_eq!(origins(&mut executor), (0..CELLS).collect::<Vec<_>>());
        // Without a rotation it does not matter.
        executor.edit_rows(&[copy(0, 0, 2)], &rope).unwrap();
    }
}

#[test]
fn a_backend_without_rotations_says_so() {
    let error = executor().edit_rows(&[rotate(2, 3)], &rope()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "KV region of layer 0: Rotate(Rotation { cell: 2, len: 3, by: 1 }): a: cannot rotate stored \
         keys, so no context can be shifted here"
    );
}
