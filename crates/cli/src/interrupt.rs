//! Ctrl-C: the first asks for a clean end, the second ends the process.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Exit status after Ctrl-C, as shells report it: 128 and the number of SIGINT.
pub const STATUS: u8 = 130;

/// A flag that the first Ctrl-C from now on sets. Until then Ctrl-C ends the process as usual.
///
/// # Errors
/// The system refuses the signal handler, or the process already has one.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            process::exit(STATUS.into());
        }
    })
    .context("cannot watch for Ctrl-C")?;
    Ok(flag)
}
