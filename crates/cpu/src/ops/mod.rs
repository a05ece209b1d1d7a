//! Kernels other than matrix products and attention, one file per family.

pub(crate) mod batch_matmul;
pub(crate) mod elementwise;
pub(crate) mod embed;
pub(crate) mod exp;
pub(crate) mod kv;
pub(crate) mod norm;
pub(crate) mod reduce;
pub(crate) mod rope;
pub(crate) mod softmax;
