//! Products of a weight and activations.

mod decode;
mod out_rows;
mod prefill;
