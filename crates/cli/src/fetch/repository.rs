//! Models named by a Hugging Face repository: which of its GGUF files is meant, and fetching it with
//! all its parts.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};

use super::hub::{Hub, HubFile};
use super::{ELSEWHERE, Wanted, fetch};
use crate::cache::Cache;
use crate::catalog::Source;
use crate::console::{Console, WithHint, bytes};

/// The quantization taken where the user names none: the usual balance of size and quality.
const DEFAULT_QUANTIZATION: &str = "q4_k_m";

/// A model in a repository: `OWNER/NAME[:FILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryModel {
    /// `owner/name`.
    pub repo: String,
    /// A path in the repository, or a part of one such as `Q8_0`.
    pub file: Option<String>,
}

impl RepositoryModel {
    /// Reads what follows `hf:`.
    ///
    /// # Errors
    /// It is not `OWNER/NAME[:FILE]`.
    pub fn parse(text: &str) -> Result<Self> {
        let (repo, file) = match text.split_once(':') {
            Some((repo, file)) => (repo, Some(file)),
            None => (text, None),
        };
        let plain = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        let repo_is_plain = repo
            .split_once('/')
            .is_some_and(|(owner, name)| plain(owner) && plain(name));
        if !repo_is_plain || file.is_some_and(|file| !is_safe_path(file)) {
            return Err(anyhow!("\"hf:{text}\" does not name a model")).hint(
                "hf:OWNER/NAME or hf:OWNER/NAME:FILE, where FILE may be a part such as Q8_0",
            );
        }
        Ok(Self {
            repo: repo.to_owned(),
            file: file.map(str::to_owned),
        })
    }

    /// The model's (first) file if the cache has all of it.
    pub fn cached(&self, cache: &Cache) -> Option<PathBuf> {
        let folder = cache.repository(&self.repo);
        let mut present = Vec::new();
        collect_files(&folder, &folder, &mut present);
        let chosen = choose(&present, self.file.as_deref()).ok()?;
        let parts = parts_of(&chosen)?;
        parts
            .iter()
            .all(|part| present.contains(part))
            .then(|| folder.join(chosen))
    }

    /// Fetches what the cache lacks of the model and returns its (first) file.
    ///
    /// # Errors
    /// The hub refuses, no file answers to the description, or several do and nobody can be asked.
    pub fn fetch(&self, console: Console, cache: &Cache) -> Result<PathBuf> {
        let listing = Hub::new()?
            .files(&self.repo)
            .with_context(|| format!("cannot fetch hf:{}", self.repo))
            .hint(ELSEWHERE)?;
        let paths: Vec<String> = listing.iter().map(|file| file.path.clone()).collect();
        let chosen = match choose(&paths, self.file.as_deref()) {
            Ok(chosen) => chosen,
            Err(candidates) => self.ask(&listing, &candidates)?,
        };
        let folder = cache.repository(&self.repo);
        for part in parts_of(&chosen).with_context(|| format!("{chosen} is no GGUF part name"))? {
            let listed = listing.iter().find(|file| file.path == part);
            let listed = listed.with_context(|| format!("{} has no file {part}", self.repo))?;
            let destination = folder.join(&part);
            let wanted = Wanted {
                label: &part,
                destination: &destination,
                size: listed.size,
                sha256: listed.sha256.as_deref(),
            };
            let source = Source::Hub {
                repo: self.repo.clone(),
                file: part.clone(),
            };
            fetch(console, cache, &wanted, &[source])?;
        }
        Ok(folder.join(chosen))
    }

    /// Lets the user choose by number, or lists the candidates in the error.
    fn ask(&self, listing: &[HubFile], candidates: &[String]) -> Result<String> {
        let repo = &self.repo;
        if candidates.is_empty() {
            bail!(match &self.file {
                Some(file) => format!("{repo} has no GGUF file {file}"),
                None => format!("{repo} has no GGUF files"),
            });
        }
        if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Err(anyhow!(
                "{repo} has several GGUF files: {}",
                candidates.join(", ")
            ))
            .hint(format_args!("choose one: hf:{repo}:FILE"));
        }
        let mut stderr = io::stderr();
        for (index, path) in candidates.iter().enumerate() {
            let size = listing.iter().find(|file| file.path == *path);
            let size = size.map_or_else(String::new, |file| bytes(file.size));
            writeln!(stderr, "{:>3}  {path}  {size}", index + 1)?;
        }
        write!(stderr, "Which file? [1-{}] ", candidates.len())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        let number: Option<usize> = answer.trim().parse().ok();
        number
            .and_then(|number| candidates.get(number.checked_sub(1)?))
            .cloned()
            .with_context(|| format!("\"{}\" is none of the numbers", answer.trim()))
    }
}

