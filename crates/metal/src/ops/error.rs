//! Why an operation cannot be encoded.

use minfer_gguf::TensorType;

use crate::device::{DeviceError, SourceError};

/// An operation that cannot be encoded. Nothing was dispatched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// Operands that do not fit together, or a value that the kernel cannot take.
    #[error("{op}: {what} is {found}, {expected} is needed")]
    Value {
        /// The operation.
        op: &'static str,
        /// What does not fit.
        what: &'static str,
        /// Its value.
        found: String,
        /// The value or rule.
        expected: String,
    },
    /// An index outside of what it indexes.
    #[error("{op}: {what} {index} of row {row} is not one of {count}")]
    Index {
        /// The operation.
        op: &'static str,
        /// What the index picks, for example `token id`.
        what: &'static str,
        /// Row that holds it.
        row: usize,
        /// The index.
        index: i32,
        /// How many there are.
        count: usize,
    },
    /// A weight type without a kernel.
    #[error("{op}: no kernel reads weights of type {ty}")]
    Type {
        /// The operation.
        op: &'static str,
        /// The type.
        ty: TensorType,
    },
    /// A kernel source that is not whole.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The device refused.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl OpError {
    /// A value that does not fit.
    pub(crate) fn value(
        op: &'static str,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> Self {
        OpError::Value {
            op,
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}

/// An error unless two values are equal.
pub(crate) fn same<T: PartialEq + std::fmt::Display>(
    op: &'static str,
    what: &'static str,
    found: T,
    expected: T,
) -> Result<(), OpError> {
    match found == expected {
        true => Ok(()),
        false => Err(OpError::value(op, what, found, expected)),
    }
}

/// A number as kernels take it.
pub(crate) fn number(op: &'static str, what: &'static str, value: usize) -> Result<u32, OpError> {
    let fits = u32::try_from(value);
    fits.map_err(|_| OpError::value(op, what, value, format_args!("at most {}", u32::MAX)))
}
