//! Layout of the persistent KV regions, and the regions themselves.

use crate::backend::{Backend, BufferId, KvRegion};
use crate::error::GraphError;

/// Element format of keys and values in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvFormat {
    /// 32-bit floats.
    F32,
    /// IEEE half floats.
    F16,
    /// GGUF `Q8_0` blocks of 32 elements, 34 bytes each.
    Q8_0,
}

impl KvFormat {
    /// Bytes of one cell of `width` features, padded to whole 4-byte words so that every cell starts
    /// aligned; `None` when the format cannot hold this width.
    pub fn cell_bytes(self, width: usize) -> Option<usize> {
        match self {
            KvFormat::F32 => width.checked_mul(4),
            KvFormat::F16 => width.checked_mul(2)?.checked_next_multiple_of(4),
            KvFormat::Q8_0 if width.is_multiple_of(32) => {
                (width / 32).checked_mul(34)?.checked_next_multiple_of(4)
            }
            KvFormat::Q8_0 => None,
        }
    }
}

/// Shape of one layer's region: `cells` keys followed, in a second buffer, by `cells` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KvShape {
    /// Rows of the region.
    pub cells: usize,
    /// Features of a key row and of a value row.
    pub width: usize,
    /// Features per head.
    pub head_dim: usize,
    /// Element format.
    pub format: KvFormat,
}

/// Shapes of all layers' KV regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvLayout {
    layers: Vec<KvShape>,
}

impl KvLayout {
    /// One shape per layer.
    pub fn new(layers: Vec<KvShape>) -> Self {
        KvLayout { layers }
    }

    /// The same shape for every layer.
    pub fn uniform(layers: usize, shape: KvShape) -> Self {
        KvLayout {
            layers: vec![shape; layers],
        }
    }

    /// Shape of a layer's region; `None` beyond the last layer.
    pub fn layer(&self, layer: usize) -> Option<KvShape> {
        self.layers.get(layer).copied()
    }

    /// Number of layers.
    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Whether there is no layer.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

/// The KV regions that exist, at most one per layer. They survive every rebuild of a graph.
#[derive(Debug, Default)]
pub struct KvRegions {
    layout: KvLayout,
    /// Backend index and region of each layer that has one.
    placed: Vec<Option<(usize, KvRegion)>>,
}

impl KvRegions {
    pub(crate) fn new(layout: KvLayout) -> Self {
        let placed = vec![None; layout.len()];
        KvRegions { layout, placed }
    }

    /// Shapes of the regions, existing or not.
    pub fn layout(&self) -> &KvLayout {
        &self.layout
    }

    /// Backend index and region of a layer, once a plan that needs it was prepared.
    pub fn get(&self, layer: usize) -> Option<(usize, KvRegion)> {
        self.placed.get(layer).copied().flatten()
    }

    /// Why a layer's region cannot live on a backend; `None` if it can.
    pub(crate) fn refusal(
        &self,
        layer: usize,
        index: usize,
        backend: &dyn Backend,
    ) -> Option<String> {
        let Some(shape) = self.layout.layer(layer) else {
            let layers = self.layout.len();
            return Some(format!("layer {layer} of {layers} KV regions"));
        };
        match self.get(layer) {
            Some((home, _)) if home != index => {
                Some(format!("the KV region already lives on backend {home}"))
            }
            _ if !backend.reads_kv(shape.format) => {
                Some(format!("cannot read {:?} KV", shape.format))
            }
            _ => None,
        }
    }

    /// Bytes of the keys (and again of the values) of a layer.
    pub(crate) fn bytes(&self, layer: usize) -> Result<usize, GraphError> {
        let fail = |reason| Err(GraphError::Kv { layer, reason });
        let Some(shape) = self.layout.layer(layer) else {
            return fail(format!("only {} layers have one", self.layout.len()));
        };
        let KvShape {
            cells,
            width,
            head_dim,
            format,
        } = shape;
        if cells == 0 || width == 0 || head_dim == 0 || !width.is_multiple_of(head_dim) {
            return fail(format!("{cells} cells of {width} in heads of {head_dim}"));
        }
        let Some(cell) = format.cell_bytes(width) else {
            return fail(format!("{format:?} cannot hold rows of {width} features"));
        };
        match cell.checked_mul(cells) {
            Some(bytes) if i32::try_from(cells).is_ok() => Ok(bytes),
            _ => fail(format!("{cells} cells of {cell} bytes are too many")),
        }
    }

    pub(crate) fn place(&mut self, layer: usize, backend: usize, keys: BufferId, values: BufferId) {
        if let Some(shape) = self.layout.layer(layer) {
            let region = KvRegion {
                shape,
                keys,
                values,
            };
            self.placed[layer] = Some((backend, region));
        }
    }
}
