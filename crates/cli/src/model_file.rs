//! What MODEL on the command line means: a path, a name from the catalog, or `hf:REPO[:FILE]`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::cache::Cache;
use crate::catalog::{Catalog, Entry};
use crate::console::{Console, WithHint};
use crate::environment::Environment;
use crate::fetch;
use crate::fetch::repository::RepositoryModel;

/// Turns the MODEL argument into a file.
#[derive(Debug)]
pub struct Resolver {
    console: Console,
    cache: Cache,
    catalog: Catalog,
}

enum Reference<'a> {
    Named(&'a Entry),
    Repository(RepositoryModel),
    File(PathBuf),
}

impl Resolver {
    /// A resolver over the cache and the catalogs that the environment names.
    ///
    /// # Errors
    /// The user's own catalog is unreadable.
    pub fn new(console: Console, environment: &Environment) -> Result<Self> {
        Ok(Self {
            console,
            cache: Cache::new(environment.cache.clone()),
            catalog: Catalog::load(environment.models.as_deref())?,
        })
    }

    /// The cache behind this resolver.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The catalog behind this resolver.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The model's file, fetched first if it is not there yet.
    ///
    /// # Errors
    /// The model is unknown or cannot be fetched.
    pub fn file(&self, model: &str) -> Result<PathBuf> {
        match self.reference(model)? {
            Reference::Named(entry) => fetch::named(self.console, &self.cache, entry),
            Reference::Repository(model) => match model.cached(&self.cache) {
                Some(path) => Ok(path),
                None => model.fetch(self.console, &self.cache),
            },
            Reference::File(path) => Ok(path),
        }
    }

    /// Fetches a model and verifies what is already there.
    ///
    /// # Errors
    /// As [`Resolver::file`], and `model` is a path.
    pub fn pull(&self, model: &str) -> Result<PathBuf> {
        match self.reference(model)? {
            Reference::Named(entry) => fetch::verified(self.console, &self.cache, entry),
            Reference::Repository(model) => model.fetch(self.console, &self.cache),
            Reference::File(path) => Err(anyhow!("{} is a file, not a name", path.display()))
                .hint(format_args!("known names: {}", self.catalog.names())),
        }
    }

    fn reference(&self, model: &str) -> Result<Reference<'_>> {
        if let Some(repository) = model.strip_prefix("hf:") {
            return RepositoryModel::parse(repository).map(Reference::Repository);
        }
        if let Some(entry) = self.catalog.find(model) {
            return Ok(Reference::Named(entry));
        }
        let path = Path::new(model);
        if path.is_file() {
            return Ok(Reference::File(path.to_owned()));
        }
        let looks_like_path = model.contains(['/', '\\']) || model.ends_with(".gguf");
        let problem = match (path.is_dir(), looks_like_path) {
            (true, _) => anyhow!("{model} is a folder, not a GGUF file"),
            _ if path.exists() => anyhow!("{model} is a pipe or a device, not a GGUF file"),
            (false, true) => anyhow!("there is no file {model}"),
            (false, false) => anyhow!("there is no model named \"{model}\""),
        };
        Err(problem).hint(format_args!(
            "MODEL is a GGUF file, hf:OWNER/NAME[:FILE], or one of: {}",
            self.catalog.names()
        ))
    }
}
