//! Registered weights.

use std::collections::HashMap;

use minfer_gguf::{Tensor, TensorType, quantize};
use minfer_graph::{Graph, WeightId};

use crate::matmul::{Matrix, is_supported};

/// Why a weight cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum WeightError {
    #[error("weight id {0} is not in the graph")]
    Id(u32),
    #[error("weight '{0}' is not registered")]
    Missing(String),
    #[error("weight '{name}' has shape {shape:?}, {expected} is needed")]
    Shape {
        name: String,
        shape: Vec<usize>,
        expected: String,
    },
    #[error("weight '{name}' of shape {shape:?} and type {ty} has {found} bytes")]
    Bytes {
        name: String,
        shape: Vec<usize>,
        ty: TensorType,
        found: usize,
    },
    #[error("weight '{name}' has type {ty}, which this backend cannot read")]
    Type { name: String, ty: TensorType },
}

struct Weight {
    tensor: Tensor,
    /// Elements of a tensor of one row (gains, biases, factors), as f32.
    vector: Vec<f32>,
}

impl Weight {
    /// Its elements, which must be `len` in one row.
    fn elements(&self, len: usize) -> Result<&[f32], WeightError> {
        if self.vector.len() != len || len == 0 {
            return Err(shape_error(&self.tensor, format!("[{len}]")));
        }
        Ok(&self.vector)
    }
}

/// Weights by name. Matrices stay where the tensor's bytes are.
#[derive(Default)]
pub(super) struct Weights {
    by_name: HashMap<String, Weight>,
}

impl Weights {
    pub(super) fn register(&mut self, tensor: &Tensor) -> Result<(), WeightError> {
        let name = &tensor.name;
        if !is_supported(tensor.ty) {
            return Err(WeightError::Type {
                name: name.clone(),
                ty: tensor.ty,
            });
        }
        let (in_dim, rows) = dimensions(tensor);
        let expected = tensor
            .ty
            .row_bytes(in_dim)
            .and_then(|row| row.checked_mul(rows?));
        let wrong_size = || WeightError::Bytes {
            name: name.clone(),
            shape: tensor.shape.clone(),
            ty: tensor.ty,
            found: tensor.bytes.len(),
        };
        if expected != Some(tensor.bytes.len()) {
            return Err(wrong_size());
        }
        let mut vector = Vec::new();
        if rows == Some(1) {
            vector.resize(in_dim, 0.0);
            quantize::dequantize(tensor.ty, &tensor.bytes, &mut vector)
                .map_err(|_| wrong_size())?;
        }
        let tensor = tensor.clone();
        self.by_name.insert(name.clone(), Weight { tensor, vector });
        Ok(())
    }

    fn get(&self, graph: &Graph, id: WeightId) -> Result<&Weight, WeightError> {
        let name = graph
            .weights
            .get(id.0 as usize)
            .ok_or(WeightError::Id(id.0))?;
        self.named(name)
    }

    fn named(&self, name: &str) -> Result<&Weight, WeightError> {
        self.by_name
            .get(name)
            .ok_or_else(|| WeightError::Missing(name.to_owned()))
    }

    /// A weight of `len` elements in one row.
    pub(super) fn vector(
        &self,
        graph: &Graph,
        id: WeightId,
        len: usize,
    ) -> Result<&[f32], WeightError> {
        self.get(graph, id)?.elements(len)
    }

    /// [`Weights::vector`] outside of a graph.
    pub(super) fn named_vector(&self, name: &str, len: usize) -> Result<&[f32], WeightError> {
        self.named(name)?.elements(len)
    }

    /// A weight with `in_dim` elements per row, any number of rows.
    pub(super) fn table(
        &self,
        graph: &Graph,
        id: WeightId,
        in_dim: usize,
    ) -> Result<Matrix<'_>, WeightError> {
        let tensor = &self.get(graph, id)?.tensor;
        match dimensions(tensor) {
            (width, Some(out_dim)) if width == in_dim && width > 0 => Ok(Matrix {
                ty: tensor.ty,
                bytes: &tensor.bytes,
                in_dim,
                out_dim,
            }),
            _ => Err(shape_error(tensor, format!("[{in_dim}, n]"))),
        }
    }

    /// A weight `[in_dim, out_dim]`.
    pub(super) fn matrix(
        &self,
        graph: &Graph,
        id: WeightId,
        in_dim: usize,
        out_dim: usize,
    ) -> Result<Matrix<'_>, WeightError> {
        let matrix = self.table(graph, id, in_dim)?;
        if matrix.out_dim != out_dim {
            let tensor = &self.get(graph, id)?.tensor;
            return Err(shape_error(tensor, format!("[{in_dim}, {out_dim}]")));
        }
        Ok(matrix)
    }
}

/// Elements per row, and rows; `None` where their number overflows.
fn dimensions(tensor: &Tensor) -> (usize, Option<usize>) {
    let in_dim = tensor.shape.first().copied().unwrap_or(0);
    let outer = tensor.shape.get(1..).unwrap_or_default();
    let rows = outer
        .iter()
        .try_fold(1usize, |product, &n| product.checked_mul(n));
    (in_dim, rows)
}

fn shape_error(tensor: &Tensor, expected: String) -> WeightError {
    WeightError::Shape {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        expected,
    }
}
