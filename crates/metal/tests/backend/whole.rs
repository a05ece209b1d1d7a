//! Whole models under the checker, with prompts that end within, at and after tiles of rows and blocks of keys.

use minfer_graph::{KvFormat, WindowLayout};
use minfer_softmetal::Mode;
use minfer_testdata::tiny_model;

use crate::backend;
use crate::models::{Run, Setup, generated_rows, prompt_rows};
use crate::software::{assert_no_reports, device};

/// Tokens of the prompts.
const PROMPTS: [usize; 4] = [33, 64, 65, 197];

/// Runs each prompt and a decode step after it.
fn check(name: &str, window: WindowLayout, kv_format: KvFormat) {
    for tokens in PROMPTS {
        let checked = device(Mode::Checked);
        let setup = Setup {
            window,
            kv_format,
            cells: tokens + 1,
            rows: tokens,
        };
        let metal = Box::new(backend(checked.clone()));
        let mut run = Run::load(&tiny_model(name), vec![metal], &setup);
        let ids: Vec<_> = (0..tokens as u32).map(|n| n * 31 % 250 + 1).collect();
        let prompt = run.step_with(&ids, prompt_rows, tokens - 1);
        let decoded = run.step(&[7], generated_rows);
        assert_no_reports(&checked);
        let logits = prompt.iter().chain(&decoded).flatten();
        assert!(logits.copied().all(f32::is_finite), "{name}, {tokens}");
        let statistics = checked.take_statistics();
        let kernels: Vec<_> = statistics
            .kernels
            .iter()
            .map(|kernel| kernel.kernel.as_str())
            .collect();
        for kernel in ["gemm_q4_k", "fused_qkv", "fused_ffn", "fused_matmul"] {
            assert!(kernels.contains(&kernel), "no {kernel} in {kernels:?}");
        }
    }
}

#[test]
fn qwen2_runs_without_reports() {
    check("tiny-qwen2-q4_k", WindowLayout::Causal, KvFormat::F32);
}

#[test]
fn qwen3_runs_without_reports() {
    check("tiny-qwen3-q4_k", WindowLayout::Span, KvFormat::Q8_0);
}

#[test]
fn llama_runs_without_reports() {
    check("tiny-llama-q4_k", WindowLayout::Span, KvFormat::F16);
}
