//! `minfer metal lint`: rules for kernels that their text shows.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use minfer_metal::device::{LibrarySource, SourceFile};
use minfer_metal::{arguments, kernels};
use minfer_softmetal::{Options, lint};

use super::status;
use crate::console;

/// Look for what Metal's compiler refuses, without running anything
///
/// The exit status is 1 if there is something.
#[derive(Debug, Args)]
pub struct LintArgs {
    /// Kernel files, with their headers beside them [default: minfer's own].
    files: Vec<PathBuf>,

    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

pub fn execute(args: &LintArgs) -> Result<ExitCode> {
    let sources: Vec<LibrarySource> = if args.files.is_empty() {
        let shipped = kernels::ALL.iter();
        shipped
            .map(|&file| kernels::library(file))
            .collect::<Result<_, _>>()?
    } else {
        args.files
            .iter()
            .map(|file| read(file))
            .collect::<Result<_>>()?
    };
    let compiler = Options::default().compiler;
    let mut findings = Vec::new();
    for source in &sources {
        for finding in lint::check(source, &compiler)? {
            // A header's come up in every file that includes it.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    let mut output = console::output();
    if args.json {
        output.write_json_line(&findings)?;
    } else {
        for finding in &findings {
            writeln!(output, "{finding}")?;
        }
        writeln!(
            output,
            "{} files, {} findings",
            sources.len(),
            findings.len()
        )?;
    }
    output.flush()?;
    Ok(status(findings.is_empty()))
}

/// A kernel file with the headers beside it in place. `arguments.h` need not be there: it is generated.
fn read(path: &Path) -> Result<LibrarySource> {
    let text = read_text(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let files: Vec<_> = headers
            .iter()
            .map(|(name, text)| SourceFile { name, text })
            .collect();
        let main = SourceFile {
            name: &name,
            text: &text,
        };
        let missing = match LibrarySource::new(main, &files) {
            Ok(source) => return Ok(source),
            Err(error) => error,
        };
        let header = folder.join(&missing.include);
        let generated = arguments::HEADER;
        let text = match header.is_file() {
            true => read_text(&header)?,
            false if missing.include == generated.name => generated.text.to_owned(),
            false => return Err(missing.into()),
        };
        headers.push((missing.include, text));
    }
}

fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
