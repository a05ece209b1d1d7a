//! What operations work on.

use minfer_gguf::TensorType;

use super::error::{OpError, number, same};
use crate::arguments::Product;
use crate::device::{Access, Argument, Buffer, BufferRange, copy_references};

/// Bytes of an activation's or integer's element.
const ELEMENT: usize = 4;
/// Elements that kernels load together.
pub(super) const VECTOR: usize = 4;
/// Bytes that a weight's start is a multiple of: kernels load the blocks of some types 16 bytes at a time.
pub const WEIGHT_ALIGNMENT: usize = 16;

/// A `[width, rows]` value of f32 or i32 in a buffer. Feature `i` of row `r` is element
/// `offset + r * stride + i`.
#[derive(Debug)]
pub struct Rows<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// First element.
    pub offset: usize,
    /// Features per row.
    pub width: usize,
    /// Elements between the starts of two rows.
    pub stride: usize,
    /// Number of rows.
    pub rows: usize,
}

impl<'a, B: Buffer> Rows<'a, B> {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.rows == 0
    }

    /// An error unless it is a contiguous list of `count` integers, as kernels read them.
    pub(crate) fn check_integers(
        &self,
        op: &'static str,
        what: &'static str,
        count: usize,
    ) -> Result<(), OpError> {
        same(op, what, self.rows, count)?;
        let is_list = self.width == 1 && (self.rows <= 1 || self.stride == 1);
        if is_list {
            return Ok(());
        }
        let found = format!("{what} of width {}, {} apart", self.width, self.stride);
        Err(OpError::value(op, "an input", found, "a list"))
    }

    /// The first `count` rows, and the others.
    pub(crate) fn split_at(self, count: usize) -> [Self; 2] {
        let count = count.min(self.rows);
        let first = Rows {
            rows: count,
            ..self
        };
        let others = Rows {
            // What overflows is out of every buffer's bounds.
            offset: self
                .offset
                .saturating_add(count.saturating_mul(self.stride)),
            rows: self.rows - count,
            ..self
        };
        [first, others]
    }

    /// Whether every row starts at a multiple of the vector width.
    pub(crate) fn is_vectorizable(&self) -> bool {
        let strides = self.rows <= 1 || self.stride.is_multiple_of(VECTOR);
        strides && self.offset.is_multiple_of(VECTOR)
    }

    /// The bytes from the first to the last element, which lie in the buffer.
    pub(crate) fn range(&self, op: &'static str) -> Result<BufferRange<'a, B>, OpError> {
        if self.rows > 1 && self.stride < self.width {
            return Err(OpError::value(op, "a stride", self.stride, self.width));
        }
        let elements = self.rows.saturating_sub(1).checked_mul(self.stride);
        let elements = elements.and_then(|before_last| before_last.checked_add(self.width));
        let bytes = |elements: usize| elements.checked_mul(ELEMENT);
        let (Some(offset), Some(bytes)) = (bytes(self.offset), elements.and_then(bytes)) else {
            let found =
                format_args!("{} rows, {} elements apart", self.rows, self.stride).to_string();
            return Err(OpError::value(
                op,
                "a value",
                found,
                "fewer bytes than an address space",
            ));
        };
        let range = BufferRange {
            buffer: self.buffer,
            offset,
            bytes,
        };
        range.check()?;
        Ok(range)
    }

    /// Binds it.
    pub(crate) fn argument(
        &self,
        op: &'static str,
        index: u32,
        access: Access,
    ) -> Result<Argument<'a, B>, OpError> {
        Ok(Argument::Buffer {
            index,
            range: self.range(op)?,
            access,
        })
    }
}

/// A list of row numbers, i32, with the same on the host: a kernel trusts them.
#[derive(Debug)]
pub struct Indices<'a, B> {
    /// Where the device reads them.
    pub rows: Rows<'a, B>,
    /// Their values.
    pub values: &'a [i32],
}

