//! The layout of the cache folder.
//!
//! `models/FILE` holds the models known by name, `models/hf/OWNER/NAME/FILE` those fetched from a
//! repository, each complete and verified. `downloads/` holds what is under way.

use std::path::{Path, PathBuf};

/// Paths inside the cache folder. Nothing here touches the disk.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// The cache in the folder `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where complete models live.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// The place of a catalog model's file.
    pub fn named(&self, file: &str) -> PathBuf {
        self.models().join(file)
    }

    /// The folder of a repository's files.
    pub fn repository(&self, repo: &str) -> PathBuf {
        self.models().join("hf").join(repo)
    }

    /// The working path for fetching `destination`, ending in `extension`.
    pub fn download(&self, destination: &Path, extension: &str) -> PathBuf {
        let models = self.models();
        let inside = destination.strip_prefix(&models).unwrap_or(destination);
        let key = inside.to_string_lossy().replace(['/', '\\'], "--");
        self.root
            .join("downloads")
            .join(format!("{key}.{extension}"))
    }
}
