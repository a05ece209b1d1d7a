//! Memory that a context needs.

use minfer_graph::KvLayout;

use crate::Error;
use crate::config::kv_format_name;

/// Bytes of all layers' keys and values.
///
/// # Errors
/// A format that cannot hold rows of this width. A size beyond `u64` saturates.
pub fn kv_bytes(layout: &KvLayout) -> Result<u64, Error> {
    let mut total = 0u64;
    for shape in (0..layout.len()).filter_map(|layer| layout.layer(layer)) {
        let cell = shape
            .format
            .cell_bytes(shape.width)
            .ok_or_else(|| Error::KvFormat {
                format: kv_format_name(shape.format),
                width: shape.width,
            })?;
        let region = (cell as u64).saturating_mul(shape.cells as u64);
        total = total.saturating_add(region.saturating_mul(2));
    }
    Ok(total)
}

/// Refuses a context whose KV cache exceeds `available` bytes; an unknown amount admits any.
pub(crate) fn admit_kv(n_ctx: usize, needed: u64, available: Option<u64>) -> Result<(), Error> {
    match available {
        Some(available) if needed > available => {
            let per_token = needed / (n_ctx as u64).max(1);
            Err(Error::KvMemory {
                n_ctx,
                needed,
                available,
                largest: available / per_token.max(1),
            })
        }
        _ => Ok(()),
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
        let error = kv_bytes(&layout(KvFormat::Q8_0, 40)).expect_err("40 / 32");
        assert!(error.to_string().contains("q8_0 cannot hold rows of 40"));
    }

    #[test]
    fn a_context_that_does_not_fit_is_refused_with_numbers() {
        assert!(admit_kv(100, 1000, Some(1000)).is_ok());
        assert!(admit_kv(100, 1000, None).is_ok());
        let message = admit_kv(100, 1000, Some(999)).expect_err("999").to_string();
        assert_eq!(
            message,
            "a context of 100 tokens needs 1000 bytes of KV cache, but only 999 bytes of memory are \
             available: at most 99 tokens fit"
        );
    }
}
