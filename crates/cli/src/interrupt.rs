//! Ctrl-C: during an answer the first asks for a clean end, the second ends the process.

use std::fs::File;
use std::io::Write;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::answer::UNDIM;

/// Exit status after Ctrl-C, as shells report it: 128 and the number of SIGINT.
pub const STATUS: u8 = 130;

/// The watch over Ctrl-C. Before it is set up, Ctrl-C ends the process as usual.
#[derive(Debug)]
pub struct Interrupt {
    pressed: Arc<AtomicBool>,
    ends_when_idle: bool,
}

impl Interrupt {
    /// Starts to watch. Where nothing is answered the first Ctrl-C ends the process already, or has no effect.
    /// If answers are `dimmed`, the terminal is not left so.
    ///
    /// # Errors
    /// The system refuses the signal handler, or the process already has one.
    pub fn watch(ends_when_idle: bool, dimmed: bool) -> Result<Self> {
        let pressed = Arc::new(AtomicBool::new(ends_when_idle));
        let seen = Arc::clone(&pressed);
        let mut terminal = terminal().filter(|_| dimmed);
        ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::Relaxed) {
                if let Some(terminal) = &mut terminal {
                    let _ = terminal.write_all(UNDIM.as_bytes());
                }
                process::exit(STATUS.into());
            }
        })
        .context("cannot watch for Ctrl-C")?;
        Ok(Self {
            pressed,
            ends_when_idle,
        })
    }

    /// Begins an answer, and returns the flag that the first Ctrl-C sets.
    pub fn answering(&self) -> Arc<AtomicBool> {
        self.pressed.store(false, Ordering::Relaxed);
        Arc::clone(&self.pressed)
    }

    /// The answer is complete.
    pub fn idle(&self) {
        self.pressed.store(self.ends_when_idle, Ordering::Relaxed);
    }
}

/// Standard output if it is a terminal, apart from the handle that an answer in progress has locked.
#[cfg(unix)]
fn terminal() -> Option<File> {
    use std::io::{self, IsTerminal};
    use std::os::fd::AsFd;

    let stdout = io::stdout();
    let copy = stdout
        .is_terminal()
        .then(|| stdout.as_fd().try_clone_to_owned());
    copy?.ok().map(File::from)
}

#[cfg(not(unix))]
fn terminal() -> Option<File> {
    None
}
