//! What a device keeps account of whose queue runs while the host goes on.

pub(super) mod fences;
pub(super) mod slots;
pub(super) mod uses;
