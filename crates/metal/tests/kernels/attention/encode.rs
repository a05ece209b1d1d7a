//! The operation: the kernel with checked operands.

use std::time::Duration;

use minfer_gguf::TensorType::Q8_0;
use minfer_graph::{Attention, KvFormat, KvShape, WindowLayout};
use minfer_metal::device::{Buffer, CommandBuffer, Device, Order};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::attention::{Inputs, attention};
use minfer_metal::ops::kv::Cells;
use minfer_metal::ops::{Encode, Indices, Kernels, OpError, Rows};
use minfer_softmetal::{SoftBuffer, SoftDevice};

use super::case::{Case, Heads, Windows};

const CELLS: usize = 40;
const WINDOWS: [[i32; 8]; 3] = [
    [0, 3, 30, 10, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 0],
    [5, 20, 0, 0, 99, 0, 2, 2],
];

/// What the operation is asked to do.
#[derive(Clone)]
struct Request {
    attention: Attention,
    shapes: [KvShape; 2],
    q: [usize; 2],
    y: [usize; 2],
    windows: Vec<i32>,
}

fn request() -> Request {
    let shape = KvShape {
        cells: CELLS,
        width: 64,
        head_dim: 32,
        format: KvFormat::Q8_0,
    };
    Request {
        attention: Attention {
            layer: 0,
            n_head: 4,
            n_head_kv: 2,
            head_dim: 32,
            scale: 1.0 / 32f32.sqrt(),
            window: WindowLayout::Map,
        },
        shapes: [shape; 2],
        q: [128, 3],
        y: [128, 3],
        windows: WINDOWS.concat(),
    }
}

fn case() -> Case {
    let heads = Heads {
        query: 4,
        kv: 2,
        dim: 32,
    };
    Case::new(Q8_0, heads, CELLS, Windows::Maps(WINDOWS.to_vec()))
}

fn upload(device: &SoftDevice, bytes: &[u8]) -> SoftBuffer {
    let buffer = device.buffer(bytes.len().max(4), "operand").unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

/// The bits of `y` after the operation.
fn encode(request: &Request) -> Result<Vec<u32>, OpError> {
    let case = case();
    let device = SoftDevice::new(crate::launch::options());
    let q: Vec<_> = case.q.iter().flat_map(|x| x.to_le_bytes()).collect();
    let windows: Vec<_> = request
        .windows
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let [q, keys, values, windows] =
        [&q, &case.keys, &case.values, &windows].map(|bytes| upload(&device, bytes));
    let y = device.buffer(4 * 128 * 3, "y").unwrap();
    let command_buffer = device.command_buffer("attention").unwrap();
    let mut encoder = TrackedEncoder::new(command_buffer.compute(Order::Concurrent).unwrap());
    let mut kernels = Kernels::default();
    let mut to = Encode {
        device: &device,
        kernels: &mut kernels,
        encoder: &mut encoder,
        label: "attention",
    };
    let rows = |buffer, [width, rows]: [usize; 2]| Rows {
        buffer,
        offset: 0,
        width,
        stride: width,
        rows,
    };
    let width = request.attention.window.input_width().max(1);
    let indices = Indices {
        rows: rows(&windows, [width, request.windows.len() / width]),
        values: &request.windows,
    };
    let [keys, values] = [(&keys, 0), (&values, 1)].map(|(buffer, which)| Cells {
        buffer,
        shape: request.shapes[which],
    });
    attention(
        &mut to,
        &request.attention,
        rows(&y, request.y),
        Inputs {
            q: rows(&q, request.q),
            keys,
            values,
            windows: indices,
        },
    )?;
    let end = encoder.end::<SoftDevice>();
    end.submit(Duration::from_secs(60))?;
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes)?;
    let words = bytes.as_chunks().0.iter();
    Ok(words.map(|word| u32::from_le_bytes(*word)).collect())
}

#[test]
fn it_is_what_the_kernel_gives() {
    let expected: Vec<_> = case().run().iter().map(|x| x.to_bits()).collect();
    assert_eq!(encode(&request()).unwrap(), expected);
}

#[test]
fn no_rows_are_no_work() {
    let nothing = Request {
        q: [128, 0],
        y: [128, 0],
        windows: Vec::new(),
        ..request()
    };
    assert!(encode(&nothing).unwrap().iter().all(|bits| *bits == 0));
}

/// The message about a request that `change` spoils.
fn refusal(change: impl FnOnce(&mut Request)) -> String {
    let mut request = request();
    change(&mut request);
    encode(&request).unwrap_err().to_string()
}

#[test]
fn heads_that_do_not_fit_are_refused() {
    for (found, expected) in [
        (
            refusal(|r| r.attention.n_head = 3),
            "attention_q8_0: n_head is 3, a multiple of n_head_kv 2 is needed",
        ),
        (
            refusal(|r| r.attention.n_head_kv = 0),
            "attention_q8_0: n_head is 4, a multiple of n_head_kv 0 is needed",
        ),
        (
            refusal(|r| r.attention.n_head_kv = 4),
            "attention_q8_0: the width of the region is 64, 128 is needed",
        ),
        (
            refusal(|r| r.attention.head_dim = 64),
            "attention_q8_0: head_dim of the region is 32, 64 is needed",
        ),
        (
            refusal(|r| r.attention.head_dim = 544),
            "attention_q8_0: head_dim is 544, 1 to 512 is needed",
        ),
        (
            refusal(|r| r.q[0] = 96),
            "attention_q8_0: the width of the queries is 96, 128 is needed",
        ),
        (
            refusal(|r| r.y[1] = 2),
            "attention_q8_0: the rows of the queries is 3, 2 is needed",
        ),
    ] {
        assert_eq!(found, expected);
    }
    let other_format = refusal(|r| r.shapes[1].format = KvFormat::F16);
    assert!(other_format.contains("format: F16") && other_format.contains("format: Q8_0"));
}

#[test]
fn windows_outside_of_the_region_are_refused() {
    for (window, found) in [
        ([38, 3], "38..41"),
        ([-1, 3], "-1..2"),
        ([5, -1], "5..4"),
        ([i32::MAX, i32::MAX], "2147483647..4294967294"),
    ] {
        let message = refusal(|r| r.windows[10..12].copy_from_slice(&window));
        let expected = "attention_q8_0: a window is cells";
        assert_eq!(
            message,
            format!("{expected} {found} of row 1, within 0..40 is needed")
        );
    }
    let position = |position: i32| {
        let message = refusal(|r| {
            r.attention.window = WindowLayout::Causal;
            r.windows = vec![3, position, 39];
        });
        message.replace("attention_q8_0: a window is cells ", "")
    };
    assert_eq!(position(40), "0..41 of row 1, within 0..40 is needed");
    assert_eq!(position(-1), "-1..0 of row 1, within 0..40 is needed");
    let spans = refusal(|r| {
        r.attention.window = WindowLayout::Span;
        r.windows.truncate(4);
    });
    assert_eq!(
        spans,
        "attention_q8_0: the rows of the windows is 2, 3 is needed"
    );
}
