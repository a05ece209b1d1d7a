//! Whole models under the checker, with prompts that end within, at and after tiles of rows and blocks of keys.

use minfer_graph::{KvFormat, MAX_WINDOW_RUNS, WindowLayout};
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_testdata::tiny_model;

use crate::kv_formats::assert_exact;
use crate::models::{Run, Setup};
use crate::{assert_no_reports, checked_device, dispatch_log, options};

/// Tokens of the prompts.
const PROMPTS: [usize; 4] = [33, 64, 65, 197];

/// Runs each prompt and a decode step after it, and compares both with the CPU.
fn check(name: &str, window: WindowLayout, kv_format: KvFormat, prompts: &[usize]) {
    for &tokens in prompts {
        let Some(checked) = checked_device() else {
            return;
        };
        let setup = Setup {
            window,
            kv_format,
            cells: match window {
                WindowLayout::Map => 2 * MAX_WINDOW_RUNS * (tokens / MAX_WINDOW_RUNS + 1),
                _ => tokens + 1,
            },
            rows: tokens,
        };
        let options = MetalOptions {
            trace: true,
            ..options()
        };
        let metal = Box::new(MetalBackend::new(checked.clone(), options));
        let mut run = Run::load(&tiny_model(name), vec![metal], &setup);
        let ids: Vec<_> = (0..tokens as u32).map(|n| n * 31 % 250 + 1).collect();
        let mut logits = Vec::new();
        let kernels = dispatch_log::kernels(|| logits = run.predict(&ids, &[7]));
        assert_no_reports(&checked);
        assert_exact(&mut run, name, &[&ids[..], &[7]].concat(), &logits);
        for kernel in ["gemm_q4_k", "fused_qkv", "fused_ffn", "fused_matmul"] {
            assert!(
                kernels.iter().any(|ran| ran == kernel),
                "no {kernel} in {kernels:?}"
            );
        }
    }
}

#[test]
fn qwen2_gives_the_logits_of_the_cpu_without_reports() {
    check(
        "tiny-qwen2-q4_k",
        WindowLayout::Causal,
        KvFormat::F32,
        &PROMPTS,
    );
}

#[test]
fn qwen3_gives_the_logits_of_the_cpu_without_reports() {
    check(
        "tiny-qwen3-q4_k",
        WindowLayout::Span,
        KvFormat::Q8_0,
        &PROMPTS,
    );
}

#[test]
fn llama_gives_the_logits_of_the_cpu_without_reports() {
    check(
        "tiny-llama-q4_k",
        WindowLayout::Span,
        KvFormat::F16,
        &PROMPTS,
    );
}

#[test]
fn scattered_cells_give_the_logits_of_the_cpu_without_reports() {
    check("tiny-qwen3-q4_k", WindowLayout::Map, KvFormat::Q8_0, &[65]);
}
