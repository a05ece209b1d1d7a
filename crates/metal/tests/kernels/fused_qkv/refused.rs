//! Work that there is none of, or that no kernel can do.

use minfer_gguf::TensorType;
use minfer_graph::{KvFormat, Rope};
use minfer_metal::ops::Rows;
use minfer_metal::ops::fused_qkv::{FusedQkv, serves};
use minfer_softmetal::SoftBuffer;

use super::SHAPE;
use super::case::Case;
use crate::stage::Stage;

#[test]
fn no_rows_are_no_work() {
    let mut stage = Stage::unchecked();
    let found = Case::random(SHAPE).fused_with(&mut stage, |y, operands| {
        (y.rows, operands.x.rows, operands.positions.rows) = (0, 0, 0);
        (operands.cells.rows.rows, operands.cells.values) = (0, &[]);
    });
    assert!(found.unwrap().concat().iter().all(|word| *word == 0));
    assert_eq!(stage.device.statistics().len(), 0);
}

#[test]
fn heads_are_pairs_that_threadgroup_memory_has_room_for() {
    for (head_dim, is_served) in [(0, false), (2, true), (3, false), (256, true), (258, false)] {
        assert_eq!(serves(head_dim), is_served, "{head_dim}");
    }
}

/// The message about operands that `change` spoils.
fn refusal(
    change: impl FnOnce(&mut Rows<'_, SoftBuffer>, &mut FusedQkv<'_, SoftBuffer>),
) -> String {
    let result = Case::random(SHAPE).fused_with(&mut Stage::unchecked(), change);
    let message = result.unwrap_err().to_string();
    message.strip_prefix("fused_qkv: ").unwrap().to_owned()
}

#[test]
fn what_does_not_fit_is_refused() {
    for (found, expected) in [
        (
            refusal(|_, operands| operands.weights[2].ty = TensorType::Q2_K),
            "no kernel reads weights of type Q2_K",
        ),
        (
            refusal(|_, operands| operands.weights[1].offset = 8),
            "the first byte of a weight is 8, a multiple of 16 is needed",
        ),
        (
            refusal(|_, operands| operands.weights[0].in_width = 256),
            "the width of the input is 512, 256 is needed",
        ),
        (
            refusal(|_, operands| operands.weights[2].out_width = 128),
            "the width of the output is 64, 128 is needed",
        ),
        (
            refusal(|_, operands| operands.weights[0].out_width = 128),
            "the width of the output is 192, 128 is needed",
        ),
        (
            refusal(|y, _| y.width = 100),
            "head_dim is 64, even and a divisor of 100 is needed",
        ),
        (
            refusal(|_, operands| operands.x.rows = 2),
            "the rows of the input is 2, 3 is needed",
        ),
        (
            refusal(|_, operands| operands.positions.rows = 2),
            "positions is 2, 3 is needed",
        ),
        (
            refusal(|_, operands| operands.cells.values = &[3, 19, 4]),
            "cell 19 of row 1 is not one of 19",
        ),
        (
            refusal(|_, operands| operands.input_norm.as_mut().unwrap().gain.width = 511),
            "the width of a gain is 511, 512 is needed",
        ),
        (
            refusal(|_, operands| operands.head_norms.as_mut().unwrap()[1].gain.width = 32),
            "the width of a gain is 32, 64 is needed",
        ),
        (
            refusal(|_, operands| operands.biases.as_mut().unwrap()[2].width = 192),
            "the width of a bias is 192, 64 is needed",
        ),
        (
            refusal(|_, operands| {
                operands.keys.shape.head_dim = 32;
                operands.values.shape.head_dim = 32;
            }),
            "head_dim of the region is 32, 64 is needed",
        ),
    ] {
        assert_eq!(found, expected);
    }
    let format = refusal(|_, operands| operands.values.shape.format = KvFormat::F16);
    assert!(format.starts_with("the shape of the values is"), "{format}");
    assert!(
        format.contains("format: F16") && format.contains("format: F32"),
        "{format}"
    );
}

#[test]
fn rotations_that_do_not_fit_are_refused() {
    let with = |change: fn(&mut Rope)| {
        let mut case = Case::random(SHAPE);
        change(&mut case.rope);
        let result = case.fused_with(&mut Stage::unchecked(), |_, _| {});
        result.unwrap_err().to_string()
    };
    for (found, expected) in [
        (
            with(|rope| rope.head_dim = 258),
            "head_dim is 258, even and at most 256 is needed",
        ),
        (
            with(|rope| rope.n_rot = 66),
            "n_rot is 66, even and at most 64 is needed",
        ),
        (
            with(|rope| rope.n_rot = 32),
            "the bytes of the table is 256, 128 is needed",
        ),
    ] {
        assert_eq!(found, format!("fused_qkv: {expected}"));
    }
}