impl<B: Buffer> Indices<'_, B> {
    /// Those of the first `count` rows, and the others.
    pub(crate) fn split_at(self, count: usize) -> [Self; 2] {
        let width = self.values.len().checked_div(self.rows.rows).unwrap_or(0);
        let (first, others) = self.values.split_at(width * count.min(self.rows.rows));
        let [first_rows, other_rows] = self.rows.split_at(count);
        [(first_rows, first), (other_rows, others)].map(|(rows, values)| Indices { rows, values })
    }

    /// An error unless there are `rows` of them, each below `count`.
    pub(crate) fn check(
        &self,
        op: &'static str,
        what: &'static str,
        rows: usize,
        count: usize,
    ) -> Result<(), OpError> {
        self.rows.check_integers(op, what, rows)?;
        same(op, "the number of indices", self.values.len(), rows)?;
        let is_outside = |index: &i32| !usize::try_from(*index).is_ok_and(|index| index < count);
        match self.values.iter().position(is_outside) {
            None => Ok(()),
            Some(row) => Err(OpError::Index {
                op,
                what,
                row,
                index: self.values[row],
                count,
            }),
        }
    }
}

/// A weight `[in_width, out_width]` in a buffer: `out_width` rows, each of whole blocks.
#[derive(Debug)]
pub struct Matrix<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// First byte, a multiple of [`WEIGHT_ALIGNMENT`].
    pub offset: usize,
    /// Type of the elements.
    pub ty: TensorType,
    /// Elements per row.
    pub in_width: usize,
    /// Number of rows.
    pub out_width: usize,
}

impl<'a, B: Buffer> Matrix<'a, B> {
    /// Arguments of a kernel for `y`, the product of the weight and `x`.
    pub(crate) fn product(
        &self,
        op: &'static str,
        y: &Rows<'_, B>,
        x: &Rows<'_, B>,
    ) -> Result<Product, OpError> {
        same(op, "the width of the input", x.width, self.in_width)?;
        same(op, "the width of the output", y.width, self.out_width)?;
        same(op, "the rows of the input", x.rows, y.rows)?;
        if !y.is_empty() && x.width == 0 {
            let what = "the width of the input";
            return Err(OpError::value(op, what, 0, "at least 1"));
        }
        Ok(Product {
            in_width: number(op, "the width of the input", x.width)?,
            out_width: number(op, "the width of the output", y.width)?,
            rows: number(op, "the rows of the input", x.rows)?,
            x_stride: number(op, "a stride", x.stride)?,
            y_stride: number(op, "a stride", y.stride)?,
            row_bytes: number(op, "the bytes of a row", self.row_bytes(op)?)?,
        })
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self, op: &'static str) -> Result<usize, OpError> {
        let bytes = self.ty.row_bytes(self.in_width);
        bytes.ok_or_else(|| {
            let blocks = format!("whole blocks of {} ({})", self.ty.block_len(), self.ty);
            OpError::value(op, "the width of a weight", self.in_width, blocks)
        })
    }

    /// Binds all rows for reading.
    pub(crate) fn argument(
        &self,
        op: &'static str,
        index: u32,
    ) -> Result<Argument<'a, B>, OpError> {
        let bytes = self.row_bytes(op)?.checked_mul(self.out_width);
        let bytes = bytes.ok_or_else(|| {
            let expected = "fewer bytes than an address space";
            OpError::value(op, "rows of a weight", self.out_width, expected)
        })?;
        if !self.offset.is_multiple_of(WEIGHT_ALIGNMENT) {
            let expected = format_args!("a multiple of {WEIGHT_ALIGNMENT}").to_string();
            let what = "the first byte of a weight";
            return Err(OpError::value(op, what, self.offset, expected));
        }
        let range = BufferRange {
            buffer: self.buffer,
            offset: self.offset,
            bytes,
        };
        range.check()?;
        Ok(Argument::Buffer {
            index,
            range,
            access: Access::Read,
        })
    }
}

copy_references!(Rows, Indices, Matrix);
