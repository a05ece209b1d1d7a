//! Runs a checked node: operands to views, views to kernels.

use std::sync::{Mutex, PoisonError};

use minfer_graph::{Attention, KvRegion, Op, Rope, WeightId, WindowLayout};

use super::call::Call;
use super::error::{NodeError, require};
use super::{Scratch, fused};
use crate::matmul::{self, Product};
use crate::ops::batch_matmul::{self, HeadGroups};
use crate::ops::embed::{self, Table};
use crate::ops::rope::FrequenciesRef;
use crate::ops::{elementwise, kv, norm, rope, softmax};
use crate::view::MatRef;
use crate::{Isa, Pool, attention};

/// Rows from which keys and values are stored by two threads.
const PARALLEL_STORE: usize = 16;

pub(super) fn run(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let width = call.task.output.width;
    match &call.task.node.op {
        // Their values are where the caller, or their input, put them.
        Op::Input(_) | Op::View { .. } => Ok(()),
        Op::Embed { weight } => embed_rows(isa, pool, call, *weight),
        Op::GetRows => {
            let rows = call.task.inputs[0].rows.total();
            let (x, indices) = (call.input_rows(0, rows)?, call.input(1)?);
            Ok(embed::get_rows(pool, x, indices, call.output()?)?)
        }
        Op::MatMul { weight } => multiply(isa, pool, call, *weight, scratch),
        Op::AddBias { weight } => {
            let bias = call.vector(*weight, width)?;
            in_place(pool, call, |_, y| elementwise::add(isa, y, bias))
        }
        Op::Add => binary(pool, call, |y, b| elementwise::add(isa, y, b)),
        Op::Mul => binary(pool, call, |y, b| elementwise::mul(isa, y, b)),
        Op::SwiGlu => binary(pool, call, |y, b| elementwise::swiglu(isa, y, b)),
        Op::Scale { factor } => in_place(pool, call, |_, y| elementwise::scale(isa, y, *factor)),
        Op::Silu => in_place(pool, call, |_, y| elementwise::silu(isa, y)),
        Op::RmsNorm(norm) => {
            let gain = call.vector(norm.gain, width)?;
            in_place(pool, call, |_, y| norm::rms_norm(isa, y, gain, norm.eps))
        }
        Op::QkNorm { norm, head_dim } => {
            let gain = call.vector(norm.gain, *head_dim)?;
            in_place(pool, call, |_, y| norm::rms_norm(isa, y, gain, norm.eps))
        }
        Op::Rope(rope) => rotate(isa, pool, call, rope, scratch),
        Op::Softmax { groups, scale } => soften(isa, pool, call, *groups, *scale),
        Op::BatchMatMul {
            heads,
            kv_heads,
            transposed,
        } => {
            let groups = HeadGroups {
                heads: *heads,
                kv_heads: *kv_heads,
            };
            batch_multiply(isa, pool, call, groups, *transposed)
        }
        Op::KvStore { .. } => {
            let (k, v) = (call.stored(0)?, call.stored(1)?);
            store(isa, pool, call, [k, v], call.input(2)?)
        }
        Op::KvLoad { values, .. } => load(isa, pool, call, *values),
        Op::Attention(attention) => attend(isa, pool, call, attention, scratch),
        Op::FusedQkv(qkv) => fused::qkv(isa, pool, call, qkv, scratch),
        Op::FusedFfn { gate, up, .. } => fused::ffn(isa, pool, call, [*gate, *up], scratch),
        Op::FusedMatMul(_) => Err(NodeError::product()),
    }
}

/// Applies `f(row index, row)` to every row of the value, which holds input 0.
fn in_place(
    pool: &Pool,
    call: &Call<'_>,
    f: impl Fn(usize, &mut [f32]) + Sync,
) -> Result<(), NodeError> {
    let source = call.source()?;
    call.output()?.for_each_row(pool, |r, y| {
        if let Some(x) = source {
            y.copy_from_slice(x.row(r));
        }
        f(r, y);
    });
    Ok(())
}

/// Applies `f(row, row of input 1)` to every row of the value, which holds input 0.
fn binary(
    pool: &Pool,
    call: &Call<'_>,
    f: impl Fn(&mut [f32], &[f32]) + Sync,
) -> Result<(), NodeError> {
    let b = call.input(1)?;
    in_place(pool, call, |r, y| f(y, b.row(r)))
}

fn embed_rows(isa: Isa, pool: &Pool, call: &Call<'_>, weight: WeightId) -> Result<(), NodeError> {
    let matrix = call.table(weight)?;
    let table = Table {
        ty: matrix.ty,
        bytes: matrix.bytes,
        row_bytes: matrix.bytes.len() / matrix.out_dim.max(1),
        rows: matrix.out_dim,
    };
    let indices = call.input(0)?;
    Ok(embed::embed(isa, pool, table, indices, call.output()?)?)
}

fn multiply(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    weight: WeightId,
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let x = call.input(0)?;
    let product = Product {
        weight: call.matrix(weight, x.width(), call.task.output.width)?,
        out: call.output_apart()?,
    };
    let prompt = call.task.output.rows.prompt;
    let scratch = &mut scratch.matmul;
    // SAFETY: the output lies apart from `x`, and this thread alone uses the buffers.
    Ok(unsafe { matmul::multiply(isa, pool, x, prompt, [product], scratch) }?)
}

