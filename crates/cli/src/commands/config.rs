//! `minfer config`: every environment variable with its meaning and present value.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use minfer_engine::Config;
use serde::Serialize;

use crate::console;
use crate::environment::Environment;

/// Show the environment variables that minfer reads
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Absent where the variable is not set.
    value: Option<String>,
    default: String,
    meaning: &'static str,
}

pub fn execute(args: ConfigArgs) -> Result<()> {
    let mut rows: Vec<Row> = Environment::read()?
        .settings()
        .into_iter()
        .map(|setting| Row {
            name: setting.name,
            value: setting.value,
            default: setting.default,
            meaning: setting.meaning,
        })
        .collect();
    rows.extend(
        Config::from_env()?
            .settings()
            .into_iter()
            .map(|setting| Row {
                name: setting.name,
                value: setting.value,
                default: setting.default.to_owned(),
                meaning: setting.meaning,
            }),
    );
    let mut output = console::output();
    for row in &rows {
        if args.json {
            output.write_json_line(row)?;
        } else {
            writeln!(
                output,
                "{} = {}",
                row.name,
                row.value.as_deref().unwrap_or("(not set)")
            )?;
            writeln!(output, "    {} (default: {})", row.meaning, row.default)?;
        }
    }
    Ok(())
}
