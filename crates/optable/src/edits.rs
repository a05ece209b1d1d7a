//! Edits of rows in KV regions: cases, expected rows, and the comparison with a backend.

mod cases;
mod reference;

use minfer_gguf::Tensor;
use minfer_graph::{Backend, BackendError, KeyRope, KvRegion, RowEdit};

use crate::accuracy::Worst;
use crate::case::Region;
use crate::check::Mismatch;
pub use cases::{edit_cases, edit_names};

/// An edit of a region with what it should leave behind.
#[derive(Clone, Debug)]
pub struct EditCase {
    /// What distinguishes this case from others of its edit.
    pub detail: String,
    /// The edit.
    pub edit: RowEdit,
    /// How keys are rotated.
    pub rope: KeyRope,
    /// Weight with the divisors of the frequencies, if `rope` names one.
    pub factors: Option<Tensor>,
    /// The region before.
    pub region: Region,
    /// Keys of a rotation before they were first rotated, and where they were then.
    origin: Option<Origin>,
}

/// Keys as they were before their rotation by their positions, in f64.
#[derive(Clone, Debug)]
struct Origin {
    /// A key per cell of the region, `width` features each.
    keys: Vec<f64>,
    /// Position of each cell.
    positions: Vec<usize>,
}

impl EditCase {
    /// Name for messages: edit and detail.
    pub fn name(&self) -> String {
        format!("{} {}", self.kind(), self.detail)
    }

    /// One of [`edit_names`].
    pub fn kind(&self) -> &'static str {
        name_of(&self.edit)
    }
}

/// Name of a kind of edit. Does not compile once a kind is added that [`edit_names`] may lack.
fn name_of(edit: &RowEdit) -> &'static str {
    match edit {
        RowEdit::Copy(_) => "Copy",
        RowEdit::Rotate(_) => "Rotate",
    }
}

/// Applies the edit and gives keys and values of the region afterwards.
///
/// # Errors
/// Those of the backend.
pub fn run_edit(case: &EditCase, backend: &mut dyn Backend) -> Result<[Vec<u8>; 2], BackendError> {
    if let Some(factors) = &case.factors {
        backend.register_weight(factors)?;
    }
    let region = KvRegion {
        shape: case.region.shape,
        keys: backend.alloc(case.region.keys.len())?,
        values: backend.alloc(case.region.values.len())?,
    };
    let after = edited(case, backend, &region);
    backend.free(region.keys);
    backend.free(region.values);
    after
}

fn edited(
    case: &EditCase,
    backend: &mut dyn Backend,
    region: &KvRegion,
) -> Result<[Vec<u8>; 2], BackendError> {
    let mut after = [case.region.keys.clone(), case.region.values.clone()];
    backend.write(region.keys, 0, &after[0])?;
    backend.write(region.values, 0, &after[1])?;
    match case.edit {
        RowEdit::Copy(copy) => backend.copy_rows(region, copy)?,
        RowEdit::Rotate(rotation) => backend.rotate_keys(region, rotation, &case.rope)?,
    }
    backend.synchronize()?;
    backend.read(region.keys, 0, &mut after[0])?;
    backend.read(region.values, 0, &mut after[1])?;
    Ok(after)
}

/// Applies the edit on a backend and compares every row with its definition. How far rotated keys were from the stored
/// ones turned back, of the largest feature.
///
/// # Errors
/// The first difference.
pub fn check_edit(case: &EditCase, backend: &mut dyn Backend) -> Result<Worst, Mismatch> {
    let after = run_edit(case, backend)?;
    reference::compare(case, &after)
}
