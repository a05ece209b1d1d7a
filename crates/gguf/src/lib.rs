//! GGUF files: parse, validate, map, write; reference block formats.
//!
//! The file format is the GGUF specification (`docs/gguf.md` of the ggml repository), versions 2 and 3,
//! little-endian. [`Gguf`] opens a model, [`Writer`] makes one, and [`quantize`] converts between f32
//! and the block formats.

mod cursor;
mod encode;
mod error;
mod file;
mod header;
mod metadata;
mod name_index;
pub mod quantize;
mod split;
mod tensor;
mod tensor_info;
mod tensor_type;
mod value;
mod writer;

pub use error::{Error, ErrorKind};
pub use file::{Gguf, OpenOptions};
pub use metadata::Metadata;
pub use tensor::{Storage, Tensor, TensorBytes};
pub use tensor_info::TensorInfo;
pub use tensor_type::TensorType;
pub use value::{Array, Value, ValueType};
pub use writer::Writer;
