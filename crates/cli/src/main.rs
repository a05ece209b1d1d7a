//! The `minfer` binary.

fn main() {}
