//! The operation: both kernels with checked operands.

use std::time::Duration;

use minfer_gguf::TensorType::F32;
use minfer_graph::{Attention, KvFormat, KvShape, WindowLayout};
use minfer_metal::device::{Buffer, BufferRange, CommandBuffer, Device, Order};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::attention::Inputs;
use minfer_metal::ops::flash_decode::{Chunks, flash_decode, partials};
use minfer_metal::ops::kv::Cells;
use minfer_metal::ops::{Encode, Indices, Kernels, OpError, Rows};
use minfer_softmetal::{SoftBuffer, SoftDevice};

use super::{heads, run};
use crate::attention::case::{Case, Windows};
use crate::launch::options;

const CELLS: usize = 600;
/// Most chunks of a window.
const MOST: usize = 16;
const SPANS: [[i32; 2]; 3] = [[3, 40], [7, 7], [0, 600]];

fn case() -> Case {
    Case::new(F32, heads(4, 2, 64), CELLS, Windows::Spans(SPANS.to_vec()))
}

fn attention(head_dim: usize) -> Attention {
    Attention {
        layer: 0,
        n_head: 4,
        n_head_kv: 2,
        head_dim,
        scale: 0.125,
        window: WindowLayout::Span,
    }
}

fn upload(device: &SoftDevice, bytes: &[u8]) -> SoftBuffer {
    let buffer = device.buffer(bytes.len(), "operand").unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// The bits of the output, of partials that are `beyond` rows too many.
fn encode(attention: &Attention, beyond: usize) -> Result<Vec<u32>, OpError> {
    let case = case();
    let spans = SPANS.concat();
    let device = SoftDevice::new(options());
    let q: Vec<_> = case.q.iter().flat_map(|x| x.to_le_bytes()).collect();
    let windows: Vec<_> = spans.iter().flat_map(|x| x.to_le_bytes()).collect();
    let [q, keys, values, windows] =
        [&q, &case.keys, &case.values, &windows].map(|bytes| upload(&device, bytes));
    let y = device.buffer(4 * 256 * 3, "y").unwrap();
    let [width, count] = partials(attention, &spans, MOST)?;
    // Never written: the checker reports a partial that is read all the same.
    let scratch = device
        .buffer(4 * width * (count + beyond), "partials")
        .unwrap();
    device.discard(BufferRange::whole(&scratch))?;
    let shape = KvShape {
        cells: CELLS,
        width: 128,
        head_dim: 64,
        format: KvFormat::F32,
    };
    let rows = |buffer, width, rows| Rows {
        buffer,
        offset: 0,
        width,
        stride: width,
        rows,
    };
    let [keys, values] = [&keys, &values].map(|buffer| Cells { buffer, shape });
    let commands = device.command_buffer("attention")?;
    let mut encoder = TrackedEncoder::new(commands.compute(Order::Concurrent)?);
    let mut to = Encode {
        device: &device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "attention",
    };
    let inputs = Inputs {
        q: rows(&q, 256, 3),
        keys,
        values,
        windows: Indices {
            rows: rows(&windows, 2, 3),
            values: &spans,
        },
    };
    let chunks = Chunks {
        most: MOST,
        partials: rows(&scratch, width, count + beyond),
    };
    flash_decode(&mut to, attention, rows(&y, 256, 3), inputs, chunks)?;
    encoder
        .end::<SoftDevice>()
        .submit(Duration::from_secs(60))?;
    assert!(device.take_reports().is_empty());
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes)?;
    let words = bytes.as_chunks().0.iter();
    Ok(words.map(|word| u32::from_le_bytes(*word)).collect())
}

#[test]
fn it_is_what_the_kernels_give() {
    let expected: Vec<_> = run(&case()).iter().map(|x| x.to_bits()).collect();
    assert_eq!(encode(&attention(64), 0).unwrap(), expected);
}

/// 600 keys are 10 chunks of 64, or 4 of 160.
#[test]
fn partials_are_as_many_as_the_longest_window_has_chunks() {
    let shape = |dim, spans: &[i32], most| partials(&attention(dim), spans, most).unwrap();
    assert_eq!(shape(64, &SPANS.concat(), MOST), [66, 3 * 4 * 10]);
    assert_eq!(shape(64, &SPANS.concat(), 4), [66, 3 * 4 * 4]);
    assert_eq!(shape(64, &[7, 7], MOST), [66, 4]);
    assert_eq!(shape(128, &[0, 512], MOST), [130, 4 * 16]);
    assert_eq!(shape(128, &[0, 513], MOST), [130, 4 * 9]);
    for most in [0, 17] {
        let error = partials(&attention(64), &[0, 1], most).unwrap_err();
        let expected = format!("flash_decode: chunks is {most}, 1 to 16 is needed");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let message = |attention, beyond| encode(&attention, beyond).unwrap_err().to_string();
    assert_eq!(
        message(attention(96), 0),
        "flash_decode_f32: head_dim is 96, 64 or 128 is needed"
    );
    assert_eq!(
        message(attention(64), 1),
        "flash_decode_f32: the rows of the partials is 121, 120 is needed"
    );
}
