//! Faults of the host's side.
