//! Nodes that stand for several: the same kernels in the same order, with fewer passes.

use minfer_graph::{FusedQkv, WeightId};

use super::Scratch;
use super::call::Call;
use super::error::NodeError;
use super::execute::{frequencies, store};
use crate::matmul::{self, Product};
use crate::ops::{elementwise, norm, rope};
use crate::view::MatMut;
use crate::{Isa, Pool};

/// The first `width * rows` elements of a vector that grows on demand.
fn values(buffer: &mut Vec<f32>, width: usize, rows: usize) -> MatMut<'_> {
    if buffer.len() < width * rows {
        buffer.resize(width * rows, 0.0);
    }
    MatMut::new(buffer, width, rows)
}

/// `silu(gate(x)) * up(x)`.
pub(super) fn ffn(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    [gate, up]: [WeightId; 2],
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let x = call.input(0)?;
    let (width, rows) = (call.task.output.width, call.rows());
    let mut out = call.output_apart()?;
    let [up_values, _] = &mut scratch.values;
    let mut up_values = values(up_values, width, rows);
    let products = [
        Product {
            weight: call.matrix(gate, x.width(), width)?,
            out: out.slice_rows(0..rows),
        },
        Product {
            weight: call.matrix(up, x.width(), width)?,
            out: up_values.slice_rows(0..rows),
        },
    ];
    let prompt = call.task.output.rows.prompt;
    // SAFETY: the outputs lie apart from `x`, and this thread alone uses the buffers.
    unsafe { matmul::multiply(isa, pool, x, prompt, products, &mut scratch.matmul) }?;
    let up_values = up_values.as_ref();
    out.for_each_row(pool, |r, y| elementwise::swiglu(isa, y, up_values.row(r)));
    Ok(())
}

/// Projections, biases, norms and rotation of q, k and v; k and v go to the KV region.
pub(super) fn qkv(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    node: &FusedQkv,
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let (width, kv_width, rows) = (call.task.output.width, node.kv_width, call.rows());
    let (positions, cells) = (call.input(1)?, call.input(2)?);
    let mut q = call.output_apart()?;
    let [k, v] = &mut scratch.values;
    let (mut k, mut v) = (values(k, kv_width, rows), values(v, kv_width, rows));
    project(
        isa,
        pool,
        call,
        node,
        [&mut q, &mut k, &mut v],
        &mut scratch.matmul,
    )?;

    let angles = &mut scratch.angles;
    angles.prepare(pool, frequencies(call, &node.rope)?, positions);
    let widths = [width, kv_width, kv_width];
    for (i, out) in [&mut q, &mut k, &mut v].into_iter().enumerate() {
        let bias = match node.biases {
            Some(biases) => Some(call.vector(biases[i], widths[i])?),
            None => None,
        };
        let head_norm = match node.norms.as_ref().and_then(|norms| norms.get(i)) {
            Some(norm) => Some((call.vector(norm.gain, node.rope.head_dim)?, norm.eps)),
            None => None,
        };
        let rotated = i < 2;
        if bias.is_none() && !rotated {
            continue;
        }
        out.slice_rows(0..rows).for_each_row(pool, |r, y| {
            if let Some(bias) = bias {
                elementwise::add(isa, y, bias);
            }
            if let Some((gain, eps)) = head_norm {
                norm::rms_norm(isa, y, gain, eps);
            }
            if rotated {
                rope::rotate(isa, node.rope.style, node.rope.head_dim, y, angles.row(r));
            }
        });
    }
    store(isa, pool, call, [k.as_ref(), v.as_ref()], cells)
}

fn project(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    node: &FusedQkv,
    [q, k, v]: [&mut MatMut<'_>; 3],
    scratch: &mut matmul::Scratch,
) -> Result<(), NodeError> {
    let x = call.input(0)?;
    let rows = call.rows();
    let [wq, wk, wv] = node.weights;
    let products = [
        Product {
            weight: call.matrix(wq, x.width(), q.width())?,
            out: q.slice_rows(0..rows),
        },
        Product {
            weight: call.matrix(wk, x.width(), k.width())?,
            out: k.slice_rows(0..rows),
        },
        Product {
            weight: call.matrix(wv, x.width(), v.width())?,
            out: v.slice_rows(0..rows),
        },
    ];
    let prompt = call.task.output.rows.prompt;
    // SAFETY: the outputs lie apart from `x`, and this thread alone uses the buffers.
    Ok(unsafe { matmul::multiply(isa, pool, x, prompt, products, scratch) }?)
}
