//! Registered weights, where possible without a copy.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use minfer_gguf::{Storage, Tensor, TensorType, quantize};
use minfer_graph::{Graph, WeightId};

use super::error::NodeError;
use crate::device::{Buffer, Device, DeviceError, StableBytes};
use crate::ops::{Matrix, Rows, WEIGHT_ALIGNMENT, gemm, matvec, rows};

/// Bytes of an f32.
const F32: usize = 4;

/// Bytes of registered weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// Read by the device where the host has them.
    pub shared: usize,
    /// Copied to memory of the device.
    pub copied: usize,
}

/// What a device shares of the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// All whole pages of a file that holds a weight, in one buffer: the fewest buffers.
    #[default]
    Files,
    /// The pages of each weight, in a buffer of its own. Metal makes a buffer resident as a whole, so a device that
    /// runs a part of a model's layers would else hold all of them.
    Weights,
    /// Nothing: weights are copied.
    Nothing,
}

/// Where a weight lies.
#[derive(Clone, Debug)]
struct Place<B> {
    buffer: B,
    /// First byte.
    offset: usize,
    /// Whether the device shares the host's memory there.
    is_shared: bool,
}

struct Weight<B> {
    /// Says where the bytes came from; of a copy, what was copied.
    tensor: Tensor,
    /// The tensor's bytes; `None` for a type that no kernel reads.
    bytes: Option<Place<B>>,
    /// The elements of a single row as f32.
    vector: Option<Place<B>>,
}

/// Whole pages of a storage that the device shares.
struct Part<B> {
    /// Addresses of the pages.
    pages: Range<usize>,
    buffer: B,
}

/// Pages of a storage.
struct Pages {
    storage: Arc<dyn Storage>,
    /// In [`Storage::pages`].
    range: Range<usize>,
}

// SAFETY: the storage promises that its memory stays and does not change.
unsafe impl StableBytes for Pages {
    fn bytes(&self) -> &[u8] {
        &self.storage.pages()[self.range.clone()]
    }
}

/// Weights by name.
pub(super) struct Weights<B> {
    by_name: HashMap<String, Weight<B>>,
    parts: Vec<Part<B>>,
    sharing: Sharing,
}

impl<B: Buffer> Weights<B> {
    pub(super) fn new(sharing: Sharing) -> Self {
        Weights {
            by_name: HashMap::new(),
            parts: Vec::new(),
            sharing,
        }
    }

