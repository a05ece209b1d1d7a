//! Operations and edits under the checker: no access outside of a range, no race, nothing stale.

use std::collections::{BTreeMap, BTreeSet};

use minfer_graph::{KvFormat, RowEdit, WindowLayout};
use minfer_optable::{Case, cases, check_edit, edit_cases, op_names};
use minfer_softmetal::Mode;

use super::{assert_no_reports, device};
use crate::backend;
use crate::models::{Run, reference};
use crate::operations::{REFUSED, compare, kind};

/// The smallest case of each operation, weight type and KV format.
fn smallest_cases() -> Vec<Case> {
    let mut smallest = BTreeMap::new();
    for case in cases() {
        let format = case
            .kv
            .as_ref()
            .map(|region| format!("{:?}", region.shape.format));
        let key = (kind(&case), format);
        let size = |case: &Case| case.count * case.width;
        let known = smallest.get(&key).map(size);
        if known.is_none_or(|known| size(&case) < known) {
            smallest.insert(key, case);
        }
    }
    smallest.into_values().collect()
}

#[test]
fn kernels_touch_only_what_they_may() {
    let device = device(Mode::Checked);
    let mut backend = backend(device.clone());
    let mut ran = BTreeSet::new();
    for case in smallest_cases() {
        let compared = compare(&case, &mut backend, false);
        assert_no_reports(&device);
        let compared = compared.unwrap_or_else(|mismatch| panic!("{}: {mismatch:?}", case.name()));
        if compared.is_some() {
            ran.insert(case.op.name());
        }
    }
    // Input and View have nothing to run.
    assert_eq!(ran.len(), op_names().len() - REFUSED.len());
}

#[test]
fn edits_touch_only_what_they_may() {
    let device = device(Mode::Checked);
    let mut backend = backend(device.clone());
    let mut formats = BTreeMap::new();
    // One copy onto itself shifted, and one rotation of part of the heads, of each format.
    for case in edit_cases() {
        let key = match case.edit {
            RowEdit::Copy(copy) if copy.from == 5 => "copy",
            RowEdit::Rotate(rotation) if rotation.by == 77 => "rotation",
            _ => continue,
        };
        let format = format!("{:?}", case.region.shape.format);
        formats.entry((key, format)).or_insert(case);
    }
    assert_eq!(formats.len(), 6);
    for case in formats.values() {
        let edited = check_edit(case, &mut backend);
        assert_no_reports(&device);
        edited.unwrap_or_else(|mismatch| panic!("{}: {mismatch:?}", case.name()));
    }
}

#[test]
fn models_run_without_reports_and_with_the_same_bits() {
    for (name, window, format) in [
        ("tiny-qwen2-q4_k", WindowLayout::Causal, KvFormat::F32),
        ("tiny-qwen3-q4_k", WindowLayout::Span, KvFormat::Q8_0),
        ("tiny-llama-q4_k", WindowLayout::Span, KvFormat::F16),
    ] {
        let ids = &reference(name).ids[..7];
        let checked = device(Mode::Checked);
        let logits = Run::new(name, checked.clone(), window, format).logits(ids);
        assert_no_reports(&checked);
        let unchecked = device(Mode::Unchecked);
        assert!(
            logits == Run::new(name, unchecked, window, format).logits(ids),
            "{name}"
        );
        let statistics = checked.statistics();
        let kernels: Vec<_> = statistics
            .iter()
            .map(|kernel| kernel.kernel.as_str())
            .collect();
        // Prompt rows and generated rows have kernels of their own.
        let prompt = ["rope", "rms_norm", "gemm_q4_k"];
        let generated = ["fused_qkv", "fused_ffn", "fused_matmul"];
        for kernel in prompt.into_iter().chain(generated) {
            assert!(kernels.contains(&kernel), "no {kernel} in {kernels:?}");
        }
    }
}
