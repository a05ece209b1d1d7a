//! Model architectures as graphs.
