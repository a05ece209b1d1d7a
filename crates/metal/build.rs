//! Compiles the kernels in advance where Apple's compiler is at hand. Elsewhere they are compiled when first used.

#[allow(dead_code, reason = "only the text of the header is needed")]
#[path = "src/arguments.rs"]
mod arguments;
#[allow(dead_code, reason = "the library's own")]
#[path = "src/kernels.rs"]
mod kernels;
#[path = "build/metallib.rs"]
mod metallib;
#[path = "src/device/source.rs"]
mod source;

/// What the files above name.
mod device {
    pub use crate::source::{LibrarySource, SourceError, SourceFile};
}

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use metallib::Source;

fn main() -> Result<(), Box<dyn Error>> {
    // The kernels are part of this program, so that it runs again when they change.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEVELOPER_DIR");
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let libraries = match env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => compile(&folder.join("kernels"))?,
        _ => Vec::new(),
    };
    let entries = kernels::ALL.iter().zip(&libraries);
    let table = metallib::table(entries.map(|(file, path)| (file.name, path.as_path())));
    fs::write(folder.join("metallibs.rs"), table)?;
    Ok(())
}

/// The libraries, none where they cannot be compiled: a warning says why, but for a build on another system, which
/// cannot have the tools.
fn compile(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let sources = kernels::ALL.iter().map(|&file| kernels::library(file));
    let sources: Vec<_> = sources.collect::<Result<_, _>>()?;
    let sources: Vec<_> = sources
        .iter()
        .map(|source| Source {
            name: source.name(),
            text: source.text(),
        })
        .collect();
    let compiled = metallib::compile(OsStr::new("xcrun"), folder, &sources);
    Ok(compiled.unwrap_or_else(|why| {
        if cfg!(target_os = "macos") {
            let why = why.replace('\n', " | ");
            println!("cargo::warning=kernels will be compiled when first used: {why}");
        }
        Vec::new()
    }))
}
