//! Kernels that are chosen: each choice changes what is dispatched, and values by no more than rounding.

use std::sync::LazyLock;

use minfer_graph::{Attention, KvFormat, KvShape, Op, RowCount, WindowLayout};
use minfer_metal::backend::{KernelChoices, MetalBackend, MetalOptions};
use minfer_metal::device::Device;
use minfer_optable::{Case, Placement, RowRange, cases, run};

use crate::alternatives::{CLASSIC, FAST, NO_FLASH, NO_WINDOW_FLASH, STAGED};
use crate::models::{Run, reference};
use crate::operations::compare;
use crate::{assert_no_reports, backend_of, checked_device, dispatch_log, fast_device, options};

const NO_GEMM: KernelChoices = KernelChoices {
    gemm: false,
    ..FAST
};
pub const CHUNKS: KernelChoices = KernelChoices {
    attention_chunks: Some(3),
    ..FAST
};

/// The operation table, made once.
static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases);

pub fn case(detail: &str) -> &'static Case {
    let mut all = CASES.iter();
    all.find(|case| case.detail.starts_with(detail)).unwrap()
}

/// Names of the kernels of all rows as those of a prompt, and as generated ones.
fn kernels<D: Device + Clone>(device: &D, detail: &str, kernels: KernelChoices) -> [String; 2] {
    let case = case(detail);
    [case.count, 0].map(|prompt| {
        let options = MetalOptions {
            kernels,
            trace: true,
            ..options()
        };
        let mut backend = MetalBackend::new(device.clone(), options);
        let rows = 0..case.count;
        let range = RowRange { rows, prompt };
        let names = dispatch_log::kernels(|| {
            run(case, &mut backend, Placement::Contiguous, &range).unwrap();
        });
        names.join(" ")
    })
}

#[test]
fn the_default_has_the_fastest() {
    assert_eq!(KernelChoices::default(), FAST);
}

#[test]
fn each_choice_changes_what_is_dispatched() {
    let Some(device) = fast_device() else { return };
    const PRODUCT: &str = "Q4_K [512, 67]";
    const CAUSAL: &str = "F16 Causal, 14/2 heads of 64";
    const SPAN: &str = "F32 Span, 4/4 heads of 128";
    const PACKED: &str = "Q8_0 Map, 14/2 heads of 64";
    const OTHER: &str = "F16 Causal, 6/2 heads of 80";
    let expected = [
        (PRODUCT, FAST, "gemm_q4_k", "matvec_batch_q4_k"),
        (PRODUCT, NO_GEMM, "matvec_batch_q4_k", "matvec_batch_q4_k"),
        (
            CAUSAL,
            FAST,
            "flash_prefill_f16",
            "flash_decode_combine flash_decode_f16",
        ),
        (
            CAUSAL,
            NO_FLASH,
            "three_pass_outputs_f16 three_pass_scores_f16 three_pass_weights",
            "split_scores_f16 split_values_f16",
        ),
        (CAUSAL, CLASSIC, "attention_f16", "attention_f16"),
        (
            SPAN,
            FAST,
            "flash_prefill_f32",
            "flash_decode_combine flash_decode_f32",
        ),
        (
            SPAN,
            NO_FLASH,
            "attention_f32",
            "split_scores_f32 split_values_f32",
        ),
        (
            CAUSAL,
            NO_WINDOW_FLASH,
            "flash_prefill_f16",
            "flash_decode_combine flash_decode_f16",
        ),
        (
            SPAN,
            NO_WINDOW_FLASH,
            "attention_f32",
            "flash_decode_combine flash_decode_f32",
        ),
        (
            PACKED,
            FAST,
            "flash_prefill_q8_0",
            "flash_decode_combine flash_decode_q8_0",
        ),
        (
            PACKED,
            STAGED,
            "flash_prefill_f32 kv_stage_q8_0",
            "flash_decode_combine flash_decode_f32 kv_stage_q8_0",
        ),
        (OTHER, FAST, "attention_f16", "attention_f16"),
        (OTHER, NO_FLASH, "attention_f16", "attention_f16"),
    ];
    for (detail, choices, prompt, generated) in expected {
        assert_eq!(
            kernels(&device, detail, choices),
            [prompt, generated],
            "{detail}: {choices:?}"
        );
    }
}

