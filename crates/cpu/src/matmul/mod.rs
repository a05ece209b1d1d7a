//! Matrix products with weights in the blocks of their file.

pub mod decode;