/// The file that is meant, or the candidates where that is not clear.
fn choose(paths: &[String], wanted: Option<&str>) -> Result<String, Vec<String>> {
    if let Some(exact) = paths.iter().find(|path| Some(path.as_str()) == wanted) {
        return Ok(exact.clone());
    }
    let models: Vec<&String> = paths.iter().filter(|path| is_model(path)).collect();
    let containing = |tag: &str| -> Vec<String> {
        let tag = tag.to_ascii_lowercase();
        let matching = models
            .iter()
            .filter(|path| path.to_ascii_lowercase().contains(&tag));
        matching.map(|path| (*path).clone()).collect()
    };
    let mut candidates = containing(wanted.unwrap_or_default());
    if candidates.len() > 1 && wanted.is_none() {
        let default = containing(DEFAULT_QUANTIZATION);
        if !default.is_empty() {
            candidates = default;
        }
    }
    match candidates.as_slice() {
        [only] => Ok(only.clone()),
        _ => Err(candidates),
    }
}

/// A GGUF file that is a language model, and of a split one the first part.
fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    name.ends_with(".gguf")
        && is_safe_path(path)
        && !name.starts_with("mmproj")
        && part_numbers(path).is_none_or(|(number, _)| number == 1)
}

/// A relative path that stays below its folder.
fn is_safe_path(path: &str) -> bool {
    !path.contains(['\\', ':', '\0'])
        && path
            .split('/')
            .all(|component| !component.is_empty() && component != "." && component != "..")
}

/// All parts of the file that `first` belongs to, in order.
fn parts_of(first: &str) -> Option<Vec<String>> {
    let Some((_, count)) = part_numbers(first) else {
        return Some(vec![first.to_owned()]);
    };
    let stem = first.get(..first.len() - "00001-of-00001.gguf".len())?;
    Some(
        (1..=count)
            .map(|number| format!("{stem}{number:05}-of-{count:05}.gguf"))
            .collect(),
    )
}

/// `(2, 3)` of `model-00002-of-00003.gguf`.
fn part_numbers(path: &str) -> Option<(u32, u32)> {
    let stem = path.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (_, number) = rest.rsplit_once('-')?;
    let five_digits = |text: &str| -> Option<u32> {
        (text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
    };
    Some((five_digits(number)?, five_digits(count)?))
}

/// Paths of the files below `folder`, relative to `root`, with `/` between components.
fn collect_files(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        if path.is_dir() {
            collect_files(root, &path, found);
        } else if let Ok(relative) = path.strip_prefix(root) {
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
    found.sort();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_repository_is_an_owner_and_a_name() {
        let parsed = RepositoryModel::parse("Qwen/Qwen3-0.6B-GGUF:sub/x.gguf").unwrap();
        assert_eq!(parsed.repo, "Qwen/Qwen3-0.6B-GGUF");
        assert_eq!(parsed.file.as_deref(), Some("sub/x.gguf"));
        for wrong in [
            "",
            "x",
            "a/b/c",
            "../b",
            "a/b:",
            "a/b:../../x",
            "a/b:/etc/x",
            "a b/c",
            "a/",
        ] {
            assert!(RepositoryModel::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_file_the_default_quantization_is_taken() {
        let all = paths(&[
            "README.md",
            "m-Q4_K_M.gguf",
            "m-Q8_0.gguf",
            "mmproj-f16.gguf",
        ]);
        assert_eq!(choose(&all, None).unwrap(), "m-Q4_K_M.gguf");
        assert_eq!(choose(&all, Some("q8_0")).unwrap(), "m-Q8_0.gguf");
        assert_eq!(
            choose(&all, Some("mmproj-f16.gguf")).unwrap(),
            "mmproj-f16.gguf"
        );
        assert_eq!(choose(&all, Some("Q2_K")).unwrap_err(), paths(&[]));
        let only = paths(&["x/only-f16.gguf"]);
        assert_eq!(choose(&only, None).unwrap(), "x/only-f16.gguf");
        let unclear = paths(&["m-Q5_0.gguf", "m-Q8_0.gguf"]);
        assert_eq!(choose(&unclear, None).unwrap_err(), unclear);
    }

    #[test]
    fn a_split_model_is_its_first_part_and_needs_all() {
        let all = paths(&["q4_k_m-00001-of-00002.gguf", "q4_k_m-00002-of-00002.gguf"]);
        let first = choose(&all, None).unwrap();
        assert_eq!(parts_of(&first).unwrap(), all);
        assert_eq!(parts_of("m.gguf").unwrap(), paths(&["m.gguf"]));
        assert_eq!(part_numbers("m-0001-of-00002.gguf"), None);
    }

    #[test]
    fn the_cache_answers_only_with_every_part() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path().to_owned());
        let folder = cache.repository("a/b");
        fs::create_dir_all(&folder).unwrap();
        let model = RepositoryModel::parse("a/b").unwrap();
        assert_eq!(model.cached(&cache), None);
        fs::write(folder.join("m-00001-of-00002.gguf"), "").unwrap();
        assert_eq!(model.cached(&cache), None);
        fs::write(folder.join("m-00002-of-00002.gguf"), "").unwrap();
        assert_eq!(
            model.cached(&cache),
            Some(folder.join("m-00001-of-00002.gguf"))
        );
    }
}