/// What the angles of `rope` depend on.
pub(super) fn frequencies<'a>(
    call: &Call<'a>,
    rope: &Rope,
) -> Result<FrequenciesRef<'a>, NodeError> {
    let factors = match rope.factors {
        Some(weight) => call.vector(weight, rope.n_rot / 2)?,
        None => &[],
    };
    Ok(FrequenciesRef {
        n_rot: rope.n_rot,
        base: rope.freq_base,
        scale: rope.freq_scale,
        factors,
    })
}

fn rotate(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    rope: &Rope,
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let positions = call.input(1)?;
    let angles = &mut scratch.angles;
    angles.prepare(pool, frequencies(call, rope)?, positions);
    in_place(pool, call, |r, y| {
        rope::rotate(isa, rope.style, rope.head_dim, y, angles.row(r));
    })
}

fn soften(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    groups: usize,
    scale: f32,
) -> Result<(), NodeError> {
    let part = call.task.output.width / groups;
    let positions: Option<MatRef<'_, i32>> = match call.task.inputs.len() {
        2 => Some(call.input(1)?),
        _ => None,
    };
    in_place(pool, call, |r, y| {
        // A position is at most i32::MAX; a negative one sees nothing.
        let len = positions.map_or(part, |p| {
            p.row(r)[0].max(-1).wrapping_add(1) as u32 as usize
        });
        softmax::softmax(isa, y, part, len, scale);
    })
}

fn batch_multiply(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    groups: HeadGroups,
    transposed: bool,
) -> Result<(), NodeError> {
    let a: MatRef<'_> = call.input(0)?;
    let b = call.input_rows(1, call.task.inputs[1].rows.total())?;
    let (k, n) = (b.width() / groups.kv_heads, b.rows());
    let (from, to) = match transposed {
        false => (k, n),
        true => (n, k),
    };
    require(
        (a.width(), call.task.output.width) == (groups.heads * from, groups.heads * to),
        "rows of b",
        n,
        "as many as scores per head",
    )?;
    call.output()?.for_each_row(pool, |r, y| match transposed {
        false => batch_matmul::scores(isa, y, a.row(r), b, groups),
        true => batch_matmul::weighted(isa, y, a.row(r), b, groups),
    });
    Ok(())
}

/// Writes keys and values to `cells`, the two by two threads.
pub(super) fn store(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    rows: [MatRef<'_>; 2],
    cells: MatRef<'_, i32>,
) -> Result<(), NodeError> {
    let (region, cell_bytes) = call.region(rows[0].width())?;
    check_cells(&region, cells)?;
    let [keys, values] = call.cells_mut(rows[0].width())?;
    let regions = [keys, values].map(Mutex::new);
    let chunk = if cells.rows() < PARALLEL_STORE { 2 } else { 1 };
    pool.for_each_chunk(2, chunk, |range| {
        for which in range {
            let mut region_bytes = regions[which]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            for r in 0..cells.rows() {
                let start = cells.row(r)[0] as usize * cell_bytes;
                let cell = &mut region_bytes[start..][..cell_bytes];
                kv::store(region.shape.format, isa, cell, rows[which].row(r));
            }
        }
    });
    Ok(())
}

fn check_cells(region: &KvRegion, cells: MatRef<'_, i32>) -> Result<(), NodeError> {
    for row in 0..cells.rows() {
        let cell = cells.row(row)[0];
        if !usize::try_from(cell).is_ok_and(|c| c < region.shape.cells) {
            return Err(NodeError::Cell {
                row,
                cell,
                cells: region.shape.cells,
            });
        }
    }
    Ok(())
}

fn load(isa: Isa, pool: &Pool, call: &Call<'_>, values: bool) -> Result<(), NodeError> {
    let [keys, all_values] = call.cells(call.task.output.width)?;
    let cells = if values { all_values } else { keys };
    let (rows, available) = (call.rows(), cells.bytes.len() / cells.cell_bytes.max(1));
    require(
        rows <= available,
        "rows",
        rows,
        format_args!("at most {available} cells"),
    )?;
    call.output()?.for_each_row(pool, |r, y| {
        kv::load(isa, cells.format, cells.cell(r), 0, y);
    });
    Ok(())
}

fn attend(
    isa: Isa,
    pool: &Pool,
    call: &Call<'_>,
    attention: &Attention,
    scratch: &mut Scratch,
) -> Result<(), NodeError> {
    let [keys, values] = call.cells(attention.n_head_kv * attention.head_dim)?;
    let window = match attention.window {
        WindowLayout::Causal => None,
        WindowLayout::Span | WindowLayout::Map => Some(call.input(3)?),
    };
    let inputs = attention::Inputs {
        shape: attention::Shape {
            heads: attention.n_head,
            kv_heads: attention.n_head_kv,
            head_dim: attention.head_dim,
            scale: attention.scale,
        },
        q: call.input(0)?,
        prompt_rows: call.task.output.rows.prompt,
        regions: attention::Regions { keys, values },
        cells: keys.bytes.len() / keys.cell_bytes.max(1),
        layout: attention.window,
        positions: call.input(1)?,
        window,
    };
    let out = call.output()?;
    Ok(attention::attend(
        isa,
        pool,
        inputs,
        &mut scratch.attention,
        out,
    )?)
}
