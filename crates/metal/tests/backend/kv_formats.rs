//! Whole models with keys and values in every format, also where those of sequences lie between each other, against the
//! CPU in f32 with keys and values in the same format.

use minfer_graph::{KvFormat, WindowLayout};
use minfer_testdata::{largest_difference, tiny_model};

use crate::fast_device;
use crate::models::{Run, exact, generated_rows, prompt_rows, reference};

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
/// Their heads have 128 and 64 features.
const MODELS: [&str; 2] = ["tiny-qwen3-q4_k", "tiny-llama-q4_k"];

/// Largest |Δlogit|; the logits are about -5 to 5. f32 differs in the order of sums, which made 0.00002. The other formats
/// round values apart that differ by as little, which made 0.0005 and 0.008 (0.017 after other tokens), and 0.0005 and
/// 0.004 between two instruction sets of the CPU. The formats themselves cost up to 0.005 and 0.13.
fn tolerance(format: KvFormat) -> f32 {
    match format {
        KvFormat::F32 => 1e-4,
        KvFormat::F16 => 1.5e-3,
        KvFormat::Q8_0 => 3e-2,
    }
}

/// Between neighbouring numbers of a format, of the largest in a block; of f32 many, for the order of sums.
fn level(format: KvFormat) -> f32 {
    match format {
        KvFormat::F32 => 1e-5,
        KvFormat::F16 => 1.0 / 1024.0,
        KvFormat::Q8_0 => 1.0 / 127.0,
    }
}

/// Values compare by blocks of `Q8_0`.
const BLOCK: usize = 32;
/// Levels by which a stored value may differ: it was rounded the other way, which made 1.07 with other scales.
const FARTHEST: f32 = 1.5;
/// The part of the stored values that differs by over half a level. Where one does, later layers follow: 0.004.
const MOVED: f32 = 0.01;

fn assert_rows(found: &[f32], exact: &[f32], format: KvFormat, what: &str) {
    assert_eq!(found.len(), exact.len());
    let mut moved = 0;
    for (found, exact) in found.chunks(BLOCK).zip(exact.chunks(BLOCK)) {
        let level = level(format) * largest_difference(exact, &[0.0; BLOCK]);
        for (found, exact) in found.iter().zip(exact) {
            let difference = (found - exact).abs();
            let is_near = difference <= FARTHEST * level;
            assert!(is_near, "{what}: {found} for {exact}, levels of {level}");
            moved += usize::from(difference > 0.5 * level);
        }
    }
    let share = moved as f32 / found.len() as f32;
    assert!(share <= MOVED, "{what}: {share} of the rows moved");
}

/// Asserts that the rows that a run stored and the logits after the last of its tokens are those of the CPU.
pub fn assert_exact(run: &mut Run, name: &str, ids: &[u32], logits: &[Vec<f32>]) {
    let format = run.kv_format();
    let what = format!("{name} {format:?}, {} tokens", ids.len());
    let first = ids.len() - logits.len();
    let (mut cpu, exact) = exact(&tiny_model(name), format, ids, first);
    assert_rows(&run.stored(), &cpu.stored(), format, &what);
    assert_eq!(logits.len(), exact.len());
    for (row, (found, exact)) in logits.iter().zip(&exact).enumerate() {
        let difference = largest_difference(found, exact);
        println!("{what}: |Δlogit| {difference:.6} after {row}");
        let close = difference <= tolerance(format);
        assert!(close, "{what}: {difference} after {row}");
    }
}

/// Every model and format.
fn models_and_formats() -> impl Iterator<Item = (&'static str, KvFormat)> {
    let models = MODELS.into_iter();
    models.flat_map(|name| FORMATS.map(|format| (name, format)))
}

#[test]
fn the_recorded_tokens_have_the_logits_of_the_cpu() {
    let Some(device) = fast_device() else { return };
    for (name, format) in models_and_formats() {
        let recorded = reference(name);
        let (prompt, greedy) = (&recorded.ids, &recorded.greedy);
        assert_eq!(greedy.len(), 16);
        let mut run = Run::new(name, device.clone(), WindowLayout::Span, format);
        let logits = run.predict(prompt, greedy);
        assert_exact(&mut run, name, &[&prompt[..], greedy].concat(), &logits);
    }
}

/// Two sequences of which each goes on in the cells after a piece of the other.
#[test]
fn scattered_cells_have_the_logits_of_the_cpu() {
    let Some(device) = fast_device() else { return };
    for (name, format) in models_and_formats() {
        let recorded = reference(name);
        let texts = [&recorded.ids[..14], &recorded.greedy[..14]];
        let mut run = Run::new(name, device.clone(), WindowLayout::Map, format);
        let mut logits = [const { Vec::new() }; 2];
        for (rows, role) in [
            (0..9, prompt_rows as fn(usize) -> _),
            (9..12, prompt_rows),
            (12..13, generated_rows),
            (13..14, generated_rows),
        ] {
            for (sequence, text) in texts.into_iter().enumerate() {
                run.sequence = sequence;
                logits[sequence].extend(run.step(&text[rows.clone()], role));
            }
        }
        for (sequence, text) in texts.into_iter().enumerate() {
            run.sequence = sequence;
            assert_exact(&mut run, name, text, &logits[sequence]);
        }
    }
}
