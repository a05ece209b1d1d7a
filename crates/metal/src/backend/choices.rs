//! Which kernels run where several can.

use minfer_graph::{Attention, KvFormat, KvShape, RowCount, WindowLayout};

use super::execute::INTEGER;
use crate::ops::attention::cells_read;
use crate::ops::{OpError, flash_decode, flash_prefill, split_attention, three_pass};

/// Kernels to use where several can. The default has the fastest; the others compute the same in other ways, to
/// compare with and to find a faulty one by.
///
/// With the default, a row's bits do not depend on the rows beside it. Nor do they with other choices, but for prompt rows
/// without `window_flash`, or without `flash_prefill` and with `split_attention`: their kernel goes by the layout of
/// windows, which serves all rows of a step. Bits differ between choices by the order of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoices {
    /// Multiply prompt rows by `gemm_TYPE`; otherwise as generated rows are, up to eight at a time.
    pub gemm: bool,
    /// Attention of generated rows with heads of 64 or 128 features by `flash_decode_FORMAT`.
    pub flash_decode: bool,
    /// Attention of prompt rows with heads of 64 or 128 features by `flash_prefill_FORMAT`.
    pub flash_prefill: bool,
    /// The same with windows other than causal ones; otherwise those are for `attention_FORMAT`.
    pub window_flash: bool,
    /// Attention by passes over scores in memory where the flash kernels are off, with heads of 64 or 128 features: of
    /// generated rows by `split_scores_FORMAT` and `split_values_FORMAT`, of prompt rows with causal windows by
    /// `three_pass_...`. What nothing else takes is for `attention_FORMAT`.
    pub split_attention: bool,
    /// Most chunks that `flash_decode_FORMAT` cuts a row's window into, 1 to [`flash_decode::MOST_CHUNKS`]; `None`
    /// for the most. Other numbers are refused when an attention runs.
    pub attention_chunks: Option<usize>,
    /// Read a packed region by way of f32 cells in memory (`kv_stage_q8_0`) with the f32 kernels, instead of natively
    /// with those of its format. The results are the same to the bit, unless a compiler reorders products.
    pub packed_stage: bool,
}

impl Default for KernelChoices {
    fn default() -> Self {
        KernelChoices {
            gemm: true,
            flash_decode: true,
            flash_prefill: true,
            window_flash: true,
            split_attention: true,
            attention_chunks: None,
            packed_stage: false,
        }
    }
}

/// Kernels for attention of prompt rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptAttention {
    /// On simdgroup matrices.
    Flash,
    /// Scores, weights, outputs.
    ThreePass,
    /// Of any shape.
    Classic,
}

/// Kernels for attention of generated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratedAttention {
    /// By chunks of a window, at most so many.
    Flash { chunks: usize },
    /// Scores, then values.
    Split,
    /// Of any shape.
    Classic,
}

impl KernelChoices {
    /// What attention of prompt rows runs by.
    pub(super) fn of_prompt(&self, attention: &Attention) -> PromptAttention {
        let is_causal = attention.window == WindowLayout::Causal;
        let flash = self.flash_prefill && (self.window_flash || is_causal);
        let passes = !self.flash_prefill && self.split_attention;
        if flash && flash_prefill::serves(attention) {
            PromptAttention::Flash
        } else if passes && three_pass::serves(attention) {
            PromptAttention::ThreePass
        } else {
            PromptAttention::Classic
        }
    }

    /// What attention of generated rows runs by.
    pub(super) fn of_generated(&self, attention: &Attention) -> GeneratedAttention {
        if !flash_decode::serves(attention) {
            return GeneratedAttention::Classic;
        }
        match (self.flash_decode, self.split_attention) {
            (true, _) => GeneratedAttention::Flash {
                chunks: self.attention_chunks.unwrap_or(flash_decode::MOST_CHUNKS),
            },
            (false, true) => GeneratedAttention::Split,
            (false, false) => GeneratedAttention::Classic,
        }
    }

    /// Width and rows of what lies between the kernels of prompt rows, and of generated ones, with these windows on a
    /// region of so many cells.
    pub(super) fn scratch(
        &self,
        attention: &Attention,
        [prompt, generated]: [&[i32]; 2],
        cells: usize,
    ) -> Result<[Option<[usize; 2]>; 2], OpError> {
        // Scores of windows that the kernels refuse may take more memory than there is.
        let check = |name, windows| cells_read(name, attention.window, windows, cells);
        let of_prompt = match self.of_prompt(attention) {
            _ if prompt.is_empty() => None,
            PromptAttention::ThreePass => {
                check("three_pass", prompt)?;
                Some(three_pass::scores(attention, prompt))
            }
            PromptAttention::Flash | PromptAttention::Classic => None,
        };
        let of_generated = match self.of_generated(attention) {
            _ if generated.is_empty() => None,
            GeneratedAttention::Flash { chunks } => {
                Some(flash_decode::partials(attention, generated, chunks)?)
            }
            GeneratedAttention::Split => {
                check("split_attention", generated)?;
                Some(split_attention::scores(attention, generated))
            }
            GeneratedAttention::Classic => None,
        };
        Ok([of_prompt, of_generated])
    }

    /// Most bytes that an attention over `region` takes beside its operands, with rows that see `n_ctx` cells.
    pub fn scratch_bytes(
        &self,
        attention: &Attention,
        rows: RowCount,
        n_ctx: usize,
        region: KvShape,
    ) -> u64 {
        let causal = Attention {
            window: WindowLayout::Causal,
            ..*attention
        };
        let last = i32::try_from(n_ctx.saturating_sub(1)).unwrap_or(i32::MAX);
        let windows = [rows.prompt, rows.generated].map(|rows| vec![last; rows]);
        // An attention with choices that are refused takes nothing.
        let shapes = self.scratch(&causal, [&windows[0], &windows[1]], n_ctx);
        let values = shapes.unwrap_or_default().into_iter().flatten();
        let values: usize = values.map(|[width, rows]| width.saturating_mul(rows)).sum();
        let staged = match self.packed_stage && region.format == KvFormat::Q8_0 {
            true => region.cells.saturating_mul(2 * region.width),
            false => 0,
        };
        INTEGER.saturating_mul(values.saturating_add(staged)) as u64
    }
}
