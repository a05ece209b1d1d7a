//! Memory that a context needs.

use minfer_graph::KvLayout;

use crate::Error;
use crate::config::kv_format_name;

/// Bytes of all layers' keys and values.
///
/// # Errors
/// A format that cannot hold heads of this size. A size beyond `u64` saturates.
pub fn kv_bytes(layout: &KvLayout) -> Result<u64, Error> {
    let mut total = 0u64;
    for shape in (0..layout.len()).filter_map(|layer| layout.layer(layer)) {
        let cell = shape.cell_bytes().map_err(|source| Error::KvFormat {
            format: kv_format_name(shape.format),
            source,
        })?;
        let region = (cell as u64).saturating_mul(shape.cells as u64);
        total = total.saturating_add(region.saturating_mul(2));
    }
    Ok(total)
}

/// How many tokens the KV cache holds, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvBudget {
    /// Tokens that all sequences together can hold.
    pub cells: usize,
    /// Tokens that [`crate::EngineOptions::parallel`] sequences of full length would hold. If it exceeds
    /// `cells`, the machine has no memory for more.
    pub wanted: usize,
    /// Bytes of `cells`. Memory is used as cells are.
    pub bytes: u64,
}

impl KvBudget {
    /// Room for `parallel` sequences of `n_ctx` tokens, or for as many as `available` bytes admit, but at least
    /// one; an unknown amount admits all. An eighth of what is available is left to activations.
    pub(crate) fn new(
        n_ctx: usize,
        parallel: usize,
        per_cell: u64,
        available: Option<u64>,
    ) -> Result<Self, Error> {
        let wanted = n_ctx.saturating_mul(parallel);
        let per_cell = per_cell.max(1);
        let bytes = |cells: usize| per_cell.saturating_mul(cells as u64);
        let cells = match available {
            Some(available) if bytes(n_ctx) > available => {
                return Err(Error::KvMemory {
                    n_ctx,
                    needed: bytes(n_ctx),
                    available,
                    largest: available / per_cell,
                });
            }
            Some(available) => {
                let most = (available - available / 8) / per_cell;
                wanted.min(usize::try_from(most).unwrap_or(usize::MAX))
            }
            None => wanted,
        };
        let cells = cells.max(n_ctx);
        let bytes = bytes(cells);
        Ok(KvBudget {
            cells,
            wanted,
            bytes,
        })
    }

    /// The same with fewer cells if it has more than `most`.
    pub(crate) fn at_most(self, most: usize) -> Self {
        if self.cells <= most {
            return self;
        }
        let per_cell = self.bytes / self.cells.max(1) as u64;
        KvBudget {
            cells: most,
            bytes: per_cell.saturating_mul(most as u64),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minfer_graph::{KvFormat, KvShape};

    fn layout(format: KvFormat, width: usize) -> KvLayout {
        let shape = KvShape {
            cells: 100,
            width,
            head_dim: 32,
            format,
        };
        KvLayout::uniform(3, shape)
    }

    #[test]
    fn keys_and_values_of_every_layer_count() {
        let bytes = |format| kv_bytes(&layout(format, 64)).expect("whole blocks");
        assert_eq!(bytes(KvFormat::F32), 3 * 2 * 100 * 64 * 4);
        assert_eq!(bytes(KvFormat::F16), 3 * 2 * 100 * 64 * 2);
        assert_eq!(bytes(KvFormat::Q8_0), 3 * 2 * 100 * 68);
    }

    #[test]
    fn heads_that_are_not_whole_blocks_are_refused_though_the_row_is() {
        let shape = |format, head_dim| KvShape {
            cells: 100,
            width: 4 * head_dim,
            head_dim,
            format,
        };
        for head_dim in [48, 80] {
            let layout = |format| KvLayout::uniform(3, shape(format, head_dim));
            let error = kv_bytes(&layout(KvFormat::Q8_0)).expect_err("half blocks");
            let expected = format!(
                "the KV format q8_0 does not fit this model, use f16 or f32: Q8_0 cannot hold heads of \
                 {head_dim} features: they are not whole blocks of 32"
            );
            assert_eq!(error.to_string(), expected);
            let bytes = kv_bytes(&layout(KvFormat::F16)).expect("any head");
            assert_eq!(bytes, 3 * 2 * 100 * 4 * head_dim as u64 * 2);
        }
        assert!(kv_bytes(&KvLayout::uniform(3, shape(KvFormat::Q8_0, 96))).is_ok());
    }

    #[test]
    fn sequences_share_what_the_machine_has() {
        let budget = |parallel, available| KvBudget::new(100, parallel, 10, available);
        let whole = KvBudget {
            cells: 400,
            wanted: 400,
            bytes: 4000,
        };
        assert_eq!(budget(4, None).expect("no limit"), whole);
        assert_eq!(budget(4, Some(8000)).expect("enough"), whole);
        let scarce = KvBudget {
            cells: 175,
            wanted: 400,
            bytes: 1750,
        };
        assert_eq!(budget(4, Some(2000)).expect("for one"), scarce);
        assert_eq!(budget(4, Some(1000)).expect("for one").cells, 100);
        assert_eq!(whole.at_most(500), whole);
        assert_eq!(whole.at_most(175), scarce);
    }

    #[test]
    fn a_context_that_does_not_fit_is_refused_with_numbers() {
        let error = KvBudget::new(100, 1, 10, Some(999)).expect_err("one short");
        assert_eq!(
            error.to_string(),
            "a context of 100 tokens needs 1000 bytes of KV cache, but only 999 bytes of memory are \
             available: at most 99 tokens fit"
        );
    }
}
