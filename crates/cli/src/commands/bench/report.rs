//! Results of `minfer bench` as a table, CSV or JSON.

use std::io::Write;
use std::marker::PhantomData;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::console::Output;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A Markdown table.
    Md,
    /// Comma-separated values, every sample in one field.
    Csv,
    /// One JSON array.
    Json,
    /// One JSON object per line.
    Jsonl,
}

/// A result as it is printed; as JSON it is an object.
pub trait Line: Serialize {
    /// First lines of a Markdown table.
    const TABLE_HEAD: &str;
    /// Names of the CSV fields.
    const CSV_HEAD: &str;
    fn table_row(&self) -> String;
    fn csv_row(&self) -> String;
}

/// One test's result.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub model: String,
    pub model_path: PathBuf,
    /// Bytes of the weights.
    pub model_size: usize,
    /// Number of weights.
    pub model_params: usize,
    pub backend: String,
    pub threads: usize,
    pub n_ubatch: usize,
    pub cache_type: &'static str,
    /// Tokens of prefill, 0 in a decode test.
    pub n_prompt: usize,
    /// Decode steps, 0 in a prefill test.
    pub n_gen: usize,
    /// Tokens in the context before.
    pub n_depth: usize,
    /// Time of each measurement.
    pub samples_ns: Vec<u128>,
    /// Tokens per second of each measurement.
    pub samples_ts: Vec<f64>,
}

/// A row with what follows from its samples.
#[derive(Serialize)]
pub struct Summarized {
    test: String,
    #[serde(flatten)]
    row: Row,
    /// Mean of `samples_ts`.
    avg_ts: f64,
    /// Sample standard deviation of `samples_ts`; 0 for a single one.
    stddev_ts: f64,
}

impl Row {
    /// `pp512`, or `tg128 @ d1024`.
    fn test(&self) -> String {
        let name = match self.n_prompt {
            0 => format!("tg{}", self.n_gen),
            tokens => format!("pp{tokens}"),
        };
        match self.n_depth {
            0 => name,
            depth => format!("{name} @ d{depth}"),
        }
    }

    /// With the mean and the deviation of its samples.
    pub fn summarized(self) -> Summarized {
        let (avg_ts, stddev_ts) = mean_and_deviation(&self.samples_ts);
        Summarized {
            test: self.test(),
            row: self,
            avg_ts,
            stddev_ts,
        }
    }
}

pub fn mean_and_deviation(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count.max(1.0);
    if samples.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// Prints results as they come.
pub struct Report<L> {
    format: Format,
    output: Output,
    lines: usize,
    line: PhantomData<L>,
}

impl<L: Line> Report<L> {
    /// Starts a report with what comes before its results.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn new(format: Format, mut output: Output) -> Result<Self> {
        match format {
            Format::Md => writeln!(output, "{}", L::TABLE_HEAD)?,
            Format::Csv => writeln!(output, "{}", L::CSV_HEAD)?,
            Format::Json => write!(output, "[")?,
            Format::Jsonl => {}
        }
        output.flush()?;
        Ok(Self {
            format,
            output,
            lines: 0,
            line: PhantomData,
        })
    }

    /// Prints a result.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn add(&mut self, line: &L) -> Result<()> {
        match self.format {
            Format::Md => writeln!(self.output, "{}", line.table_row())?,
            Format::Csv => writeln!(self.output, "{}", line.csv_row())?,
            Format::Json => {
                write!(
                    self.output,
                    "{}",
                    if self.lines == 0 { "\n" } else { ",\n" }
                )?;
                self.output.write_json(line)?;
            }
            Format::Jsonl => self.output.write_json_line(line)?,
        }
        self.lines += 1;
        self.output.flush()?;
        Ok(())
    }

    /// Prints what comes after the results.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn end(mut self) -> Result<()> {
        if self.format == Format::Json {
            writeln!(self.output, "\n]")?;
        }
        self.output.flush()?;
        Ok(())
    }
}

impl Line for Summarized {
    const TABLE_HEAD: &str = "\
        | model | size | params | backend | threads | test | t/s |\n\
        | --- | ---: | ---: | --- | ---: | ---: | ---: |";
    const CSV_HEAD: &str = "\
        model,model_path,model_size,model_params,backend,threads,n_ubatch,cache_type,\
        n_prompt,n_gen,n_depth,test,avg_ts,stddev_ts,samples_ts";

    fn table_row(&self) -> String {
        let row = &self.row;
        format!(
            "| {} | {:.2} MiB | {:.2} M | {} | {} | {} | {:.2} ± {:.2} |",
            cell(&row.model),
            row.model_size as f64 / (1024.0 * 1024.0),
            row.model_params as f64 / 1e6,
            row.backend,
            row.threads,
            self.test,
            self.avg_ts,
            self.stddev_ts,
        )
    }

    fn csv_row(&self) -> String {
        let row = &self.row;
        let samples: Vec<String> = row.samples_ts.iter().map(f64::to_string).collect();
        [
            quoted(&row.model),
            quoted(&row.model_path.to_string_lossy()),
            row.model_size.to_string(),
            row.model_params.to_string(),
            quoted(&row.backend),
            row.threads.to_string(),
            row.n_ubatch.to_string(),
            row.cache_type.to_owned(),
            row.n_prompt.to_string(),
            row.n_gen.to_string(),
            row.n_depth.to_string(),
            quoted(&self.test),
            self.avg_ts.to_string(),
            self.stddev_ts.to_string(),
            quoted(&samples.join(" ")),
        ]
        .join(",")
    }
}

/// Text in a cell of a Markdown table.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// A CSV field as RFC 4180 quotes it.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            model: "a \"b\" | c".into(),
            model_path: "/m.gguf".into(),
            model_size: 3 << 20,
            model_params: 1_500_000,
            backend: "CPU (avx2)".into(),
            threads: 2,
            n_ubatch: 512,
            cache_type: "f32",
            n_prompt: 0,
            n_gen: 64,
            n_depth: 128,
            samples_ns: vec![1, 2],
            samples_ts: vec![2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0],
        }
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // The textbook example: mean 5, sum of squared deviations 32, 8 values.
        let (mean, deviation) = mean_and_deviation(&row().samples_ts);
        assert_eq!(mean, 5.0);
        assert!((deviation - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_deviation(&[3.0]), (3.0, 0.0));
    }

    #[test]
    fn a_table_row_reads_like_llama_bench() {
        assert_eq!(
            row().summarized().table_row(),
            "| a \"b\" \\| c | 3.00 MiB | 1.50 M | CPU (avx2) | 2 | tg64 @ d128 | 5.00 ± 2.14 |"
        );
    }

    #[test]
    fn csv_quotes_text_and_keeps_every_sample() {
        assert_eq!(
            row().summarized().csv_row(),
            "\"a \"\"b\"\" | c\",\"/m.gguf\",3145728,1500000,\"CPU (avx2)\",2,512,f32,0,64,128,\
             \"tg64 @ d128\",5,2.138089935299395,\"2 4 4 4 5 5 7 9\""
        );
    }
}
