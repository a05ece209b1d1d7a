//! Queries, and keys and values in their cells.

use minfer_graph::{Rope, RopeStyle};

use super::fused::{Constants, check_bias, check_lanes};
use super::kv::{Cells, element_type};
use super::matvec::LANES;
use super::norm::Normalization;
use super::rope::{self, Turns};
use super::{Encode, Indices, Kernel, Matrix, OpError, Rows, copied, number, same};
use crate::arguments;
use crate::device::{Access, Argument, Buffer, ConstantValue, Device, Pipeline, copy_references};
use crate::kernels::FUSED_QKV;

const NAME: &str = "fused_qkv";
/// Features of the largest head, as in the kernel.
const MOST_FEATURES: usize = 256;

/// What [`fused_qkv`] reads, and where keys and values go.
#[derive(Debug)]
pub struct FusedQkv<'a, B> {
    /// Weights of queries, keys and values, of any types.
    pub weights: [Matrix<'a, B>; 3],
    /// Activations.
    pub x: Rows<'a, B>,
    /// Normalization of the rows of `x`.
    pub input_norm: Option<Normalization<'a, B>>,
    /// One row each, added to the products.
    pub biases: Option<[Rows<'a, B>; 3]>,
    /// Normalization of the heads of queries and of keys.
    pub head_norms: Option<[Normalization<'a, B>; 2]>,
    /// Rotation of queries and keys.
    pub rope: &'a Rope,
    /// Those of the same rotation.
    pub turns: &'a Turns,
    /// Positions of the rows, i32 of at most 2^24.
    pub positions: Rows<'a, B>,
    /// The region's keys.
    pub keys: Cells<'a, B>,
    /// The region's values, in another buffer.
    pub values: Cells<'a, B>,
    /// The rows' cells, each a different one.
    pub cells: Indices<'a, B>,
}

copy_references!(FusedQkv);

/// Whether there is a kernel for heads of so many features.
pub fn serves(head_dim: usize) -> bool {
    (2..=MOST_FEATURES).contains(&head_dim) && head_dim.is_multiple_of(2)
}

impl<B: Buffer> FusedQkv<'_, B> {
    fn arguments(&self, y: &Rows<'_, B>) -> Result<arguments::FusedQkv, OpError> {
        self.check_heads(y)?;
        let [q, k, v] = self.weights;
        let shape = self.keys.shape;
        let stored = Rows {
            width: shape.width,
            ..*y
        };
        let product = q.product(NAME, y, &self.x)?;
        let k_product = k.product(NAME, &stored, &self.x)?;
        let v_product = v.product(NAME, &stored, &self.x)?;
        if let Some(norm) = &self.input_norm {
            norm.check(NAME, self.x.width)?;
        }
        self.positions.check_integers(NAME, "positions", y.rows)?;
        self.cells.check(NAME, "cell", y.rows, shape.cells)?;
        let head_dim = self.rope.head_dim;
        let [q_eps, k_eps] = self
            .head_norms
            .map_or([0.0; 2], |norms| norms.map(|norm| norm.eps));
        Ok(arguments::FusedQkv {
            in_width: product.in_width,
            q_heads: number(NAME, "heads", y.width / head_dim)?,
            kv_heads: number(NAME, "heads", shape.width / head_dim)?,
            head_dim: number(NAME, "head_dim", head_dim)?,
            n_rot: number(NAME, "n_rot", self.rope.n_rot)?,
            rows: product.rows,
            x_stride: product.x_stride,
            y_stride: product.y_stride,
            q_row_bytes: product.row_bytes,
            k_row_bytes: k_product.row_bytes,
            v_row_bytes: v_product.row_bytes,
            cell_bytes: number(NAME, "the bytes of a cell", self.keys.cell_bytes(NAME)?)?,
            eps: self.input_norm.map_or(0.0, |norm| norm.eps),
            q_eps,
            k_eps,
        })
    }

    fn check_heads(&self, y: &Rows<'_, B>) -> Result<(), OpError> {
        let head_dim = self.rope.head_dim;
        if !serves(head_dim) {
            let expected = format_args!("even and at most {MOST_FEATURES}").to_string();
            return Err(OpError::value(NAME, "head_dim", head_dim, expected));
        }
        if self.keys.shape != self.values.shape {
            let [keys, values] = [self.keys, self.values].map(|cells| format!("{:?}", cells.shape));
            return Err(OpError::value(
                NAME,
                "the shape of the values",
                values,
                keys,
            ));
        }
        let shape = self.keys.shape;
        same(NAME, "head_dim of the region", shape.head_dim, head_dim)?;
        rope::check(NAME, self.rope, self.turns, y.width)?;
        for norm in self.head_norms.iter().flatten() {
            norm.check(NAME, head_dim)?;
        }
        let widths = [y.width, shape.width, shape.width];
        for (bias, width) in self.biases.iter().flatten().zip(widths) {
            check_bias(NAME, bias, width)?;
        }
        Ok(())
    }

    fn constants(&self, rows: usize) -> Result<Constants, OpError> {
        let types = self.weights.map(|weight| weight.ty);
        let norm = self.input_norm.as_ref();
        let mut constants = Constants::new(NAME, &types, &self.x, norm, rows, false)?;
        constants.extend(&[
            ConstantValue::Bool(self.biases.is_some()),
            ConstantValue::Bool(self.head_norms.is_some()),
            ConstantValue::Bool(self.rope.style == RopeStyle::Interleaved),
            ConstantValue::U32(element_type(self.keys.shape.format).code()),
        ]);
        Ok(constants)
    }
}

impl<'a, B: Buffer> FusedQkv<'a, B> {
    /// Operands by index, without the argument struct.
    fn bindings(&self, y: &Rows<'a, B>) -> Result<Vec<Argument<'a, B>>, OpError> {
        let read = |index, rows: Rows<'a, B>| rows.argument(NAME, index, Access::Read);
        let [q, k, v] = self.weights;
        let cells = self.keys.shape.cells;
        let mut bindings = vec![
            y.argument(NAME, 1, Access::Write)?,
            self.keys.argument(NAME, 2, cells, Access::Write)?,
            self.values.argument(NAME, 3, cells, Access::Write)?,
            read(4, self.x)?,
            q.argument(NAME, 5)?,
            k.argument(NAME, 6)?,
            v.argument(NAME, 7)?,
            read(8, self.positions)?,
            self.turns.argument(9),
            read(10, self.cells.rows)?,
        ];
        let gains = self.head_norms.map(|norms| norms.map(|norm| norm.gain));
        let optional = (11..).zip(
            [self.input_norm.map(|norm| norm.gain)]
                .into_iter()
                .chain(each(self.biases))
                .chain(each(gains)),
        );
        for (index, rows) in optional {
            if let Some(rows) = rows {
                bindings.push(read(index, rows)?);
            }
        }
        Ok(bindings)
    }
}

/// All or none.
fn each<T, const N: usize>(all: Option<[T; N]>) -> impl Iterator<Item = Option<T>> {
    let mut all = all.map(|all| all.into_iter());
    (0..N).map(move |_| all.as_mut()?.next())
}

/// `y` is the rotated queries of the rows; keys, rotated, and values go to the rows' cells. A row has the bits of
/// [`rms_norm`](super::norm::rms_norm), [`matvec`](super::matvec::matvec()), a sum with the bias, `rms_norm` of heads,
/// [`rope`](super::rope::rope()) and [`kv::store`](super::kv::store), one after the other.
pub fn fused_qkv<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    operands: FusedQkv<'_, D::Buffer>,
) -> Result<(), OpError> {
    let arguments = operands.arguments(&y)?;
    let constants = operands.constants(y.rows)?;
    check_lanes(NAME, encode)?;
    if y.rows == 0 {
        return Ok(());
    }
    let kernel = Kernel {
        file: FUSED_QKV,
        name: NAME,
        constants: constants.values(),
    };
    let most = encode.pipeline(kernel)?.max_threads_per_threadgroup() / LANES;
    // One for each group of outputs, so that a head is read with as many loads in flight as there can be.
    let head_dim = operands.rope.head_dim;
    let simdgroups = head_dim.div_ceil(constants.span).min(most).max(1);
    let heads = y.width / head_dim + 2 * (operands.keys.shape.width / head_dim);
    let groups = [heads, y.rows.div_ceil(constants.batch), 1];
    let mut bindings = vec![copied(&arguments)];
    bindings.extend(operands.bindings(&y)?);
    encode.groups(kernel, groups, simdgroups * LANES, &bindings)
}
