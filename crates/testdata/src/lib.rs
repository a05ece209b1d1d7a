//! Models, recorded values and comparisons for the tests of the other crates.
//!
//! Everything here panics with the reason when a fixture is broken: only tests use it.

mod difference;
mod random;
mod real;
mod tiny;
mod vocabulary;

use std::path::{Path, PathBuf};

pub use difference::largest_difference;
pub use random::Random;
pub use real::{MissingModel, real_model};
pub use tiny::{TINY_MODELS, TinyLogits, tiny_logits, tiny_model};
pub use vocabulary::{VOCABULARIES, vocabulary};

/// The path of a file under `tests/fixtures` at the root of the repository.
pub fn fixture(path: impl AsRef<Path>) -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.join("../../tests/fixtures").join(path)
}
