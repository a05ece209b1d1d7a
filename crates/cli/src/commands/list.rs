//! `minfer list`: what is in the cache and what could be.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::console::{self, Console, bytes};
use crate::environment::Environment;
use crate::model_file::Resolver;

/// List the models in the cache and those known by name
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// A model as `list` shows it.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    about: String,
    license: Option<String>,
    size: u64,
    /// Absent until the model is fetched.
    path: Option<PathBuf>,
}

pub fn execute(console: Console, args: ListArgs) -> Result<()> {
    let resolver = Resolver::new(console, &Environment::read()?)?;
    let mut rows = named(&resolver);
    rows.extend(others(&resolver, &rows));
    let mut output = console::output();
    if args.json {
        for row in &rows {
            output.write_json_line(row)?;
        }
        return Ok(());
    }
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    for row in &rows {
        let state = match row.path {
            Some(_) => "cached",
            None => "not fetched",
        };
        let line = format!(
            "{:width$}  {:>8}  {state:11}  {}",
            row.name,
            bytes(row.size),
            row.about
        );
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

fn named(resolver: &Resolver) -> Vec<Row> {
    let entries = resolver.catalog().entries().iter();
    entries
        .map(|entry| {
            let path = resolver.cache().named(&entry.file);
            Row {
                name: entry.name.clone(),
                about: entry.about.clone(),
                license: Some(entry.license.clone()),
                size: entry.size,
                path: path.is_file().then_some(path),
            }
        })
        .collect()
}

/// Files in the cache that no catalog entry accounts for, by the name that `run` takes.
fn others(resolver: &Resolver, named: &[Row]) -> Vec<Row> {
    let models = resolver.cache().models();
    let mut files = Vec::new();
    collect_models(&models, &mut files);
    files.retain(|(path, _)| named.iter().all(|row| row.path.as_ref() != Some(path)));
    files.sort();
    let row = |(path, size): (PathBuf, u64)| Row {
        name: reference(&models, &path),
        about: String::new(),
        license: None,
        size,
        path: Some(path),
    };
    files.into_iter().map(row).collect()
}

/// `hf:OWNER/NAME:FILE` for what came from a repository, else the path.
fn reference(models: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(models.join("hf")).ok();
    let parts: Option<Vec<&str>> =
        inside.map(|path| path.iter().filter_map(|part| part.to_str()).collect());
    match parts.as_deref() {
        Some([owner, name, file @ ..]) if !file.is_empty() => {
            format!("hf:{owner}/{name}:{}", file.join("/"))
        }
        _ => path.display().to_string(),
    }
}

fn collect_models(folder: &Path, found: &mut Vec<(PathBuf, u64)>) {
    // A cache that does not exist yet, or cannot be read, has nothing to list.
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            collect_models(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "gguf")
        {
            let size = entry.metadata().map_or(0, |metadata| metadata.len());
            found.push((path, size));
        }
    }
}
