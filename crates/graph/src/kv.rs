//! Layout of the persistent KV regions.

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
