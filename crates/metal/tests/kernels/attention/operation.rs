//! An operation on a case, with scratch memory.

use std::time::Duration;

use minfer_gguf::TensorType::{F16, F32, Q8_0};
use minfer_graph::{Attention, KvFormat, KvShape, WindowLayout};
use minfer_metal::device::{Buffer, BufferRange, CommandBuffer, Device, Order};
use minfer_metal::hazard::TrackedEncoder;
use minfer_metal::ops::attention::Inputs;
use minfer_metal::ops::kv::Cells;
use minfer_metal::ops::{Encode, Indices, Kernels, OpError, Rows};
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice};

use super::case::{Case, Windows};
use crate::launch::options;

/// An operation with scratch memory as its last operand.
pub type Operation = fn(
    &mut Encode<'_, SoftDevice>,
    &Attention,
    Rows<'_, SoftBuffer>,
    Inputs<'_, SoftBuffer>,
    Rows<'_, SoftBuffer>,
) -> Result<(), OpError>;

/// What the graph asks for in a case.
pub fn attention(case: &Case) -> Attention {
    Attention {
        layer: 0,
        n_head: case.heads.query,
        n_head_kv: case.heads.kv,
        head_dim: case.heads.dim,
        scale: case.scale(),
        window: match case.windows {
            Windows::Causal(_) => WindowLayout::Causal,
            Windows::Spans(_) => WindowLayout::Span,
            Windows::Maps(_) => WindowLayout::Map,
        },
    }
}

fn upload(device: &SoftDevice, bytes: &[u8]) -> SoftBuffer {
    let buffer = device.buffer(bytes.len(), "operand").unwrap();
    buffer.write(0, bytes).unwrap();
    buffer
}

fn rows<B>(buffer: &B, [width, rows]: [usize; 2]) -> Rows<'_, B> {
    Rows {
        buffer,
        offset: 0,
        width,
        stride: width,
        rows,
    }
}

/// The bits of the output and the number of dispatches; with a shape of scratch memory, which nothing has written.
pub fn encode(
    case: &Case,
    scratch: [usize; 2],
    operation: Operation,
) -> Result<(Vec<u32>, usize), OpError> {
    encode_in(Mode::Checked, case, scratch, operation)
}

pub fn encode_in(
    mode: Mode,
    case: &Case,
    scratch: [usize; 2],
    operation: Operation,
) -> Result<(Vec<u32>, usize), OpError> {
    let device = SoftDevice::new(Options { mode, ..options() });
    let (windows, window_width) = case.windows.encoded();
    let bytes: Vec<_> = windows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let q: Vec<_> = case.q.iter().flat_map(|x| x.to_le_bytes()).collect();
    let [q, keys, values, places] =
        [&q, &case.keys, &case.values, &bytes].map(|bytes| upload(&device, bytes));
    let shape = [case.width(), case.windows.rows()];
    let y = device.buffer(4 * shape[0] * shape[1], "y")?;
    let memory = device.buffer(4 * (scratch[0] * scratch[1]).max(1), "scratch")?;
    device.discard(BufferRange::whole(&memory))?;
    let region = KvShape {
        cells: case.keys.len() / case.cell_bytes(),
        width: case.heads.kv * case.heads.dim,
        head_dim: case.heads.dim,
        format: match case.ty {
            F32 => KvFormat::F32,
            F16 => KvFormat::F16,
            Q8_0 => KvFormat::Q8_0,
            ty => panic!("no region of {ty}"),
        },
    };
    let [keys, values] = [&keys, &values].map(|buffer| Cells {
        buffer,
        shape: region,
    });
    let inputs = Inputs {
        q: rows(&q, shape),
        keys,
        values,
        windows: Indices {
            rows: rows(&places, [window_width as usize, shape[1]]),
            values: &windows,
        },
    };
    let commands = device.command_buffer("attention")?;
    let mut encoder = TrackedEncoder::new(commands.compute(Order::Concurrent)?);
    let mut to = Encode {
        device: &device,
        kernels: &mut Kernels::default(),
        encoder: &mut encoder,
        label: "attention",
    };
    let scratch = rows(&memory, scratch);
    operation(&mut to, &attention(case), rows(&y, shape), inputs, scratch)?;
    let dispatches = encoder.dispatches();
    let end = encoder.end::<SoftDevice>();
    end.submit(Duration::from_secs(60))?;
    assert!(device.take_reports().is_empty());
    let mut bytes = vec![0; y.bytes()];
    y.read(0, &mut bytes)?;
    let words = bytes.as_chunks().0.iter();
    let bits = words.map(|word| u32::from_le_bytes(*word)).collect();
    Ok((bits, dispatches))
}
