//! Progress of one download: a bar on a terminal, plain lines elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::console::{Console, bytes};

/// The display of one file's way into the cache.
#[derive(Debug)]
pub struct Transfer {
    console: Console,
    bar: ProgressBar,
    label: String,
    size: u64,
    started: Instant,
}

impl Transfer {
    /// Starts the display for a file of `size` bytes.
    pub fn start(console: Console, label: &str, size: u64) -> Self {
        let bar = if console.draws_bars() {
            let bar = ProgressBar::new(size).with_style(style());
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        } else {
            ProgressBar::hidden()
        };
        Self {
            console,
            bar,
            label: label.to_owned(),
            size,
            started: Instant::now(),
        }
    }

    /// A display that shows nothing.
    #[cfg(test)]
    pub fn hidden() -> Self {
        Self {
            console: Console::new(crate::logging::Verbosity::Quiet),
            bar: ProgressBar::hidden(),
            label: String::new(),
            size: 0,
            started: Instant::now(),
        }
    }

    /// Shows how many bytes are there.
    pub fn set(&self, position: u64) {
        self.bar.set_position(position.min(self.size));
    }

    /// Says what is happening now: beside the bar, or as a line of its own.
    pub fn stage(&self, stage: &str) {
        if self.bar.is_hidden() {
            self.console.note(format_args!("{}: {stage}", self.label));
        } else {
            self.bar.set_message(stage.to_owned());
        }
    }

    /// Prints a line that stays.
    pub fn note(&self, line: &str) {
        self.bar
            .suspend(|| self.console.note(format_args!("{}: {line}", self.label)));
    }

    /// Ends the display with a summary.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
        self.console.note(format_args!(
            "{}: {} fetched in {:.1} s",
            self.label,
            bytes(self.size),
            self.started.elapsed().as_secs_f64()
        ));
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{wide_msg} {bar:30} {decimal_bytes:>9}/{decimal_total_bytes} {decimal_bytes_per_sec:>11} {eta:>4}",
    )
    .unwrap_or_else(|_| ProgressStyle::default_bar())
}
