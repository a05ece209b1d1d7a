//! Rows of KV regions between steps: what an executor of CPU backends keeps, moves and rotates.

mod support;

use minfer_gguf::TensorType;
use minfer_gguf::quantize::dequantize;
use minfer_graph::{
    Executor, Fusion, GraphBuilder, GraphError, Input, KeyRope, KvFormat, KvLayout, KvPart,
    KvShape, RopeStyle, Rotation, RowCopy, RowEdit, Rows,
};
use support::*;

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
const PARTS: [KvPart; 2] = [KvPart::Keys, KvPart::Values];
const KV_WIDTH: usize = 64;
const TOKENS: usize = 40;

/// How [`support`]'s transformer rotates.
fn rope() -> KeyRope {
    KeyRope {
        style: RopeStyle::Split,
        n_rot: 32,
        freq_base: 1e4,
        freq_scale: 1.0,
        factors: None,
    }
}

/// Stores the same tokens in `cells..`, from `position` on.
fn stored(format: KvFormat, position: usize, cell: usize) -> Executor {
    let mut executor = executor(2, 2, format);
    let mut tokens = sequence(1, 0, 0..TOKENS);
    for (i, token) in tokens.iter_mut().enumerate() {
        token.position = (position + i) as i32;
        token.base = cell as i32 - position as i32;
    }
    let params = params(TOKENS, format, Fusion::default());
    // Windows begin at the base, which must be a cell.
    assert!(cell >= position);
    step(&mut executor, &params, &tokens, prompt(TOKENS));
    executor
}

fn rows(executor: &mut Executor, layer: usize, part: KvPart, cell: usize) -> Vec<u8> {
    let shape = executor.kv().layout().layer(layer).expect("a layer");
    let mut bytes = vec![0; TOKENS * shape.cell_bytes().expect("whole blocks")];
    executor
        .read_rows(layer, part, cell..cell + TOKENS, &mut bytes)
        .expect("rows");
    bytes
}

fn decoded(format: KvFormat, bytes: &[u8]) -> Vec<f32> {
    let ty = match format {
        KvFormat::F32 => TensorType::F32,
        KvFormat::F16 => TensorType::F16,
        KvFormat::Q8_0 => TensorType::Q8_0,
    };
    let mut values = vec![0.0; TOKENS * KV_WIDTH];
    dequantize(ty, bytes, &mut values).expect("cells without padding");
    values
}

#[test]
fn keys_turned_back_are_those_of_the_earlier_positions() {
    for format in FORMATS {
        let (from, to) = (300, 620);
        let mut shifted = stored(format, 250, from);
        let before: Vec<_> = PARTS.map(|part| rows(&mut shifted, 0, part, from)).into();
        let edits = [
            RowEdit::Rotate(Rotation {
                cell: from,
                len: TOKENS,
                by: 250,
            }),
            RowEdit::Copy(RowCopy {
                from,
                to,
                len: TOKENS,
            }),
        ];
        shifted.edit_rows(&edits, &rope()).expect("edits");
        for layer in 0..LAYERS {
            for part in PARTS {
                let moved = rows(&mut shifted, layer, part, to);
                assert_eq!(moved, rows(&mut shifted, layer, part, from), "{layer}");
            }
        }

        // Keys and values of the first layer depend on the token and its position alone.
        let mut expected = stored(format, 0, to);
        let values = rows(&mut shifted, 0, KvPart::Values, to);
        assert_eq!(values, before[1]);
        assert_eq!(values, rows(&mut expected, 0, KvPart::Values, to));
        let keys = decoded(format, &rows(&mut shifted, 0, KvPart::Keys, to));
        let wanted = decoded(format, &rows(&mut expected, 0, KvPart::Keys, to));
        let old = decoded(format, &before[0]);
        let largest = wanted.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        // Both were rounded when they were stored, one of them twice.
        let step = match format {
            KvFormat::F32 => 5e-7,
            KvFormat::F16 => 1.0 / 2048.0,
            KvFormat::Q8_0 => 0.5 / 127.0 + 1.0 / 2048.0,
        };
        let off = |a: &[f32]| {
            assert!(a.iter().all(|a| a.is_finite()));
            let pairs = a.iter().zip(&wanted);
            pairs.fold(0.0f32, |m, (a, b)| m.max((a - b).abs())) / largest
        };
        assert!(off(&keys) < 4.0 * step, "{format:?} {}", off(&keys));
        assert!(off(&old) > 0.5, "{format:?}: nothing was rotated");
    }
}

#[test]
fn rows_written_to_another_executor_go_on_as_they_were() {
    for format in FORMATS {
        let mut source = stored(format, 0, 0);
        let mut copy = executor(1, 1, format);
        let params = params(TOKENS, format, Fusion::default());
        prepare(&mut copy, &params);
        for layer in 0..LAYERS {
            for part in PARTS {
                let bytes = rows(&mut source, layer, part, 0);
                copy.write_rows(layer, part, 0..TOKENS, &bytes)
                    .expect("the same shape");
            }
        }
        let next = sequence(1, 0, TOKENS..TOKENS + 1);
        let expected = step(&mut source, &params, &next, generated(1));
        let found = step(&mut copy, &params, &next, generated(1));
        assert_eq!(found, expected, "{format:?}");
    }
}

#[test]
fn the_padding_of_a_cell_reads_as_zeros() {
    let shape = KvShape {
        cells: 4,
        width: 32,
        head_dim: 32,
        format: KvFormat::Q8_0,
    };
    let layout = KvLayout::uniform(1, shape);
    let pool = std::sync::Arc::new(minfer_cpu::Pool::new(1).expect("threads"));
    let backend = minfer_cpu::CpuBackend::new(pool, Default::default()).expect("a CPU");
    let mut executor = Executor::new(vec![Box::new(backend)], layout.clone());
    let params = params(1, KvFormat::Q8_0, Fusion::default());
    let catalog = Default::default();
    let mut b = GraphBuilder::new(&catalog, params, &layout);
    let k = b.activations(0, 32, Rows::Tokens).expect("an input");
    b.input(Input::Cells).expect("an input");
    let stored = b.kv_store(k, k, 0).expect("a store");
    b.output(stored).expect("f32");
    let graph = b.finish();
    executor
        .prepare(&params, |_| Ok::<_, GraphError>(graph))
        .expect("a plan");
    executor
        .write_rows(0, KvPart::Keys, 1..3, &[0xff; 2 * 36])
        .expect("rows");
    let mut bytes = [7; 2 * 36];
    executor
        .read_rows(0, KvPart::Keys, 1..3, &mut bytes)
        .expect("rows");
    for cell in bytes.chunks(36) {
        assert_eq!((&cell[..34], &cell[34..]), (&[0xff; 34][..], &[0; 2][..]));
    }
}
