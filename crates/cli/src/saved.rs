//! Conversations in files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use minfer_engine::session_file::{SessionFileError, read_host};
use minfer_engine::{Conversation, Resumed};

use crate::console::{self, Console, WithHint};

/// Refuses a file that could not be made.
///
/// # Errors
/// Its folder is missing.
pub fn check_folder(path: &Path) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            bail!(
                "cannot save {}: there is no folder {}",
                path.display(),
                folder.display()
            )
        }
        _ => Ok(()),
    }
}

/// Goes on with the conversation in the file, if it exists, and says how.
///
/// # Errors
/// The file holds no conversation.
pub fn resume_if_exists(
    console: Console,
    conversation: &mut Conversation<'_>,
    path: &Path,
) -> Result<()> {
    if !holds_something(path) {
        return Ok(());
    }
    load(console, conversation, path).hint("name another file")
}

/// Replaces the conversation by that in the file and says how.
///
/// # Errors
/// The file holds no conversation.
pub fn load(console: Console, conversation: &mut Conversation<'_>, path: &Path) -> Result<()> {
    let resumed = conversation
        .resume(path)
        .with_context(|| format!("cannot resume {}", path.display()))?;
    console.note(report(path, &resumed, conversation.stats().turns));
    Ok(())
}

/// Saves the conversation.
///
/// # Errors
/// The file cannot be written. An existing one is as it was.
pub fn save(console: Console, conversation: &mut Conversation<'_>, path: &Path) -> Result<()> {
    let saved = conversation
        .save(path)
        .with_context(|| format!("cannot save {}", path.display()))?;
    let size = console::bytes(saved.bytes);
    console.detail(format_args!("saved {size} to {}", path.display()));
    Ok(())
}

/// Refuses to replace a file that is something else.
///
/// # Errors
/// It exists, is not empty and not a session file, or cannot be read.
pub fn check_replaceable(path: &Path) -> Result<()> {
    if holds_something(path) && matches!(read_host(path), Err(SessionFileError::NotASession)) {
        bail!(
            "{} exists and is not a session file: it stays as it is",
            path.display()
        );
    }
    check_folder(path)
}

fn holds_something(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() || metadata.len() > 0)
}

fn report(path: &Path, resumed: &Resumed, turns: usize) -> String {
    let path = path.display();
    let turns = self::turns(turns);
    match resumed {
        Resumed::Exact { tokens: 0 } => format!("resumed {turns} from {path}"),
        Resumed::Exact { tokens } => {
            format!("resumed {tokens} tokens ({turns}) from {path} without prefill")
        }
        Resumed::History { reason } => {
            format!("resumed {turns} from {path}, to be computed anew: {reason}")
        }
    }
}

/// Which turns left the context, if any did.
pub fn dropped(turns: usize) -> Option<String> {
    match turns {
        0 => None,
        1 => Some("dropped the oldest turn".to_owned()),
        _ => Some(format!("dropped the {turns} oldest turns")),
    }
}

/// `1 turn`, `2 turns`.
pub fn turns(count: usize) -> String {
    match count {
        1 => "1 turn".to_owned(),
        _ => format!("{count} turns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_rows_there_is_no_talk_of_them() {
        let report = |resumed| report(Path::new("a.session"), &resumed, 2);
        assert_eq!(
            report(Resumed::Exact { tokens: 90 }),
            "resumed 90 tokens (2 turns) from a.session without prefill"
        );
        let without_rows = report(Resumed::Exact { tokens: 0 });
        assert_eq!(without_rows, "resumed 2 turns from a.session");
    }

    #[test]
    fn dropped_turns_are_counted() {
        assert_eq!(dropped(0), None);
        assert_eq!(dropped(1).as_deref(), Some("dropped the oldest turn"));
        assert_eq!(dropped(2).as_deref(), Some("dropped the 2 oldest turns"));
    }
}
