//! Writes a bundle.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::error::ReplayError;
use super::format::{Description, FORMAT, Index, Launch, to_hex};
use crate::device::LibrarySource;

/// Index of a bundle, below its folder.
pub(super) const INDEX: &str = "bundle.json";

/// A bundle that is being written. Without its index it is none.
pub(super) struct BundleWriter {
    folder: PathBuf,
    device: String,
    /// File of each source text.
    sources: HashMap<String, String>,
    kinds: HashMap<Launch, usize>,
    descriptions: Vec<Description>,
}

impl BundleWriter {
    /// Starts a bundle in a folder that is empty or does not exist.
    pub fn new(folder: &Path, device: &str) -> Result<Self, ReplayError> {
        make_folder(folder)?;
        let mut entries = fs::read_dir(folder).map_err(ReplayError::file("read", folder))?;
        if entries.next().is_some() {
            let path = folder.to_owned();
            return Err(ReplayError::NotEmpty { path });
        }
        Ok(BundleWriter {
            folder: folder.to_owned(),
            device: device.to_owned(),
            sources: HashMap::new(),
            kinds: HashMap::new(),
            descriptions: Vec::new(),
        })
    }

    /// File of a source, written when it is new.
    pub fn source(&mut self, source: &LibrarySource) -> Result<String, ReplayError> {
        if let Some(file) = self.sources.get(source.text()) {
            return Ok(file.clone());
        }
        let name = plain(source.name());
        let taken = |file: &String| self.sources.values().any(|other| other == file);
        let mut file = format!("sources/{name}");
        let mut number = 2;
        while taken(&file) {
            file = format!("sources/{number}-{name}");
            number += 1;
        }
        self.write(&file, source.text().as_bytes())?;
        self.sources.insert(source.text().to_owned(), file.clone());
        Ok(file)
    }

    /// Counts one more dispatch of a kind; `false` if none is known.
    pub fn count(&mut self, launch: &Launch) -> bool {
        let Some(&kind) = self.kinds.get(launch) else {
            return false;
        };
        self.descriptions[kind].occurrences += 1;
        true
    }

    /// File of contents. Equal contents share one.
    pub fn contents(&self, bytes: &[u8]) -> Result<String, ReplayError> {
        let hash = to_hex(&Sha256::digest(bytes));
        let file = format!("data/{hash}.bin");
        if !self.folder.join(&file).exists() {
            self.write(&file, bytes)?;
        }
        Ok(file)
    }

    /// Adds a dispatch of a new kind.
    pub fn add(&mut self, description: Description) {
        let kind = self.descriptions.len();
        self.kinds.insert(description.launch.clone(), kind);
        self.descriptions.push(description);
    }

    /// Writes the descriptions, and last the index; the number of descriptions.
    pub fn finish(&self) -> Result<usize, ReplayError> {
        let mut dispatches = Vec::new();
        for (number, description) in self.descriptions.iter().enumerate() {
            let kernel = plain(&description.launch.kernel);
            let file = format!("dispatches/{number:04}-{kernel}.json");
            self.write_json(&file, description)?;
            dispatches.push(file);
        }
        let index = Index {
            format: FORMAT,
            device: self.device.clone(),
            dispatches,
        };
        self.write_json(INDEX, &index)?;
        Ok(self.descriptions.len())
    }

    fn write_json(&self, file: &str, value: &impl Serialize) -> Result<(), ReplayError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|source| ReplayError::Json {
            path: self.folder.join(file),
            source,
        })?;
        text.push(b'\n');
        self.write(file, &text)
    }

    /// Writes a file, and makes its folder: until there is something to write, the bundle's stays empty.
    fn write(&self, file: &str, bytes: &[u8]) -> Result<(), ReplayError> {
        let path = self.folder.join(file);
        make_folder(path.parent().unwrap_or(&self.folder))?;
        fs::write(&path, bytes).map_err(ReplayError::file("write", path))
    }
}

fn make_folder(path: &Path) -> Result<(), ReplayError> {
    match fs::create_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ReplayError::NotEmpty {
            path: path.to_owned(),
        }),
        result => result.map_err(ReplayError::file("make", path)),
    }
}

/// A name that is a file name everywhere.
fn plain(name: &str) -> String {
    let keep = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' | '.' => c,
        _ => '_',
    };
    let name: String = name.chars().map(keep).collect();
    name.trim_start_matches('.').to_owned()
}
