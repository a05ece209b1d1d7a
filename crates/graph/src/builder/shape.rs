//! Checks on the inputs of a node under construction.

use super::GraphBuilder;
use crate::error::GraphError;
use crate::ir::{DType, NodeId, Op, Rows};

/// Shape and element type of a node's value.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub width: usize,
    pub rows: Rows,
    pub dtype: DType,
}

impl Shape {
    pub(super) fn f32(width: usize, rows: Rows) -> Self {
        let dtype = DType::F32;
        Shape { width, rows, dtype }
    }

    pub(super) fn i32(width: usize, rows: Rows) -> Self {
        let dtype = DType::I32;
        Shape { width, rows, dtype }
    }
}

/// What an operation asks of one input; `None` accepts anything.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    dtype: DType,
    width: Option<usize>,
    rows: Option<Rows>,
}

impl Expected {
    /// Any f32 activation.
    pub(super) const ACTIVATION: Expected = Expected {
        dtype: DType::F32,
        width: None,
        rows: None,
    };

    /// I32, `[width, rows]`.
    pub(super) fn indices(width: usize, rows: Rows) -> Self {
        Expected {
            dtype: DType::I32,
            width: Some(width),
            rows: Some(rows),
        }
    }

    pub(super) fn width(mut self, width: usize) -> Self {
        self.width = Some(width);
        self
    }

    pub(super) fn rows(mut self, rows: Rows) -> Self {
        self.rows = Some(rows);
        self
    }
}

impl GraphBuilder<'_> {
    /// Checks an input of the node `name` (within the scope) against what `op` expects.
    pub(super) fn expect(
        &self,
        name: &str,
        op: &Op,
        input: NodeId,
        expected: Expected,
    ) -> Result<(), GraphError> {
        let x = self.node(input);
        let fits = x.dtype == expected.dtype
            && expected.width.is_none_or(|width| width == x.width)
            && expected.rows.is_none_or(|rows| rows == x.rows);
        if fits {
            return Ok(());
        }
        Err(GraphError::InputShape {
            node: self.scoped(name),
            op: op.name(),
            input: x.name.clone(),
            found: describe(x.dtype, Some(x.width), Some(x.rows)),
            expected: describe(expected.dtype, expected.width, expected.rows),
        })
    }
}

fn describe(dtype: DType, width: Option<usize>, rows: Option<Rows>) -> String {
    let width = width.map_or("any".into(), |width| width.to_string());
    let rows = match rows {
        None => "any".into(),
        Some(Rows::Tokens) => "tokens".into(),
        Some(Rows::Outputs) => "outputs".into(),
        Some(Rows::Fixed(n)) => n.to_string(),
    };
    format!("{dtype:?} [{width}, {rows}]")
}