/// Flash kernels of one role do not follow the choice of the other.
#[test]
fn roles_are_chosen_for_apart() {
    let Some(device) = fast_device() else { return };
    let kernels = |choices| kernels(&device, "F16 Causal, 14/2 heads of 64", choices);
    let [fast, slow] = [FAST, NO_FLASH].map(kernels);
    let generated = KernelChoices {
        flash_decode: false,
        ..FAST
    };
    assert_eq!(kernels(generated), [&*fast[0], &*slow[1]]);
    let prompt = KernelChoices {
        flash_prefill: false,
        ..FAST
    };
    assert_eq!(kernels(prompt), [&*slow[0], &*fast[1]]);
}

#[test]
fn no_chunks_are_refused() {
    let none = KernelChoices {
        attention_chunks: Some(0),
        ..FAST
    };
    let Some(device) = fast_device() else { return };
    let mut backend = backend_of(device, none);
    let case = case("F32 Causal, 14/2 heads of 64");
    let range = RowRange {
        rows: 3..4,
        prompt: 0,
    };
    let error = run(case, &mut backend, Placement::Contiguous, &range).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metal: flash_decode: chunks is 0, 1 to 16 is needed"
    );
}

#[test]
fn memory_between_kernels_is_known_before_there_are_rows() {
    let attention = Attention {
        layer: 0,
        n_head: 14,
        n_head_kv: 2,
        head_dim: 64,
        scale: 0.125,
        window: WindowLayout::Map,
    };
    let region = |format| KvShape {
        cells: 8192,
        width: 128,
        head_dim: 64,
        format,
    };
    let rows = RowCount {
        prompt: 512,
        generated: 4,
    };
    let bytes = |choices: KernelChoices, format, n_ctx| {
        choices.scratch_bytes(&attention, rows, n_ctx, region(format))
    };
    // Partials of 16 chunks, of 3, and of the one that 32 keys make.
    assert_eq!(bytes(FAST, KvFormat::F32, 4096), 4 * 14 * 16 * 66 * 4);
    assert_eq!(bytes(CHUNKS, KvFormat::F32, 4096), 4 * 14 * 3 * 66 * 4);
    assert_eq!(bytes(FAST, KvFormat::F32, 32), 4 * 14 * 66 * 4);
    // 64 MiB hold the scores of 128 tiles of 32 rows with 4096 keys each: 9 tiles of 14 heads. A generated row has 128
    // blocks of 32 scores and their largest.
    let split = 4 * 14 * 128 * 33 * 4;
    let expected = 9 * 14 * 32 * 4096 * 4 + split;
    assert_eq!(bytes(NO_FLASH, KvFormat::F16, 4096), expected);
    assert_eq!(bytes(CLASSIC, KvFormat::F16, 4096), 0);
    // All keys and values as floats.
    let staged = bytes(STAGED, KvFormat::Q8_0, 4096) - bytes(FAST, KvFormat::Q8_0, 4096);
    assert_eq!(staged, 2 * 8192 * 128 * 4);
    assert_eq!(
        bytes(STAGED, KvFormat::F16, 4096),
        bytes(FAST, KvFormat::F16, 4096)
    );
}

