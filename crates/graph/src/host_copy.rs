//! Row copies for backends without their own: through host memory.

use crate::arena::RowCopy;
use crate::backend::{Backend, BackendError, KvRegion};

/// Bytes on their way at a time, if a row is not larger.
const PART_BYTES: usize = 1 << 20;

/// [`Backend::copy_rows`] by reads and writes.
pub(crate) fn copy_through_host<B: Backend + ?Sized>(
    backend: &mut B,
    region: &KvRegion,
    copy: RowCopy,
) -> Result<(), BackendError> {
    let cell_bytes = region.shape.cell_bytes().map_err(|error| BackendError {
        backend: backend.name().to_owned(),
        message: error.to_string(),
    })?;
    let most = (PART_BYTES / cell_bytes).clamp(1, copy.len.max(1));
    let mut host = vec![0; most * cell_bytes];
    for part in copy.parts(most) {
        let bytes = &mut host[..part.len * cell_bytes];
        for buffer in [region.keys, region.values] {
            backend.read(buffer, part.from * cell_bytes, bytes)?;
            backend.write(buffer, part.to * cell_bytes, bytes)?;
        }
    }
    Ok(())
}

impl RowCopy {
    /// The copy in parts of at most `most` rows, at least one, ordered so that no row is overwritten before it was
    /// read, if each part is read as a whole before it is written.
    pub fn parts(self, most: usize) -> impl Iterator<Item = RowCopy> {
        let most = most.max(1);
        let count = self.len.div_ceil(most);
        (0..count).map(move |i| {
            let index = if self.to > self.from {
                count - 1 - i
            } else {
                i
            };
            let first = index * most;
            RowCopy {
                from: self.from + first,
                to: self.to + first,
                len: most.min(self.len - first),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_overlapping_copy_read_before_they_overwrite() {
        let before: Vec<usize> = (0..20).collect();
        for (from, to, len) in [(5, 3, 12), (3, 5, 12), (0, 10, 10), (4, 4, 6), (7, 0, 0)] {
            let mut expected = before.clone();
            expected[to..to + len].copy_from_slice(&before[from..from + len]);
            for most in [1, 2, 5, 12] {
                let mut rows = before.clone();
                for part in (RowCopy { from, to, len }).parts(most) {
                    let held = rows[part.from..part.from + part.len].to_vec();
                    rows[part.to..part.to + part.len].copy_from_slice(&held);
                }
                assert_eq!(rows, expected, "{from} to {to}, {most} at a time");
            }
        }
    }
}
