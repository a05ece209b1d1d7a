//! Runs Apple's compiler over kernel files.
//!
//! Each file becomes a library of its own: files are separate programs whose functions and constants share names.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As `AppleDevice` compiles at run time: no fast math, and the version of the language that `kernels::MSL_VERSION`
/// names, with the first macOS that has it.
const FLAGS: [&str; 3] = [
    "-fno-fast-math",
    "-std=metal3.1",
    "-mmacosx-version-min=14.0",
];

/// A kernel file with its headers in place.
pub struct Source<'a> {
    /// For example `norm.metal`.
    pub name: &'a str,
    pub text: &'a str,
}

/// Writes every source into `folder` and compiles it there; the libraries in the order of the sources.
///
/// `xcrun` is the command that finds Apple's tools. An error says why there are no libraries.
pub fn compile(
    xcrun: &OsStr,
    folder: &Path,
    sources: &[Source<'_>],
) -> Result<Vec<PathBuf>, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // All of them, for who compiles them elsewhere.
    for source in sources {
        let file = folder.join(source.name);
        fs::write(&file, source.text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    // `xcrun` finds the name where the tool is not installed; only running it tells.
    run(tool(xcrun, "metal").arg("--version"))?;
    let compile = |source: &Source<'_>| {
        let file = folder.join(source.name);
        let (air, library) = (file.with_extension("air"), library(folder, source.name));
        let mut metal = tool(xcrun, "metal");
        run(metal.args(FLAGS).arg("-c").arg(&file).arg("-o").arg(&air))?;
        run(tool(xcrun, "metallib").arg(&air).arg("-o").arg(&library))?;
        Ok(library)
    };
    sources.iter().map(compile).collect()
}

/// Where the library of a kernel file is.
pub fn library(folder: &Path, name: &str) -> PathBuf {
    folder.join(name).with_extension("metallib")
}

/// A table of names and libraries, as Rust source.
pub fn table<'a>(libraries: impl Iterator<Item = (&'a str, &'a Path)>) -> String {
    let entries = libraries.map(|(name, path)| {
        let path = path.to_string_lossy();
        format!("    ({name:?}, include_bytes!({path:?}).as_slice()),\n")
    });
    format!("&[\n{}]\n", entries.collect::<String>())
}

fn tool(xcrun: &OsStr, name: &str) -> Command {
    let mut command = Command::new(xcrun);
    command.args(["-sdk", "macosx", name]);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{command:?}: {}: {}",
        output.status,
        message.trim()
    ))
}
