//! Layout of the persistent KV regions, and the regions themselves.

use crate::backend::{Backend, BufferId, KvRegion};
use crate::error::GraphError;
use crate::ir::{Rope, RopeStyle, WeightId};

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
    /// Elements that are encoded together.
    pub fn block_len(self) -> usize {
        match self {
            KvFormat::F32 | KvFormat::F16 => 1,
            KvFormat::Q8_0 => 32,
        }
    }

    /// Bytes of `width` features; `None` when they are not whole blocks.
    pub fn row_bytes(self, width: usize) -> Option<usize> {
        let block_bytes = match self {
            KvFormat::F32 => 4,
            KvFormat::F16 => 2,
            KvFormat::Q8_0 => 34,
        };
        let blocks = width / self.block_len();
        width
            .is_multiple_of(self.block_len())
            .then(|| blocks.checked_mul(block_bytes))?
    }

    /// Bytes of one cell of `width` features, padded to whole 4-byte words so that every cell starts
    /// aligned; `None` when the format cannot hold this width.
    pub fn cell_bytes(self, width: usize) -> Option<usize> {
        self.row_bytes(width)?.checked_next_multiple_of(4)
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

/// Why a KV region cannot have a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KvShapeError {
    /// It would be empty, or rows are not whole heads.
    #[error("{cells} cells of {width} features in heads of {head_dim}")]
    Heads {
        /// Rows of the region.
        cells: usize,
        /// Features of a row.
        width: usize,
        /// Features per head.
        head_dim: usize,
    },
    /// A head would share a block with another.
    #[error(
        "{format:?} cannot hold heads of {head_dim} features: they are not whole blocks of {block}"
    )]
    Blocks {
        /// The format.
        format: KvFormat,
        /// Features per head.
        head_dim: usize,
        /// Features per block of the format.
        block: usize,
    },
    /// Cells are numbered in 32 bits, bytes in a `usize`.
    #[error("{cells} cells of {width} features are too many")]
    Size {
        /// Rows of the region.
        cells: usize,
        /// Features of a row.
        width: usize,
    },
}

impl KvShape {
    /// Bytes of one cell.
    ///
    /// # Errors
    /// A shape that no region can have; heads must be whole blocks of the format, so that each can be
    /// read and rotated alone.
    pub fn cell_bytes(&self) -> Result<usize, KvShapeError> {
        let KvShape {
            cells,
            width,
            head_dim,
            format,
        } = *self;
        if cells == 0 || width == 0 || head_dim == 0 || !width.is_multiple_of(head_dim) {
            return Err(KvShapeError::Heads {
                cells,
                width,
                head_dim,
            });
        }
        let block = format.block_len();
        if !head_dim.is_multiple_of(block) {
            return Err(KvShapeError::Blocks {
                format,
                head_dim,
                block,
            });
        }
        let cell_bytes = format.cell_bytes(width);
        let fits = |bytes: &usize| bytes.checked_mul(cells).is_some();
        match cell_bytes.filter(fits) {
            Some(bytes) if i32::try_from(cells).is_ok() => Ok(bytes),
            _ => Err(KvShapeError::Size { cells, width }),
        }
    }
}

/// Keys or values of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KvPart {
    /// Its keys.
    Keys,
    /// Its values.
    Values,
}

/// How a model rotates its keys: [`Rope`] for all layers, with the factors by name.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRope {
    /// Pairing of dimensions.
    pub style: RopeStyle,
    /// Leading features of each head that are rotated, even.
    pub n_rot: usize,
    /// Base of the geometric frequency series.
    pub freq_base: f32,
    /// Linear position scaling; 1 for none.
    pub freq_scale: f32,
    /// Name of the weight with `n_rot / 2` divisors of the frequencies, if any.
    pub factors: Option<String>,
}

impl KeyRope {
    /// The same rotation in a graph that knows the factors as `factors`.
    pub fn in_graph(&self, head_dim: usize, factors: Option<WeightId>) -> Rope {
        Rope {
            style: self.style,
            head_dim,
            n_rot: self.n_rot,
            freq_base: self.freq_base,
            freq_scale: self.freq_scale,
            factors,
        }
    }
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
        let Some(shape) = self.layout.layer(layer) else {
            let reason = format!("only {} layers have one", self.layout.len());
            return Err(GraphError::Kv { layer, reason });
        };
        let cell = shape
            .cell_bytes()
            .map_err(|source| GraphError::KvShape { layer, source })?;
        Ok(cell * shape.cells)
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
