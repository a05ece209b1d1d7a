//! Softmax attention of generated rows in two passes: scores of all keys, then the values weighted by them.

use minfer_graph::{Attention, KvFormat};

use super::attention::{Inputs, SIMD_WIDTH, check, keys};
use super::flash_decode::{MOST_HEADS, serves};
use super::kernels::constants;
use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments::{SplitScores, SplitValues};
use crate::device::{Access, Device, Pipeline};
use crate::kernels::SPLIT_ATTENTION;

/// Floats of scores that are in memory at a time, 64 MiB; more only if a row has more.
pub const MOST_SCORES: usize = 16 << 20;
/// Keys of a block, as in the kernels.
const BLOCK: usize = 32;
/// Simdgroups that share a row's values, as in the kernels.
const SIMDGROUPS: usize = 8;
const NAME: &str = "split_attention";

/// Width and rows of the memory for scores of rows with these windows: of all, or of as many as there is room for.
pub fn scores(attention: &Attention, windows: &[i32]) -> [usize; 2] {
    let rows = windows.len() / attention.window.input_width().max(1);
    let width = blocks(attention, windows).saturating_mul(BLOCK + 1);
    let of_row = width.saturating_mul(attention.n_head).max(1);
    let at_once = rows.min((MOST_SCORES / of_row).max(1));
    [width, at_once.saturating_mul(attention.n_head)]
}

/// Blocks of the longest window, at least one.
fn blocks(attention: &Attention, windows: &[i32]) -> usize {
    let longest = keys(attention.window, windows).max().unwrap_or(0);
    longest.div_ceil(BLOCK).max(1)
}

/// `y = softmax(scale * q k) v`, each row over the cells of its window, with heads of 64 or 128 features.
///
/// `scores` is scratch memory of the width that [`scores`](scores()) gives and of the heads of one row or more; all
/// rows take turns in it. A row's result depends on its query and its cells alone, bit for bit.
pub fn split_attention<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
    scores: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    if !serves(attention) {
        let found = attention.head_dim;
        return Err(OpError::value(NAME, "head_dim", found, "64 or 128"));
    }
    let lanes = encode.device.info().simd_width;
    let cells = check(NAME, attention, &y, &inputs, lanes)?;
    if y.is_empty() {
        return Ok(());
    }
    let [width, _] = self::scores(attention, inputs.windows.values);
    same(NAME, "the width of the scores", scores.width, width)?;
    same(NAME, "the scores' stride", scores.stride, width)?;
    let at_once = scores.rows / attention.n_head;
    if at_once == 0 {
        let expected = format_args!("at least {}", attention.n_head).to_string();
        let what = "the rows of the scores";
        return Err(OpError::value(NAME, what, scores.rows, expected));
    }
    let pass = Pass {
        attention,
        cells,
        scores,
    };
    let (mut y, mut inputs) = (y, inputs);
    while !y.is_empty() {
        let ([now, later], [of_now, of_later]) = (y.split_at(at_once), inputs.split_at(at_once));
        pass.score(encode, of_now)?;
        pass.weigh(encode, now, of_now)?;
        (y, inputs) = (later, of_later);
    }
    Ok(())
}

/// What the passes have in common.
struct Pass<'a, B> {
    attention: &'a Attention,
    /// Cells that are read, from the first on.
    cells: usize,
    scores: Rows<'a, B>,
}

impl<B: crate::device::Buffer> Pass<'_, B> {
    /// Scores of the queries.
    fn score<D: Device<Buffer = B>>(
        &self,
        encode: &mut Encode<'_, D>,
        inputs: Inputs<'_, B>,
    ) -> Result<(), OpError> {
        let Inputs {
            q, keys, windows, ..
        } = inputs;
        let name = match keys.shape.format {
            KvFormat::F32 => "split_scores_f32",
            KvFormat::F16 => "split_scores_f16",
            KvFormat::Q8_0 => "split_scores_q8_0",
        };
        let attention = self.attention;
        let group = attention.n_head / attention.n_head_kv;
        let slices = group.div_ceil(MOST_HEADS);
        let blocks = self.scores.width / (BLOCK + 1);
        let arguments = SplitScores {
            group: number(name, "n_head", group)?,
            heads: number(name, "n_head", attention.n_head)?,
            blocks: number(name, "blocks", blocks)?,
            q_stride: number(name, "a stride", q.stride)?,
            cell_bytes: number(name, "the bytes of a cell", keys.cell_bytes(name)?)?,
            scale: attention.scale,
        };
        let kernel = Kernel {
            file: SPLIT_ATTENTION,
            name,
            constants: &constants(
                name,
                [
                    (0, attention.head_dim),
                    (1, windows.rows.width),
                    (2, group.div_ceil(slices)),
                ],
            )?,
        };
        encode.groups(
            kernel,
            [attention.n_head_kv * slices, blocks, q.rows],
            SIMD_WIDTH,
            &[
                copied(&arguments),
                self.scores.argument(name, 1, Access::Write)?,
                q.argument(name, 2, Access::Read)?,
                keys.argument(name, 3, self.cells, Access::Read)?,
                windows.rows.argument(name, 4, Access::Read)?,
            ],
        )
    }

    /// Outputs from the scores.
    fn weigh<D: Device<Buffer = B>>(
        &self,
        encode: &mut Encode<'_, D>,
        y: Rows<'_, B>,
        inputs: Inputs<'_, B>,
    ) -> Result<(), OpError> {
        let Inputs {
            values, windows, ..
        } = inputs;
        let name = match values.shape.format {
            KvFormat::F32 => "split_values_f32",
            KvFormat::F16 => "split_values_f16",
            KvFormat::Q8_0 => "split_values_q8_0",
        };
        let attention = self.attention;
        let arguments = SplitValues {
            group: number(name, "n_head", attention.n_head / attention.n_head_kv)?,
            heads: number(name, "n_head", attention.n_head)?,
            blocks: number(name, "blocks", self.scores.width / (BLOCK + 1))?,
            y_stride: number(name, "a stride", y.stride)?,
            cell_bytes: number(name, "the bytes of a cell", values.cell_bytes(name)?)?,
        };
        let kernel = Kernel {
            file: SPLIT_ATTENTION,
            name,
            constants: &constants(name, [(0, attention.head_dim), (1, windows.rows.width)])?,
        };
        let most = encode.pipeline(kernel)?.max_threads_per_threadgroup();
        let simdgroups = (most / SIMD_WIDTH).clamp(1, SIMDGROUPS);
        encode.groups(
            kernel,
            [attention.n_head, y.rows, 1],
            simdgroups * SIMD_WIDTH,
            &[
                copied(&arguments),
                y.argument(name, 1, Access::Write)?,
                self.scores.argument(name, 2, Access::Read)?,
                values.argument(name, 3, self.cells, Access::Read)?,
                windows.rows.argument(name, 4, Access::Read)?,
            ],
        )
    }
}
