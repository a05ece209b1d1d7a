//! Tensor entries of a header: checks of shape, size and place.

use crate::cursor::{Cursor, Place};
use crate::name_index::NameIndex;
use crate::{ErrorKind, TensorType};

/// Most dimensions of a tensor (`GGML_MAX_DIMS`).
const MAX_DIMENSIONS: usize = 4;

/// What a file says about a tensor, all of it checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Name, for example `blk.0.attn_q.weight`.
    pub name: String,
    /// Element type.
    pub ty: TensorType,
    /// Dimensions, innermost (contiguous) first: a weight is `[in, out]`.
    pub shape: Vec<usize>,
    /// Index of the file that holds the bytes, see [`crate::Gguf::paths`].
    pub part: usize,
    /// First byte, from the start of that file.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

/// A tensor entry as parsed; its place in the file is not yet checked.
pub(crate) struct TensorEntry {
    name: String,
    ty: TensorType,
    shape: Vec<usize>,
    /// From the start of the data section.
    offset: u64,
    len: usize,
}

impl TensorEntry {
    /// Parses the entry at `index` and checks its shape.
    pub(crate) fn parse(cursor: &mut Cursor, index: usize) -> Result<Self, ErrorKind> {
        let name = cursor.string(Place::TensorName(index))?;
        let place = Place::Tensor(&name);
        let found = cursor.u32(place)?;
        let dimensions = usize::try_from(found)
            .ok()
            .filter(|n| (1..=MAX_DIMENSIONS).contains(n))
            .ok_or_else(|| ErrorKind::DimensionCount {
                tensor: name.clone(),
                found,
                most: MAX_DIMENSIONS,
            })?;
        let dimensions = (0..dimensions)
            .map(|_| cursor.u64(place))
            .collect::<Result<Vec<_>, _>>()?;
        let code = cursor.u32(place)?;
        let offset = cursor.u64(place)?;
        if dimensions.contains(&0) {
            return Err(ErrorKind::ZeroDimension {
                tensor: name,
                shape: dimensions,
            });
        }
        let ty = TensorType::from_code(code).ok_or_else(|| ErrorKind::TensorType {
            tensor: name.clone(),
            code,
        })?;
        if !dimensions[0].is_multiple_of(ty.block_len() as u64) {
            return Err(ErrorKind::RowLength {
                tensor: name,
                ty,
                len: dimensions[0],
            });
        }
        match sizes(ty, &dimensions) {
            Some((shape, len)) => Ok(TensorEntry {
                name,
                ty,
                shape,
                offset,
                len,
            }),
            None => Err(ErrorKind::SizeOverflow {
                tensor: name,
                shape: dimensions,
                offset,
            }),
        }
    }

    fn overflow(&self) -> ErrorKind {
        ErrorKind::SizeOverflow {
            tensor: self.name.clone(),
            shape: self.shape.iter().map(|&n| n as u64).collect(),
            offset: self.offset,
        }
    }
}

/// The shape and the bytes of a tensor whose rows are whole blocks; `None` on overflow.
fn sizes(ty: TensorType, dimensions: &[u64]) -> Option<(Vec<usize>, usize)> {
    let shape = dimensions
        .iter()
        .map(|&n| usize::try_from(n).ok())
        .collect::<Option<Vec<_>>>()?;
    let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
    let len = ty.row_bytes(elements)?;
    // Rust objects end below isize::MAX; readers may compute with signed sizes.
    isize::try_from(len).ok()?;
    isize::try_from(elements).ok()?;
    Some((shape, len))
}

impl TensorInfo {
    /// Places `entries` into a file of `file_len` bytes whose header ends at `header_end`.
    pub(crate) fn locate(
        entries: Vec<TensorEntry>,
        part: usize,
        header_end: usize,
        alignment: usize,
        file_len: usize,
    ) -> Result<Vec<Self>, ErrorKind> {
        let data_start = header_end.checked_next_multiple_of(alignment);
        let mut tensors = Vec::with_capacity(entries.len());
        for entry in entries {
            let data_start = data_start.ok_or_else(|| entry.overflow())?;
            let offset = Self::offset(&entry, data_start, alignment, file_len)?;
            tensors.push(TensorInfo {
                name: entry.name,
                ty: entry.ty,
                shape: entry.shape,
                part,
                offset,
                len: entry.len,
            });
        }
        check_overlap(&tensors)?;
        Ok(tensors)
    }

    /// The checked offset of an entry from the start of the file.
    fn offset(
        entry: &TensorEntry,
        data_start: usize,
        alignment: usize,
        file_len: usize,
    ) -> Result<usize, ErrorKind> {
        if !entry.offset.is_multiple_of(alignment as u64) {
            return Err(ErrorKind::Unaligned {
                tensor: entry.name.clone(),
                offset: entry.offset,
                alignment: alignment as u64,
            });
        }
        let start = usize::try_from(entry.offset)
            .ok()
            .and_then(|offset| offset.checked_add(data_start))
            .ok_or_else(|| entry.overflow())?;
        let end = start
            .checked_add(entry.len)
            .filter(|end| end.checked_next_multiple_of(alignment).is_some())
            .ok_or_else(|| entry.overflow())?;
        if end > file_len {
            return Err(ErrorKind::OutsideFile {
                tensor: entry.name.clone(),
                offset: entry.offset,
                len: entry.len as u64,
                available: file_len.saturating_sub(data_start) as u64,
            });
        }
        Ok(start)
    }
}

fn check_overlap(tensors: &[TensorInfo]) -> Result<(), ErrorKind> {
    let mut by_offset: Vec<&TensorInfo> = tensors.iter().collect();
    by_offset.sort_by_key(|t| t.offset);
    for pair in by_offset.windows(2) {
        if pair[0].offset + pair[0].len > pair[1].offset {
            return Err(ErrorKind::Overlap {
                first: pair[0].name.clone(),
                second: pair[1].name.clone(),
            });
        }
    }
    Ok(())
}

/// Indexes the tensors of a model; the error is the second one of a name.
pub(crate) fn index(tensors: &[TensorInfo]) -> Result<NameIndex, &TensorInfo> {
    NameIndex::new(tensors, |t| &t.name).map_err(|second| &tensors[second])
}
