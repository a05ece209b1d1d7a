//! SmolLM2-135M as people have it, against the recorded exact reference (weights dequantized to f32, f32
//! activations) and against the CPU.

use std::time::Duration;

use minfer_graph::{KvFormat, WindowLayout};
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_testdata::{fixture, largest_difference, real_model};
use serde::Deserialize;

use crate::fast_device;
use crate::models::{Run, Setup, argmax, exact};

/// Largest mean |Δ log-probability| over the ten best tokens. All compute in f32 and differ in the order of their
/// sums, which was measured to make 0.00003.
const TOLERANCE: f64 = 1e-4;
/// Largest |Δlogit| to the CPU among all tokens, for the same reason, which was measured to make 0.00008.
const LOGIT_TOLERANCE: f32 = 3e-4;
/// Tokens decoded after the prompt.
const STEPS: usize = 4;

/// A recorded prediction.
#[derive(Deserialize)]
struct Reference {
    /// The prompt.
    ids: Vec<u32>,
    /// Of the logits after it; the best of them follow.
    logsumexp: f64,
    top_ids: Vec<usize>,
    top_logits: Vec<f64>,
    /// Greedy continuation, and by how much the best logit exceeded the second.
    greedy: Vec<u32>,
    margins: Vec<f64>,
}

/// A log-probability by token, the best tokens first.
type Best = Vec<(usize, f64)>;

impl Reference {
    fn best(&self) -> Best {
        let ids = self.top_ids.iter().copied();
        let logits = self.top_logits.iter();
        ids.zip(logits.map(|logit| logit - self.logsumexp))
            .collect()
    }
}

/// The longest recorded prompt, a question in the model's chat format.
fn reference() -> Reference {
    let text = std::fs::read_to_string(fixture("logits/smollm2.jsonl")).unwrap();
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.max_by_key(|reference: &Reference| reference.ids.len())
        .unwrap()
}

fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let weights = logits
        .iter()
        .map(|&logit| (f64::from(logit) - largest).exp());
    let normalizer = largest + weights.sum::<f64>().ln();
    logits
        .iter()
        .map(|&logit| f64::from(logit) - normalizer)
        .collect()
}

fn best(logits: &[f32]) -> Best {
    let mut all: Best = log_probabilities(logits).into_iter().enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Mean |Δ log-probability| over the ten best tokens.
fn error(logits: &[f32], best: &Best) -> f64 {
    let found = log_probabilities(logits);
    let differences = best.iter().take(10);
    let differences = differences.map(|&(id, expected)| (found[id] - expected).abs());
    differences.sum::<f64>() / 10.0
}

#[test]
fn smollm2_predicts_what_its_reference_and_the_cpu_do() {
    let path = real_model("smollm2").unwrap_or_else(|missing| panic!("{missing}"));
    let Some(device) = fast_device() else { return };
    let reference = reference();
    let (prompt, text) = (&reference.ids, &reference.greedy[..STEPS]);
    let cells = prompt.len() + STEPS;
    let options = MetalOptions {
        submit_limit: Duration::from_secs(1200),
        ..MetalOptions::default()
    };
    let setup = Setup {
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        cells,
        rows: cells,
    };
    let metal = Box::new(MetalBackend::new(device, options));
    let logits = Run::load(&path, vec![metal], &setup).predict(prompt, text);

    let to_reference = error(&logits[0], &reference.best());
    println!("mean |Δ log-prob| to the reference {to_reference:.6}");
    assert!(to_reference <= TOLERANCE, "{to_reference}");
    let ids = [prompt, text].concat();
    let (_, exact) = exact(&path, KvFormat::F32, &ids, prompt.len() - 1);
    assert_eq!(logits.len(), exact.len());
    for (row, (logits, exact)) in logits.iter().zip(&exact).enumerate() {
        let to_cpu = error(logits, &best(exact));
        let most = largest_difference(logits, exact);
        println!("after {row} decoded tokens, to the CPU {to_cpu:.6}, |Δlogit| {most:.6}");
        assert!(to_cpu <= TOLERANCE, "{row}: {to_cpu}");
        assert!(most <= LOGIT_TOLERANCE, "{row}: {most}");
        assert!(reference.margins[row] > 1.0, "{row}");
        assert_eq!(argmax(logits), reference.greedy[row], "{row}");
    }
}
