//! Rows of KV regions between steps: moved, rotated, read and written.

use std::ops::Range;

use super::Executor;
use crate::arena::RowEdit;
use crate::backend::{BufferId, KvRegion};
use crate::builder::rope_refusal;
use crate::error::GraphError;
use crate::kv::{KeyRope, KvPart, KvRegions};
use crate::run::abandon;
use crate::weights::WeightCatalog;

/// A layer's region, and where it is.
#[derive(Clone, Copy)]
struct Placed {
    layer: usize,
    backend: usize,
    region: KvRegion,
}

/// Bytes of consecutive rows in a buffer.
struct RowBytes {
    backend: usize,
    buffer: BufferId,
    offset: usize,
    cell_bytes: usize,
    /// Bytes of a cell before its padding.
    used: usize,
}

impl Executor {
    /// Applies the edits, in order, to every layer that has a region; one without has no rows yet.
    ///
    /// # Errors
    /// Rows that a layer does not have, or a rotation that does not fit its heads: nothing has changed.
    /// When a backend fails, the rows that the edits name are lost: some layers have changed, others not.
    pub fn edit_rows(&mut self, edits: &[RowEdit], rope: &KeyRope) -> Result<(), GraphError> {
        let layers = 0..self.kv.layout().len();
        let placed: Vec<_> = layers
            .filter_map(|layer| Placed::find(&self.kv, layer))
            .collect();
        for placed in &placed {
            placed.check_edits(edits, rope, &self.catalog)?;
        }
        let result = self.apply_edits(&placed, edits, rope);
        if result.is_err() {
            abandon(&mut self.backends);
        }
        result
    }

    fn apply_edits(
        &mut self,
        placed: &[Placed],
        edits: &[RowEdit],
        rope: &KeyRope,
    ) -> Result<(), GraphError> {
        for placed in placed {
            let device = &mut self.backends[placed.backend];
            for edit in edits {
                let edited = match *edit {
                    RowEdit::Copy(copy) => device.copy_rows(&placed.region, copy),
                    RowEdit::Rotate(rotation) => device.rotate_keys(&placed.region, rotation, rope),
                };
                edited.map_err(GraphError::backend(|| {
                    format!("KV region of layer {}: {edit:?}", placed.layer)
                }))?;
            }
        }
        for device in &mut self.backends {
            device
                .synchronize()
                .map_err(GraphError::backend(|| "editing KV rows"))?;
        }
        Ok(())
    }

    /// Reads the keys or values of `cells` as they are stored: [`crate::KvShape::cell_bytes`] bytes for
    /// each, the padding of a cell as zeros.
    ///
    /// # Errors
    /// A layer without a region, cells outside of it, `into` of another length, a failing backend.
    pub fn read_rows(
        &mut self,
        layer: usize,
        part: KvPart,
        cells: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), GraphError> {
        let rows = self.row_bytes(layer, part, cells, into.len())?;
        if into.is_empty() {
            return Ok(());
        }
        self.backends[rows.backend]
            .read(rows.buffer, rows.offset, into)
            .map_err(GraphError::backend(|| {
                format!("reading rows of layer {layer}")
            }))?;
        for cell in into.chunks_exact_mut(rows.cell_bytes) {
            cell[rows.used..].fill(0);
        }
        Ok(())
    }

    /// Replaces the keys or values of `cells` by what [`Executor::read_rows`] gave.
    ///
    /// # Errors
    /// As for reading; nothing has changed unless the backend failed.
    pub fn write_rows(
        &mut self,
        layer: usize,
        part: KvPart,
        cells: Range<usize>,
        from: &[u8],
    ) -> Result<(), GraphError> {
        let rows = self.row_bytes(layer, part, cells, from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        self.backends[rows.backend]
            .write(rows.buffer, rows.offset, from)
            .map_err(GraphError::backend(|| {
                format!("writing rows of layer {layer}")
            }))
    }

    fn row_bytes(
        &self,
        layer: usize,
        part: KvPart,
        cells: Range<usize>,
        found: usize,
    ) -> Result<RowBytes, GraphError> {
        let Some(placed) = Placed::find(&self.kv, layer) else {
            let reason = match self.kv.layout().layer(layer) {
                Some(_) => "no plan that needs it was prepared yet".to_owned(),
                None => format!("only {} layers have one", self.kv.layout().len()),
            };
            return Err(GraphError::Kv { layer, reason });
        };
        placed.check_cells(cells.start, cells.len())?;
        let shape = placed.region.shape;
        let fail = |source| GraphError::KvShape { layer, source };
        let cell_bytes = shape.cell_bytes().map_err(fail)?;
        let expected = cell_bytes * cells.len();
        if found != expected {
            return Err(GraphError::KvBytes {
                layer,
                rows: cells.len(),
                found,
                expected,
            });
        }
        Ok(RowBytes {
            backend: placed.backend,
            buffer: match part {
                KvPart::Keys => placed.region.keys,
                KvPart::Values => placed.region.values,
            },
            offset: cell_bytes * cells.start,
            cell_bytes,
            used: shape.format.row_bytes(shape.width).unwrap_or(cell_bytes),
        })
    }
}

impl Placed {
    fn find(kv: &KvRegions, layer: usize) -> Option<Placed> {
        let (backend, region) = kv.get(layer)?;
        Some(Placed {
            layer,
            backend,
            region,
        })
    }

    fn check_edits(
        &self,
        edits: &[RowEdit],
        rope: &KeyRope,
        catalog: &WeightCatalog,
    ) -> Result<(), GraphError> {
        for edit in edits {
            match edit {
                RowEdit::Copy(copy) => {
                    self.check_cells(copy.from, copy.len)?;
                    self.check_cells(copy.to, copy.len)?;
                }
                RowEdit::Rotate(rotation) => {
                    self.check_cells(rotation.cell, rotation.len)?;
                    self.check_rope(rope, catalog)?;
                }
            }
        }
        Ok(())
    }

    fn check_cells(&self, first: usize, len: usize) -> Result<(), GraphError> {
        let cells = self.region.shape.cells;
        let end = first.saturating_add(len);
        if end <= cells {
            return Ok(());
        }
        Err(GraphError::KvRows {
            layer: self.layer,
            first,
            end,
            cells,
        })
    }

    fn check_rope(&self, rope: &KeyRope, catalog: &WeightCatalog) -> Result<(), GraphError> {
        let layer = self.layer;
        let fail = |reason| Err(GraphError::KeyRope { layer, reason });
        if let Some(reason) = rope_refusal(&rope.in_graph(self.region.shape.head_dim, None)) {
            return fail(reason);
        }
        let Some(name) = &rope.factors else {
            return Ok(());
        };
        let half = rope.n_rot / 2;
        match catalog.get(name) {
            None => fail(format!("weight {name} is missing")),
            Some(info) if info.dim(0) != half || !info.fits_rank(1) => {
                let shape = &info.shape;
                fail(format!("{name} has shape {shape:?}, [{half}] is needed"))
            }
            Some(_) => Ok(()),
        }
    }
}
