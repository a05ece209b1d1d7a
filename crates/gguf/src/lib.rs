//! GGUF files: parse, validate, map, write; reference block formats.

mod tensor;
mod tensor_type;

pub use tensor::{Tensor, TensorBytes};
pub use tensor_type::TensorType;
