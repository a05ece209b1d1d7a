//! The table of errors: operation, weight types and KV format, with the largest error of prompt and of generated rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use minfer_gguf::TensorType;
use minfer_graph::KvFormat;
use minfer_optable::{Accuracy, Case, Worst, op_names};

use crate::operations::{REFUSED, REFUSED_TYPES};

/// What errors are listed by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    op: &'static str,
    /// Types of its matrices, each once.
    types: Vec<&'static str>,
    format: Option<&'static str>,
}

#[derive(Clone, Copy, Default)]
struct Errors {
    cases: usize,
    accuracy: Accuracy,
    /// Parts of the magnitude that a value may be off, and what it may be off besides, of the cases that allow most.
    limit: [f64; 2],
}

/// The largest errors of all cases of a backend.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<Key, Errors>,
}

fn key(case: &Case) -> Key {
    let matrices = case.weights.iter().filter(|weight| weight.shape.len() == 2);
    let mut types: Vec<_> = matrices.map(|weight| weight.ty.name()).collect();
    types.dedup();
    let format = case.kv.as_ref().map(|region| name(region.shape.format));
    Key {
        op: case.op.name(),
        types,
        format,
    }
}

fn name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F32 => "f32",
        KvFormat::F16 => "f16",
        KvFormat::Q8_0 => "q8_0",
    }
}

impl Table {
    /// Adds a case that was computed.
    pub fn add(&mut self, case: &Case, accuracy: Accuracy) {
        let row = self.rows.entry(key(case)).or_default();
        row.cases += 1;
        row.accuracy = row.accuracy.max(accuracy);
        let limit = [case.limit.relative, case.limit.absolute];
        row.limit = [0, 1].map(|i| row.limit[i].max(limit[i]));
    }

    /// Asserts that each operation is there, with every type of weight that has kernels and every KV format: an operation
    /// with both with each of their pairs.
    pub fn assert_complete(&self) {
        let computed = |name: &&str| !REFUSED.contains(name);
        let ops: BTreeSet<_> = op_names().into_iter().filter(computed).collect();
        let found: BTreeSet<_> = self.rows.keys().map(|key| key.op).collect();
        assert_eq!(found, ops);
        let mut types: BTreeSet<_> = TensorType::WEIGHTS.into_iter().collect();
        types.retain(|ty| !REFUSED_TYPES.contains(ty));
        assert_eq!(types.len(), 11);
        let formats =
            [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0].map(|format| Some(name(format)));
        for op in ops {
            let of_op: Vec<_> = self.rows.keys().filter(|key| key.op == op).collect();
            let has_types = of_op.iter().any(|key| !key.types.is_empty());
            let has_formats = of_op.iter().any(|key| key.format.is_some());
            let types: Vec<Vec<_>> = match has_types {
                true => types.iter().map(|ty| vec![ty.name()]).collect(),
                false => vec![vec![]],
            };
            for format in if has_formats { &formats[..] } else { &[None] } {
                for types in &types {
                    let is_this = |key: &&Key| key.types == *types && key.format == *format;
                    assert!(of_op.iter().any(is_this), "no {op} of {types:?} {format:?}");
                }
            }
        }
    }

    /// Asserts that no value was further off than its case allows.
    pub fn assert_within_limits(&self) {
        for (key, row) in &self.rows {
            let Accuracy { prompt, generated } = row.accuracy;
            let most = prompt.max(generated).of_limit;
            assert!(most <= 1.0, "{}: {most}", key.op);
        }
    }
}

/// Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| operation | weights | KV | cases | prompt rows | generated rows | tolerance |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|")?;
        for (key, row) in &self.rows {
            let Accuracy { prompt, generated } = row.accuracy;
            let prompt = match key.op.starts_with("Fused") {
                true => "refused".to_owned(),
                false => Cell(prompt).to_string(),
            };
            let tolerance = match row.limit {
                [0.0, 0.0] => "exact".to_owned(),
                [relative, 0.0] => format!("{relative:.0e}"),
                [relative, absolute] => format!("{relative:.0e}, or {absolute:.0e} absolute"),
            };
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {tolerance} |",
                key.op,
                key.types.join(", "),
                key.format.unwrap_or_default(),
                row.cases,
                prompt,
                Cell(generated),
            )?;
        }
        Ok(())
    }
}

/// An error, and the part of the tolerance that it is.
pub struct Cell(pub Worst);

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.relative {
            0.0 => write!(f, "0"),
            error => write!(f, "{error:.1e} ({:.0} %)", 100.0 * self.0.of_limit),
        }
    }
}
