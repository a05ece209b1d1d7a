//! Keys and values: stored into the cells of a region, and read back as f32.

use minfer_gguf::TensorType;
use minfer_graph::{KvFormat, KvShape};

use super::rows::{embed_kernel, gather};
use super::{Encode, Indices, Kernel, OpError, Rows, copied, number, same};
use crate::arguments::KvStore;
use crate::device::{Access, Argument, Buffer, BufferRange, Device, copy_references};
use crate::kernels::KV;

/// Lanes that the store of blocks takes per simdgroup: as many as a block has elements.
const LANES_OF_BLOCK: usize = 32;

/// The keys or the values of a region.
#[derive(Debug)]
pub struct Cells<'a, B> {
    /// The buffer, which starts with cell 0.
    pub buffer: &'a B,
    /// Shape of the region.
    pub shape: KvShape,
}

copy_references!(Cells);

impl<'a, B: Buffer> Cells<'a, B> {
    /// Bytes of a cell.
    pub(crate) fn cell_bytes(&self, op: &'static str) -> Result<usize, OpError> {
        let bytes = self.shape.cell_bytes();
        bytes.map_err(|error| OpError::value(op, "the region", error, "a region that can be"))
    }

    /// Binds the first `cells` cells, at least one.
    pub(crate) fn argument(
        &self,
        op: &'static str,
        index: u32,
        cells: usize,
        access: Access,
    ) -> Result<Argument<'a, B>, OpError> {
        let range = BufferRange {
            buffer: self.buffer,
            offset: 0,
            bytes: self.cell_bytes(op)?.saturating_mul(cells),
        };
        range.check()?;
        Ok(Argument::Buffer {
            index,
            range,
            access,
        })
    }
}

/// Writes each row of `x`, in the region's format, to the cell that `cells` names for it, each a different one.
pub fn store<D: Device>(
    encode: &mut Encode<'_, D>,
    region: Cells<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    cells: Indices<'_, D::Buffer>,
) -> Result<(), OpError> {
    let name = match region.shape.format {
        KvFormat::F32 => "kv_store_f32",
        KvFormat::F16 => "kv_store_f16",
        KvFormat::Q8_0 => "kv_store_q8_0",
    };
    same(name, "the width of the input", x.width, region.shape.width)?;
    cells.check(name, "cell", x.rows, region.shape.cells)?;
    if region.shape.format == KvFormat::Q8_0 {
        let lanes = encode.device.info().simd_width;
        same(name, "the simdgroup's width", lanes, LANES_OF_BLOCK)?;
    }
    if x.is_empty() {
        return Ok(());
    }
    let arguments = KvStore {
        width: number(name, "width", x.width)?,
        x_stride: number(name, "a stride", x.stride)?,
        cell_bytes: number(name, "the bytes of a cell", region.cell_bytes(name)?)?,
    };
    let kernel = Kernel {
        file: KV,
        name,
        constants: &[],
    };
    encode.threads(
        kernel,
        [x.width, x.rows, 1],
        &[
            copied(&arguments),
            region.argument(name, 1, region.shape.cells, Access::Write)?,
            x.argument(name, 2, Access::Read)?,
            cells.rows.argument(name, 3, Access::Read)?,
        ],
    )
}

/// `y[r]` is cell `cells[r]`, dequantized.
pub fn load<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    region: Cells<'_, D::Buffer>,
    cells: Indices<'_, D::Buffer>,
) -> Result<(), OpError> {
    const NAME: &str = "kv_load";
    same(NAME, "the width of the output", y.width, region.shape.width)?;
    cells.check(NAME, "cell", y.rows, region.shape.cells)?;
    // A region is a table whose rows are as far apart as its cells.
    gather(
        encode,
        embed_kernel(element_type(region.shape.format))?,
        y,
        region.argument(NAME, 2, region.shape.cells, Access::Read)?,
        region.cell_bytes(NAME)?,
        cells,
    )
}

/// The type of cells.
pub(super) fn element_type(format: KvFormat) -> TensorType {
    match format {
        KvFormat::F32 => TensorType::F32,
        KvFormat::F16 => TensorType::F16,
        KvFormat::Q8_0 => TensorType::Q8_0,
    }
}