    pub(super) fn register<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        tensor: &Tensor,
    ) -> Result<(), NodeError> {
        let known = self.by_name.get(&tensor.name);
        if known.is_some_and(|known| is_same(&known.tensor, tensor)) {
            return Ok(());
        }
        let (in_width, count) = dimensions(tensor);
        let row_bytes = tensor.ty.row_bytes(in_width);
        let expected = row_bytes.and_then(|row| row.checked_mul(count?));
        let wrong_size = || NodeError::WeightBytes {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            ty: tensor.ty,
            found: tensor.bytes.len(),
        };
        if expected != Some(tensor.bytes.len()) || tensor.bytes.is_empty() {
            return Err(wrong_size());
        }
        let bytes = match has_kernels(tensor.ty) {
            true => Some(self.place(device, tensor)?),
            false => None,
        };
        let vector = match tensor.ty {
            _ if count != Some(1) => None,
            TensorType::F32 => bytes.clone(),
            ty => {
                let mut values = vec![0.0; in_width];
                quantize::dequantize(ty, &tensor.bytes, &mut values).map_err(|_| wrong_size())?;
                let bytes: Vec<_> = values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                Some(copied(device, &tensor.name, &bytes)?)
            }
        };
        let weight = Weight {
            tensor: tensor.clone(),
            bytes,
            vector,
        };
        self.by_name.insert(tensor.name.clone(), weight);
        Ok(())
    }

    /// Shares the tensor's bytes with the device if they lie in whole pages of their storage, else copies them.
    fn place<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        tensor: &Tensor,
    ) -> Result<Place<B>, DeviceError> {
        let address = tensor.bytes.as_ptr().addr();
        let part = match self.sharing {
            Sharing::Nothing => None,
            Sharing::Files | Sharing::Weights => self.part(device, tensor)?,
        };
        let shared = part.map(|part| Place {
            buffer: part.buffer.clone(),
            offset: address - part.pages.start,
            is_shared: true,
        });
        match shared.filter(|place| place.offset.is_multiple_of(WEIGHT_ALIGNMENT)) {
            Some(place) => Ok(place),
            None => {
                let bytes = tensor.bytes.len();
                tracing::debug!(tensor = tensor.name, bytes, "copied a weight to the device");
                copied(device, &tensor.name, &tensor.bytes)
            }
        }
    }

    /// Shared pages that hold all of a tensor.
    fn part<D: Device<Buffer = B>>(
        &mut self,
        device: &D,
        tensor: &Tensor,
    ) -> Result<Option<&Part<B>>, DeviceError> {
        let start = tensor.bytes.as_ptr().addr();
        let addresses = start..start + tensor.bytes.len();
        if let Some(at) = self
            .parts
            .iter()
            .position(|part| holds(&part.pages, &addresses))
        {
            return Ok(self.parts.get(at));
        }
        let storage = tensor.bytes.storage();
        let info = device.info();
        let most_whole = match self.sharing {
            Sharing::Files => info.max_buffer_bytes,
            Sharing::Weights | Sharing::Nothing => 0,
        };
        let most = info.max_buffer_bytes;
        let pages = shareable(
            &addresses,
            storage.pages(),
            info.page_bytes,
            [most_whole, most],
        );
        let Some(pages) = pages else {
            return Ok(None);
        };
        let base = storage.pages().as_ptr().addr();
        let memory = Pages {
            storage: Arc::clone(storage),
            range: pages.start - base..pages.end - base,
        };
        let buffer = device.wrap(Arc::new(memory), "weights")?;
        self.parts.push(Part { pages, buffer });
        Ok(self.parts.last())
    }

    /// Memory that the device shares.
    pub(super) fn parts(&self) -> impl Iterator<Item = &B> {
        self.parts.iter().map(|part| &part.buffer)
    }

    /// Bytes of all weights that kernels read.
    pub(super) fn bytes(&self) -> WeightBytes {
        let mut total = WeightBytes::default();
        for weight in self.by_name.values() {
            let bytes = weight.tensor.bytes.len();
            match &weight.bytes {
                Some(place) if place.is_shared => total.shared += bytes,
                Some(_) => total.copied += bytes,
                None => {}
            }
        }
        total
    }

    /// Bytes of all buffers: copies, and shared pages whether or not they hold weights.
    pub(super) fn held(&self) -> usize {
        let copies = self.by_name.values().flat_map(|weight| {
            // A vector of f32 is the weight itself.
            let vector = (weight.tensor.ty != TensorType::F32).then_some(&weight.vector);
            [Some(&weight.bytes), vector]
                .into_iter()
                .flatten()
                .flatten()
        });
        let copies = copies.filter(|place| !place.is_shared);
        let copied: usize = copies.map(|place| place.buffer.bytes()).sum();
        let shared: usize = self.parts.iter().map(|part| part.buffer.bytes()).sum();
        copied.saturating_add(shared)
    }

    fn get(&self, graph: &Graph, id: WeightId) -> Result<&Weight<B>, NodeError> {
        let name = graph.weights.get(id.0 as usize);
        self.named(name.ok_or(NodeError::WeightId(id.0))?)
    }

    fn named(&self, name: &str) -> Result<&Weight<B>, NodeError> {
        let weight = self.by_name.get(name);
        weight.ok_or_else(|| NodeError::NoWeight(name.to_owned()))
    }

    /// A weight of `len` elements in one row.
    pub(super) fn vector(
        &self,
        graph: &Graph,
        id: WeightId,
        len: usize,
    ) -> Result<Rows<'_, B>, NodeError> {
        elements(self.get(graph, id)?, len)
    }

    /// The elements of a weight of `len` elements in one row, on the host.
    pub(super) fn host_vector(&self, name: &str, len: usize) -> Result<Vec<f32>, NodeError> {
        let weight = self.named(name)?;
        elements(weight, len)?;
        let mut values = vec![0.0; len];
        let tensor = &weight.tensor;
        let decoded = quantize::dequantize(tensor.ty, &tensor.bytes, &mut values);
        decoded.map_err(|_| shape_error(tensor, format!("[{len}]")))?;
        Ok(values)
    }

    /// A weight with `in_width` elements per row, any number of rows, for the operation `op`.
    pub(super) fn table(
        &self,
        graph: &Graph,
        id: WeightId,
        in_width: usize,
        op: &'static str,
    ) -> Result<Matrix<'_, B>, NodeError> {
        let weight = self.get(graph, id)?;
        let tensor = &weight.tensor;
        let Some(place) = &weight.bytes else {
            return Err(NodeError::WeightType {
                name: tensor.name.clone(),
                ty: tensor.ty,
                op,
            });
        };
        match dimensions(tensor) {
            (width, Some(out_width)) if width == in_width && width > 0 => Ok(Matrix {
                buffer: &place.buffer,
                offset: place.offset,
                ty: tensor.ty,
                in_width,
                out_width,
            }),
            _ => Err(shape_error(tensor, format!("[{in_width}, n]"))),
        }
    }

    /// A weight `[in_width, out_width]`.
    pub(super) fn matrix(
        &self,
        graph: &Graph,
        id: WeightId,
        [in_width, out_width]: [usize; 2],
        op: &'static str,
    ) -> Result<Matrix<'_, B>, NodeError> {
        let matrix = self.table(graph, id, in_width, op)?;
        if matrix.out_width == out_width {
            return Ok(matrix);
        }
        let tensor = &self.get(graph, id)?.tensor;
        Err(shape_error(tensor, format!("[{in_width}, {out_width}]")))
    }
}

