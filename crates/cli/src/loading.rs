//! Loading a model for a command, with its progress on a terminal.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use minfer_engine::{Engine, EngineOptions, KvBudget, kv_format_name};

use crate::console::{self, Console, WithHint};

/// A load that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Loads the model at `path`, and says so if not all of it runs on a device, or if the machine has no memory for the KV
/// cache asked for.
///
/// # Errors
/// The file is unusable, or the machine cannot hold what is asked for.
pub fn load(console: Console, path: &Path, options: &EngineOptions) -> Result<Engine> {
    let bar = bar(console);
    let engine = Engine::load_with_progress(path, options, |progress| {
        if bar.elapsed() >= PATIENCE {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    });
    bar.finish_and_clear();
    let engine = match engine {
        Err(error @ minfer_engine::Error::Gguf(_)) => {
            return Err(error).hint("`minfer pull` verifies the models that it fetched");
        }
        engine => engine?,
    };
    let placement = engine.placement();
    match placement.reason {
        Some(_) => console.note(placement),
        None => console.detail(placement),
    }
    let budget = engine.kv_budget();
    if let Some(shortage) = shortage(budget, engine.parallel()) {
        console.note(shortage);
    }
    Ok(engine)
}

/// What computes: `CPU (avx2)`, `metal (Apple M4 Pro)`, or both with the number of layers.
pub fn backend(engine: &Engine) -> String {
    let cpu = format!("CPU ({})", engine.isa());
    let placement = engine.placement();
    let Some(name) = &placement.device_name else {
        return cpu;
    };
    let device = format!("{} ({name})", placement.device.name());
    match placement.is_whole() {
        true => device,
        false => format!("{device} x {}, {cpu}", placement.layers),
    }
}

/// What the context takes: `context 4096 tokens, KV cache 100.7 MB (f32)`.
pub fn kv_cache(engine: &Engine) -> String {
    format!(
        "context {} tokens, KV cache {} ({})",
        engine.n_ctx(),
        console::bytes(engine.kv_budget().bytes),
        kv_format_name(engine.kv_format()),
    )
}

/// That sequences have to share fewer cells than they could fill, if so.
fn shortage(budget: KvBudget, parallel: usize) -> Option<String> {
    (budget.cells < budget.wanted).then(|| {
        format!(
            "the KV cache holds {} tokens ({}), not the {} that {parallel} full contexts have: there is no memory for more",
            budget.cells,
            console::bytes(budget.bytes),
            budget.wanted,
        )
    })
}

fn bar(console: Console) -> ProgressBar {
    if !console.draws_bars() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("loading {bar:30} {decimal_bytes}/{decimal_total_bytes}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_with_its_numbers() {
        let budget = |cells| KvBudget {
            cells,
            wanted: 8192,
            bytes: 12_000_000,
        };
        assert_eq!(shortage(budget(8192), 2), None);
        assert_eq!(
            shortage(budget(5000), 2).as_deref(),
            Some(
                "the KV cache holds 5000 tokens (12.0 MB), not the 8192 that 2 full contexts have: \
                 there is no memory for more"
            )
        );
    }
}
