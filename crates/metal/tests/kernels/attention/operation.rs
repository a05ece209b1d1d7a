//! An operation on a case, with scratch memory.

use minfer_gguf::TensorType::{F16, F32, Q8_0};
use minfer_graph::{Attention, KvFormat, KvShape, WindowLayout};
use minfer_metal::device::{BufferRange, Device};
use minfer_metal::ops::attention::Inputs;
use minfer_metal::ops::kv::Cells;
use minfer_metal::ops::{Encode, Indices, OpError, Rows};
use minfer_softmetal::{Mode, Options, SoftBuffer, SoftDevice};

use super::case::{Case, Windows};
use crate::launch::options;
use crate::stage::{Stage, words};

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

/// The same in a mode of the device.
pub fn encode_in(
    mode: Mode,
    case: &Case,
    scratch: [usize; 2],
    operation: Operation,
) -> Result<(Vec<u32>, usize), OpError> {
    let options = Options { mode, ..options() };
    encode_on(&mut Stage::new(options), case, scratch, operation)
}

/// The same on a device.
pub fn encode_on(
    stage: &mut Stage,
    case: &Case,
    scratch: [usize; 2],
    operation: Operation,
) -> Result<(Vec<u32>, usize), OpError> {
    let (windows, window_width) = case.windows.encoded();
    let q: Vec<_> = case.q.iter().flat_map(|x| x.to_le_bytes()).collect();
    let [q, keys, values] = [&q, &case.keys, &case.values].map(|bytes| stage.bytes(bytes));
    let places = stage.integers(&windows);
    let shape = [case.width(), case.windows.rows()];
    let y = stage.device.buffer(4 * shape[0] * shape[1], "y")?;
    let bytes = 4 * (scratch[0] * scratch[1]).max(1);
    let memory = stage.device.buffer(bytes, "scratch")?;
    stage.device.discard(BufferRange::whole(&memory))?;
    let region = region(case);
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
    let mut dispatches = 0;
    stage.run(|encode| {
        let scratch = rows(&memory, scratch);
        operation(encode, &attention(case), rows(&y, shape), inputs, scratch)?;
        dispatches = encode.encoder.dispatches();
        Ok(())
    })?;
    Ok((words(&y), dispatches))
}

fn region(case: &Case) -> KvShape {
    KvShape {
        cells: case.keys.len() / case.cell_bytes(),
        width: case.heads.kv * case.heads.dim,
        head_dim: case.heads.dim,
        format: match case.ty {
            F32 => KvFormat::F32,
            F16 => KvFormat::F16,
            Q8_0 => KvFormat::Q8_0,
            ty => panic!("no region of {ty}"),
        },
    }
}
