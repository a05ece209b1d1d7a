//! Rows picked by index, of a weight or of an activation.

use minfer_gguf::TensorType;

use crate::dequant::dequantize_row;
use crate::view::{MatMut, MatRef};
use crate::{Isa, Pool};

/// An index without a row.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {index} at row {row}: the source has {rows} rows")]
pub(crate) struct IndexError {
    row: usize,
    index: i32,
    rows: usize,
}

/// A weight of `rows` rows.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) ty: TensorType,
    pub(crate) bytes: &'a [u8],
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
}

/// `out[r] = table[indices[r]]`, dequantized.
pub(crate) fn embed(
    isa: Isa,
    pool: &Pool,
    table: Table<'_>,
    indices: MatRef<'_, i32>,
    out: MatMut<'_>,
) -> Result<(), IndexError> {
    check(indices, table.rows)?;
    out.for_each_row(pool, |r, out| {
        let start = indices.row(r)[0] as usize * table.row_bytes;
        dequantize_row(isa, table.ty, &table.bytes[start..][..table.row_bytes], out);
    });
    Ok(())
}

/// `out[r] = x[indices[r]]`.
pub(crate) fn get_rows(
    pool: &Pool,
    x: MatRef<'_>,
    indices: MatRef<'_, i32>,
    out: MatMut<'_>,
) -> Result<(), IndexError> {
    check(indices, x.rows())?;
    out.for_each_row(pool, |r, out| {
        out.copy_from_slice(x.row(indices.row(r)[0] as usize));
    });
    Ok(())
}

fn check(indices: MatRef<'_, i32>, rows: usize) -> Result<(), IndexError> {
    for row in 0..indices.rows() {
        let index = indices.row(row)[0];
        if usize::try_from(index).is_ok_and(|i| i < rows) {
            continue;
        }
        return Err(IndexError { row, index, rows });
    }
    Ok(())
}
