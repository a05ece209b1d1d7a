//! Models that people use, from the cache of the program.

use std::path::PathBuf;

/// A real model that is not in the cache.
#[derive(Debug, thiserror::Error)]
#[error("{} is missing; `cargo run --release -- pull {name}` fetches it", path.display())]
pub struct MissingModel {
    name: &'static str,
    path: PathBuf,
}

/// Names as in `models.toml`, and the files they have in the cache.
const FILES: [(&str, &str); 2] = [
    ("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
    (
        "qwen2.5-coder:0.5b",
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    ),
];

/// The file of a real model in the cache: `smollm2` or `qwen2.5-coder:0.5b`.
///
/// # Errors
/// When the model has not been fetched; the message says how to.
pub fn real_model(name: &str) -> Result<PathBuf, MissingModel> {
    let &(name, file) = FILES
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no real model `{name}`"));
    let path = cache_dir().join("models").join(file);
    if path.is_file() {
        Ok(path)
    } else {
        Err(MissingModel { name, path })
    }
}

/// `MINFER_CACHE`, else `minfer` in the XDG cache folder.
fn cache_dir() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = variable("MINFER_CACHE") {
        return dir.into();
    }
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    caches
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))
        .unwrap_or_default()
        .join("minfer")
}
