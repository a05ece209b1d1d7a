//! Runs a case's node on a backend.

use std::ops::Range;

use minfer_graph::{
    Backend, BackendError, BufferId, Graph, KvRegion, Operand, RowCount, Rows, Task,
};

use crate::case::{Case, Region, Value};

/// Elements around and between the rows of a strided operand, all [`GUARD`].
const MARGIN: usize = 16;
/// A pattern that is no result: a NaN with a payload.
const GUARD: u32 = 0x7fc0_ad1e;

/// How operands lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A buffer each, rows one after the other.
    Contiguous,
    /// Rows apart, with guard elements between them that must survive.
    Strided,
    /// The value over input 0, for operations that allow it.
    InPlace,
}

/// Which rows of the case run, and how many of them are prompt rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowRange {
    /// Rows of the value.
    pub rows: Range<usize>,
    /// Leading rows with the role of a prompt.
    pub prompt: usize,
}

/// What a node left behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The value, `width` elements per row.
    pub value: Vec<f32>,
    /// The KV region afterwards.
    pub kv: Option<[Vec<u8>; 2]>,
}

/// Runs the rows `range` of a case. The backend must have its weights registered or gets them now.
///
/// # Errors
/// Those of the backend; a guard element that changed is one too.
pub fn run(
    case: &Case,
    backend: &mut dyn Backend,
    placement: Placement,
    range: &RowRange,
) -> Result<Run, BackendError> {
    for weight in &case.weights {
        backend.register_weight(weight)?;
    }
    let mut memory = Memory {
        backend,
        buffers: Vec::new(),
    };
    let result = memory.run(case, placement, range);
    memory.free();
    result
}

struct Memory<'a> {
    backend: &'a mut dyn Backend,
    buffers: Vec<BufferId>,
}

impl Memory<'_> {
    fn run(
        &mut self,
        case: &Case,
        placement: Placement,
        range: &RowRange,
    ) -> Result<Run, BackendError> {
        let graph: Graph = case.graph();
        let inputs = case
            .inputs
            .iter()
            .map(|value| self.place(value, placement, range))
            .collect::<Result<Vec<_>, _>>()?;
        let in_place = placement == Placement::InPlace || case.op.shares_input();
        let output = match in_place {
            true => inputs[0],
            false => self.operand(case.width, roles(case.rows, range), placement)?,
        };
        let kv = match &case.kv {
            Some(region) => Some(self.region(region)?),
            None => None,
        };
        let task = Task {
            graph: &graph,
            node: graph.node(graph.outputs[0]),
            output,
            inputs: &inputs,
            kv,
        };
        self.backend.execute(task)?;
        self.backend.synchronize()?;
        let kv = match kv {
            Some(region) => Some([self.read_all(&region, 0)?, self.read_all(&region, 1)?]),
            None => None,
        };
        let value = self.read(&output)?;
        Ok(Run { value, kv })
    }

    fn alloc(&mut self, bytes: usize) -> Result<BufferId, BackendError> {
        let buffer = self.backend.alloc(bytes)?;
        self.buffers.push(buffer);
        Ok(buffer)
    }

    /// A new operand; a strided one is surrounded by guards.
    fn operand(
        &mut self,
        width: usize,
        rows: RowCount,
        placement: Placement,
    ) -> Result<Operand, BackendError> {
        let (offset, stride) = match placement {
            Placement::Strided => (MARGIN, width + MARGIN),
            Placement::Contiguous | Placement::InPlace => (0, width),
        };
        let elements = offset + stride * rows.total().max(1) + MARGIN;
        let buffer = self.alloc(4 * elements)?;
        let guards: Vec<u8> = (0..elements).flat_map(|_| GUARD.to_le_bytes()).collect();
        self.backend.write(buffer, 0, &guards)?;
        Ok(Operand {
            buffer,
            offset,
            width,
            stride,
            rows,
        })
    }

    fn place(
        &mut self,
        value: &Value,
        placement: Placement,
        range: &RowRange,
    ) -> Result<Operand, BackendError> {
        let operand = self.operand(value.width(), roles(value.rows(), range), placement)?;
        let first = match value.rows() {
            Rows::Fixed(_) => 0,
            Rows::Tokens | Rows::Outputs => range.rows.start,
        };
        for r in 0..operand.rows.total() {
            let at = 4 * (operand.offset + r * operand.stride);
            self.backend
                .write(operand.buffer, at, &value.row_bytes(first + r))?;
        }
        Ok(operand)
    }

    fn region(&mut self, region: &Region) -> Result<KvRegion, BackendError> {
        let keys = self.alloc(region.keys.len())?;
        let values = self.alloc(region.values.len())?;
        self.backend.write(keys, 0, &region.keys)?;
        self.backend.write(values, 0, &region.values)?;
        Ok(KvRegion {
            shape: region.shape,
            keys,
            values,
        })
    }

    fn read_all(&mut self, region: &KvRegion, which: usize) -> Result<Vec<u8>, BackendError> {
        let cell_bytes = region.shape.format.cell_bytes(region.shape.width);
        let mut bytes = vec![0; cell_bytes.unwrap_or(0) * region.shape.cells];
        let buffer = [region.keys, region.values][which];
        self.backend.read(buffer, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// The rows of the value, once the elements around them are found untouched.
    fn read(&mut self, operand: &Operand) -> Result<Vec<f32>, BackendError> {
        let rows = operand.rows.total();
        let mut bytes = vec![0; 4 * (operand.offset + operand.stride * rows + MARGIN)];
        self.backend.read(operand.buffer, 0, &mut bytes)?;
        let mut value = Vec::with_capacity(operand.width * rows);
        for (i, word) in bytes.chunks_exact(4).enumerate() {
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            let inside = i
                .checked_sub(operand.offset)
                .is_some_and(|i| i / operand.stride < rows && i % operand.stride < operand.width);
            if inside {
                value.push(f32::from_bits(word));
            } else if word != GUARD {
                return Err(BackendError {
                    backend: self.backend.name().to_owned(),
                    message: format!("element {i} outside of {operand:?} was written"),
                });
            }
        }
        Ok(value)
    }

    fn free(self) {
        for buffer in self.buffers {
            self.backend.free(buffer);
        }
    }
}

/// Rows of an operand with these symbolic rows.
fn roles(rows: Rows, range: &RowRange) -> RowCount {
    match rows {
        Rows::Fixed(prompt) => RowCount {
            prompt,
            generated: 0,
        },
        Rows::Tokens | Rows::Outputs => RowCount {
            prompt: range.prompt,
            generated: range.rows.len() - range.prompt,
        },
    }
}
