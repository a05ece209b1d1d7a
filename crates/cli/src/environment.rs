//! The environment variables the command line itself reads, read once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const CACHE: &str = "MINFER_CACHE";
const MODELS: &str = "MINFER_MODELS";

/// A variable as `minfer config` lists it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// As it is spelled in the environment.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What holds without it.
    pub default: String,
    /// Its present value, if it is set.
    pub value: Option<String>,
}

/// The command line's own settings from the environment.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Absolute path of the cache folder. It need not exist.
    pub cache: PathBuf,
    /// Absolute path of the folder for what is kept between runs. It need not exist.
    pub state: PathBuf,
    /// The user's own catalog.
    pub models: Option<PathBuf>,
    default_cache: Option<PathBuf>,
    cache_is_set: bool,
}

impl Environment {
    /// Reads the process environment.
    ///
    /// # Errors
    /// No variable says where a cache folder could be.
    pub fn read() -> Result<Self> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    fn from_lookup(get: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let path = |name| {
            get(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        // The XDG base directory specification: a relative path is invalid and ignored.
        let base = |variable, below_home| {
            path(variable)
                .filter(|path| path.is_absolute())
                .or_else(|| path("HOME").map(|home| home.join(below_home)))
                .map(|base| base.join("minfer"))
        };
        let default_cache = base("XDG_CACHE_HOME", ".cache");
        let set = path(CACHE);
        let cache_is_set = set.is_some();
        let cache = set
            .or_else(|| default_cache.clone())
            .context("there is no place for fetched models: set MINFER_CACHE to a folder")?;
        let cache = std::path::absolute(cache)?;
        Ok(Self {
            state: base("XDG_STATE_HOME", ".local/state").unwrap_or_else(|| cache.clone()),
            cache,
            models: path(MODELS),
            default_cache,
            cache_is_set,
        })
    }

    /// Folder for kernels that the software Metal device compiled. It need not exist.
    pub fn kernel_cache(&self) -> PathBuf {
        self.cache.join("softmetal")
    }

    /// Every variable with its present value.
    pub fn settings(&self) -> [Setting; 2] {
        let show = |path: &Path| path.display().to_string();
        [
            Setting {
                name: CACHE,
                meaning: "folder for fetched models",
                default: self.default_cache.as_deref().map_or_else(String::new, show),
                value: self.cache_is_set.then(|| show(&self.cache)),
            },
            Setting {
                name: MODELS,
                meaning: "a models.toml whose entries come before the built-in ones",
                default: "none".to_owned(),
                value: self.models.as_deref().map(show),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Option<Environment> {
        let get = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Environment::from_lookup(get).ok()
    }

    fn cache_of(variables: &[(&str, &str)]) -> Option<PathBuf> {
        environment(variables).map(|env| env.cache)
    }

    #[test]
    fn the_cache_folder_follows_the_xdg_specification() {
        let (home, xdg, own) = (
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("MINFER_CACHE", "/m"),
        );
        assert_eq!(cache_of(&[home]), Some("/h/.cache/minfer".into()));
        assert_eq!(cache_of(&[home, xdg]), Some("/x/minfer".into()));
        assert_eq!(cache_of(&[home, xdg, own]), Some("/m".into()));
        let relative = ("XDG_CACHE_HOME", "x");
        assert_eq!(cache_of(&[home, relative]), Some("/h/.cache/minfer".into()));
        assert_eq!(cache_of(&[]), None);
    }

    #[test]
    fn state_is_kept_apart_from_the_cache_where_there_is_a_home() {
        let (home, own) = (("HOME", "/h"), ("MINFER_CACHE", "/m"));
        let xdg = ("XDG_STATE_HOME", "/x");
        let state_of = |variables: &[(&str, &str)]| environment(variables).map(|env| env.state);
        assert_eq!(
            state_of(&[home, own]),
            Some("/h/.local/state/minfer".into())
        );
        assert_eq!(state_of(&[home, own, xdg]), Some("/x/minfer".into()));
        assert_eq!(state_of(&[own]), Some("/m".into()));
    }
}