/// Choices other than the default, the cases that they matter to, by the start of their detail, and whether rows of those
/// are also computed alone: each kernel that the default does not use once.
const OTHERS: [(KernelChoices, &str, bool); 9] = [
    (NO_GEMM, "Q4_K", true),
    (NO_GEMM, "", false),
    (CHUNKS, "F32", false),
    (NO_FLASH, "F32", true),
    (NO_FLASH, "F16", false),
    (NO_FLASH, "Q8_0", false),
    (CLASSIC, "F16", false),
    (NO_WINDOW_FLASH, "F16", false),
    (STAGED, "Q8_0", false),
];

/// Whether a choice changes what a case runs by.
fn matters(choices: KernelChoices, op: &Op) -> bool {
    match op {
        Op::MatMul { .. } => !choices.gemm,
        Op::Attention(attention) => choices.gemm && attention.head_dim != 80,
        _ => false,
    }
}

#[test]
fn operations_keep_to_the_table_whatever_is_chosen() {
    let Some(device) = fast_device() else { return };
    let mut failures = Vec::new();
    for (choices, start, alone) in OTHERS {
        let mut backend = backend_of(device.clone(), choices);
        let cases = CASES.iter().filter(|case| matters(choices, &case.op));
        for case in cases.filter(|case| case.detail.starts_with(start)) {
            if let Err(mismatch) = compare(case, &mut backend, alone && case.count < 10) {
                failures.push(format!("{choices:?}, {}: {mismatch:?}", case.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Native reads of packed cells round nowhere that reads of staged ones do not.
#[test]
fn staged_cells_give_the_bits_of_native_reads() {
    let Some(device) = fast_device() else { return };
    for detail in ["Causal, 14/2", "Span, 14/2", "Map, 4/4"] {
        let case = case(&format!("Q8_0 {detail}"));
        let value = |choices| {
            let mut backend = backend_of(device.clone(), choices);
            let range = RowRange {
                rows: 0..case.count,
                prompt: case.count / 2,
            };
            let run = run(case, &mut backend, Placement::Strided, &range).unwrap();
            run.value.iter().map(|y| y.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(value(STAGED), value(FAST), "{detail}");
    }
}

/// Largest |Δlogit| between choices; the logits are about -5 to 5. Only the order of sums differs.
const TOLERANCE: f32 = 1e-4;

#[test]
fn models_give_the_same_logits_whatever_is_chosen() {
    let Some(device) = fast_device() else { return };
    for (name, window) in [
        ("tiny-llama-q4_k", WindowLayout::Causal),
        ("tiny-qwen3-q4_k", WindowLayout::Span),
    ] {
        let ids = &reference(name).ids[..8];
        let logits = |choices, format| -> Vec<f32> {
            let backend = backend_of(device.clone(), choices);
            let mut run = Run::on(name, backend, window, format);
            run.logits(ids).concat()
        };
        let expected = logits(FAST, KvFormat::F32);
        for choices in [NO_GEMM, CHUNKS, NO_FLASH, CLASSIC, NO_WINDOW_FLASH] {
            let found = logits(choices, KvFormat::F32);
            for (found, expected) in found.iter().zip(&expected) {
                let difference = (found - expected).abs();
                assert!(difference <= TOLERANCE, "{name} {choices:?}: {difference}");
            }
        }
        let [staged, native] = [STAGED, FAST].map(|choices| logits(choices, KvFormat::Q8_0));
        assert!(staged == native, "{name}");
    }
}

/// Layers take turns in the same memory for scores and for staged cells.
#[test]
fn memory_that_layers_share_is_ordered() {
    let Some(device) = checked_device() else {
        return;
    };
    for (name, window, format, choices) in [
        (
            "tiny-llama-q4_k",
            WindowLayout::Causal,
            KvFormat::F16,
            NO_FLASH,
        ),
        (
            "tiny-qwen3-q4_k",
            WindowLayout::Span,
            KvFormat::Q8_0,
            STAGED,
        ),
    ] {
        let ids = &reference(name).ids[..4];
        let backend = backend_of(device.clone(), choices);
        Run::on(name, backend, window, format).logits(ids);
        assert_no_reports(&device);
    }
}