/// Its elements, which must be `len` in one row.
fn elements<B: Buffer>(weight: &Weight<B>, len: usize) -> Result<Rows<'_, B>, NodeError> {
    match &weight.vector {
        Some(place) if weight.tensor.shape.first() == Some(&len) => Ok(Rows {
            buffer: &place.buffer,
            offset: place.offset / F32,
            width: len,
            stride: len,
            rows: 1,
        }),
        _ => Err(shape_error(&weight.tensor, format!("[{len}]"))),
    }
}

/// Whether there are kernels for a weight of this type and shape. A single row is read as f32, whatever its type.
pub fn reads_weight(ty: TensorType, shape: &[usize]) -> bool {
    let is_row = shape.iter().skip(1).all(|&n| n == 1);
    is_row || has_kernels(ty)
}

/// Whether every operation with weights reads a type.
fn has_kernels(ty: TensorType) -> bool {
    matvec::multiplies(ty) && gemm::multiplies(ty) && rows::embeds(ty)
}

fn is_same(a: &Tensor, b: &Tensor) -> bool {
    let place = |tensor: &Tensor| (tensor.bytes.as_ptr(), tensor.bytes.len());
    Arc::ptr_eq(a.bytes.storage(), b.bytes.storage())
        && (place(a), a.ty, &a.shape) == (place(b), b.ty, &b.shape)
}

fn holds(pages: &Range<usize>, addresses: &Range<usize>) -> bool {
    pages.start <= addresses.start && addresses.end <= pages.end
}

/// Addresses of whole device pages within `memory` that hold `addresses`: all there are, at most `most_whole` bytes,
/// or those of `addresses` alone, at most `most` bytes.
fn shareable(
    addresses: &Range<usize>,
    memory: &[u8],
    page: usize,
    [most_whole, most]: [usize; 2],
) -> Option<Range<usize>> {
    let start = memory.as_ptr().addr();
    let end = start + memory.len();
    let down = |address: usize| address / page * page;
    let all = start.checked_next_multiple_of(page)?..down(end);
    if !holds(&all, addresses) {
        return None;
    }
    if all.len() <= most_whole {
        return Some(all);
    }
    let own = down(addresses.start)..addresses.end.checked_next_multiple_of(page)?;
    (own.len() <= most).then_some(own)
}

fn copied<D: Device>(
    device: &D,
    name: &str,
    bytes: &[u8],
) -> Result<Place<D::Buffer>, DeviceError> {
    let buffer = device.buffer(bytes.len(), name)?;
    buffer.write(0, bytes)?;
    Ok(Place {
        buffer,
        offset: 0,
        is_shared: false,
    })
}

/// Elements per row, and rows; `None` where their number overflows.
fn dimensions(tensor: &Tensor) -> (usize, Option<usize>) {
    let in_width = tensor.shape.first().copied().unwrap_or(0);
    let outer = tensor.shape.get(1..).unwrap_or_default();
    let rows = outer
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n));
    (in_width, rows)
}

fn shape_error(tensor: &Tensor, expected: String) -> NodeError {
    NodeError::WeightShape {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 16;

    /// Memory of 100 bytes that starts 8 bytes behind a page boundary, and that boundary.
    fn memory(bytes: &[u8; 128]) -> (&[u8], usize) {
        let boundary = bytes.as_ptr().addr().next_multiple_of(PAGE);
        let first = boundary - bytes.as_ptr().addr() + 8;
        (&bytes[first..first + 100], boundary)
    }

    #[test]
    fn whole_pages_inside_the_memory_are_shared() {
        let bytes = [0; 128];
        let (memory, zero) = memory(&bytes);
        // Bytes 8..108, whole pages 16..96.
        let at = |range: Range<usize>| zero + range.start..zero + range.end;
        let pages = |range, max| shareable(&at(range), memory, PAGE, [max; 2]);
        assert_eq!(pages(16..40, 1000), Some(at(16..96)));
        assert_eq!(pages(90..96, 1000), Some(at(16..96)));
        assert_eq!(pages(15..40, 1000), None);
        assert_eq!(pages(90..97, 1000), None);
        assert_eq!(pages(33..64, 79), Some(at(32..64)));
        assert_eq!(pages(33..65, 48), Some(at(32..80)));
        assert_eq!(pages(33..65, 47), None);
        let own = shareable(&at(33..64), memory, PAGE, [0, 1000]);
        assert_eq!(own, Some(at(32..64)));
    }
}
