//! One node's operands, checked and turned into views.

use std::cell::Cell;

use minfer_graph::{KvRegion, Operand, Task, WeightId};

use super::buffers::{Buffers, Element, Overlap, overlap};
use super::error::{NodeError, require};
use super::weights::Weights;
use crate::matmul::Matrix;
use crate::ops::kv::Cells;
use crate::view::{MatMut, MatRef};

/// A task whose node passed [`super::check::check`], with the memory it refers to.
pub(super) struct Call<'a> {
    pub(super) task: Task<'a>,
    buffers: &'a Buffers,
    weights: &'a Weights,
    output_taken: Cell<bool>,
}

impl<'a> Call<'a> {
    /// Checks the operands against the node. Borrowing the buffers mutably makes this the only call.
    pub(super) fn new(
        task: Task<'a>,
        buffers: &'a mut Buffers,
        weights: &'a Weights,
    ) -> Result<Self, NodeError> {
        let found = (task.inputs.len(), task.output.width);
        let expected = (task.node.inputs.len(), task.node.width);
        require(
            found == expected,
            "(inputs, output width)",
            format_args!("{found:?}"),
            format_args!("{expected:?}"),
        )?;
        for (input, found) in task.inputs.iter().enumerate() {
            let width = task.graph.node(task.node.inputs[input]).width;
            if found.width != width {
                let rows = found.rows.total();
                return Err(NodeError::Operand {
                    input,
                    found: *found,
                    width,
                    rows,
                });
            }
        }
        Ok(Call {
            task,
            buffers,
            weights,
            output_taken: Cell::new(false),
        })
    }

    /// Rows of the value.
    pub(super) fn rows(&self) -> usize {
        self.task.output.rows.total()
    }

    fn operand(&self, i: usize, rows: usize) -> Result<&'a Operand, NodeError> {
        let operand = &self.task.inputs[i];
        if operand.rows.total() != rows {
            return Err(NodeError::Operand {
                input: i,
                found: *operand,
                width: operand.width,
                rows,
            });
        }
        Ok(operand)
    }

    fn refuse_overlap(&self, i: usize, allowed: &[Overlap]) -> Result<(), NodeError> {
        let (found, output) = (self.task.inputs[i], self.task.output);
        if allowed.contains(&overlap(&found, &output)) {
            return Ok(());
        }
        Err(NodeError::Overlap {
            input: i,
            found,
            output,
        })
    }

    /// Input `i` with `rows` rows, which has no element in common with the output.
    pub(super) fn input_rows<T: Element>(
        &self,
        i: usize,
        rows: usize,
    ) -> Result<MatRef<'a, T>, NodeError> {
        self.refuse_overlap(i, &[Overlap::Apart, Overlap::Interleaved])?;
        Ok(self.buffers.view(self.operand(i, rows)?)?)
    }

    /// Input `i` with as many rows as the value.
    pub(super) fn input<T: Element>(&self, i: usize) -> Result<MatRef<'a, T>, NodeError> {
        self.input_rows(i, self.rows())
    }

    /// Input 0, or `None` when the node runs in place on it.
    pub(super) fn source(&self) -> Result<Option<MatRef<'a>>, NodeError> {
        match overlap(&self.task.inputs[0], &self.task.output) {
            Overlap::Same => Ok(None),
            _ => self.input(0).map(Some),
        }
    }

    /// The value. All other views this gives out are apart from it.
    ///
    /// # Panics
    /// When it is taken a second time.
    pub(super) fn output(&self) -> Result<MatMut<'a>, NodeError> {
        assert!(!self.output_taken.replace(true), "two views of one value");
        // SAFETY: `input_rows` refuses operands with common elements and `cells_mut` the output's
        // buffer; this is the only view of the output.
        Ok(unsafe { self.buffers.view_mut(&self.task.output) }?)
    }

    /// An input of a KV store. Its value is its first input, so the store writes no output.
    pub(super) fn stored(&self, i: usize) -> Result<MatRef<'a>, NodeError> {
        Ok(self.buffers.view(self.operand(i, self.rows())?)?)
    }

    /// The value, where its rows must not alternate with an input's.
    pub(super) fn output_apart(&self) -> Result<MatMut<'a>, NodeError> {
        for i in 0..self.task.inputs.len() {
            self.refuse_overlap(i, &[Overlap::Apart])?;
        }
        self.output()
    }

    pub(super) fn vector(&self, weight: WeightId, len: usize) -> Result<&'a [f32], NodeError> {
        Ok(self.weights.vector(self.task.graph, weight, len)?)
    }

    pub(super) fn matrix(
        &self,
        weight: WeightId,
        in_dim: usize,
        out_dim: usize,
    ) -> Result<Matrix<'a>, NodeError> {
        Ok(self
            .weights
            .matrix(self.task.graph, weight, in_dim, out_dim)?)
    }

    pub(super) fn table(&self, weight: WeightId) -> Result<Matrix<'a>, NodeError> {
        let width = self.task.output.width;
        Ok(self.weights.table(self.task.graph, weight, width)?)
    }

    /// The layer's region, whose rows must have `width` features.
    pub(super) fn region(&self, width: usize) -> Result<(KvRegion, usize), NodeError> {
        let region = self.task.kv.ok_or(NodeError::NoRegion)?;
        let found = region.shape.width;
        require(found == width, "width of the KV region", found, width)?;
        Ok((region, region.shape.cell_bytes()?))
    }

    /// Keys and values of the layer, to be read.
    pub(super) fn cells(&self, width: usize) -> Result<[Cells<'a>; 2], NodeError> {
        let (region, cell_bytes) = self.region(width)?;
        self.refuse_region_operands(&region)?;
        let len = cell_bytes.saturating_mul(region.shape.cells);
        let cells = |bytes| Cells {
            bytes,
            cell_bytes,
            format: region.shape.format,
        };
        let keys = self.buffers.bytes(region.keys, 0, len)?;
        let values = self.buffers.bytes(region.values, 0, len)?;
        Ok([cells(keys), cells(values)])
    }

    /// Bytes of the keys and of the values of the layer, to be written; taken once.
    pub(super) fn cells_mut(&self, width: usize) -> Result<[&'a mut [u8]; 2], NodeError> {
        let (region, cell_bytes) = self.region(width)?;
        self.refuse_region_operands(&region)?;
        let len = cell_bytes.saturating_mul(region.shape.cells);
        // SAFETY: no operand lies in these buffers, and an operation that writes the region does not
        // read it.
        Ok(unsafe { self.buffers.region_mut(region.keys, region.values, len) }?)
    }

    fn refuse_region_operands(&self, region: &KvRegion) -> Result<(), NodeError> {
        let buffers = [region.keys, region.values];
        let all = self.task.inputs.iter().chain([&self.task.output]);
        match all.enumerate().find(|(_, o)| buffers.contains(&o.buffer)) {
            None => Ok(()),
            Some((input, found)) => Err(NodeError::Overlap {
                input,
                found: *found,
                output: self.task.output,
            }),
        }
    }
}
