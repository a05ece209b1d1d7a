//! Shapes and types of a model's weights, without their bytes.

use std::collections::HashMap;

use minfer_gguf::{Tensor, TensorType};

/// Type and shape of one weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightInfo {
    /// Element type.
    pub ty: TensorType,
    /// Dimensions, innermost first: a projection is `[in, out]`.
    pub shape: Vec<usize>,
}

impl WeightInfo {
    /// Size along dimension `i`; 1 beyond the last, as GGUF counts.
    pub fn dim(&self, i: usize) -> usize {
        self.shape.get(i).copied().unwrap_or(1)
    }

    /// Whether all dimensions from `rank` on are 1.
    pub fn fits_rank(&self, rank: usize) -> bool {
        self.shape.iter().skip(rank).all(|&n| n == 1)
    }
}

/// What the builder and the planner know about weights: name to type and shape.
#[derive(Clone, Debug, Default)]
pub struct WeightCatalog {
    weights: HashMap<String, WeightInfo>,
}

impl WeightCatalog {
    /// Describes these tensors. A name that comes twice keeps the last description.
    pub fn from_tensors<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Self {
        let mut catalog = WeightCatalog::default();
        for tensor in tensors {
            catalog.insert(&tensor.name, tensor.ty, &tensor.shape);
        }
        catalog
    }

    /// Adds or replaces one weight.
    pub fn insert(&mut self, name: &str, ty: TensorType, shape: &[usize]) {
        let shape = shape.to_vec();
        self.weights
            .insert(name.to_owned(), WeightInfo { ty, shape });
    }

    /// The weight of this name.
    pub fn get(&self, name: &str) -> Option<&WeightInfo> {
        self.weights.get(name)
    }
}
