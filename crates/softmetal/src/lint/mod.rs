//! What can be said of a source without running it.

mod barriers;
mod text;

pub use crate::front::FrontError;
pub use barriers::{Barrier, barriers};
