//! Where a sequence's rows lie on the device changes no bit: in one place or several, shared or moved.

use minfer_engine::{Chunk, Engine, EngineOptions, Role, SequenceId, Wanted};
use minfer_graph::{KvFormat, WindowLayout};

use crate::support::{
    Bits, LAYERS, assert_as_on_the_cpu, bits, has_device, load, text, with_format,
};

/// More than one tile of keys, and a rest.
const PROMPT: u32 = 68;
const GENERATED: [u32; 6] = [5, 250, 5, 17, 99, 3];

fn given(sequence: SequenceId, tokens: &[u32]) -> Chunk<'_> {
    Chunk {
        sequence,
        tokens,
        role: Role::Prompt,
        logits: Wanted::Last,
    }
}

fn generated(sequence: SequenceId, token: &u32) -> Chunk<'_> {
    Chunk {
        role: Role::Generated,
        ..given(sequence, std::slice::from_ref(token))
    }
}

/// The logits of each chunk.
fn step<const N: usize>(engine: &mut Engine, chunks: [Chunk<'_>; N]) -> [Vec<u32>; N] {
    engine.step(&chunks).unwrap_or_else(|e| panic!("{e}"));
    std::array::from_fn(|chunk| bits(engine.logits(chunk, 0)))
}

/// Logits after a prompt and each generated token, of a sequence in the first cells.
fn alone(engine: &mut Engine, prompt: &[u32], tokens: &[u32]) -> Bits {
    assert_eq!(engine.free_cells(), engine.cells());
    let sequence = engine.create_sequence();
    let mut all = step(engine, [given(sequence, prompt)]).to_vec();
    for token in tokens {
        all.extend(step(engine, [generated(sequence, token)]));
        assert_eq!(engine.window_layout(), WindowLayout::Causal);
    }
    engine.release_sequence(sequence).expect("exists");
    all
}

/// A sequence whose cells start behind others, or are in four places among them.
fn placed(engine: &mut Engine, layout: WindowLayout) -> SequenceId {
    let sequence = engine.create_sequence();
    let pieces: &[usize] = match layout {
        WindowLayout::Causal => &[],
        WindowLayout::Span => &[0],
        WindowLayout::Map => &[7, 30, 46],
    };
    for &cells in pieces {
        engine.reserve(sequence, cells).expect("cells");
        let other = engine.create_sequence();
        engine.reserve(other, 5).expect("cells");
    }
    let all = PROMPT as usize + GENERATED.len();
    engine.reserve(sequence, all).expect("cells");
    sequence
}

/// Sequences of the same tokens side by side, their prompts in chunks: the logits of each.
fn beside<const N: usize>(
    engine: &mut Engine,
    layouts: [WindowLayout; N],
    rows: usize,
) -> [Bits; N] {
    let sequences = layouts.map(|layout| placed(engine, layout));
    // The one that names the most serves all.
    let layout = layouts
        .into_iter()
        .max_by_key(|layout| layout.input_width());
    let mut last = [const { Vec::new() }; N];
    for tokens in text(PROMPT).chunks(rows) {
        last = step(engine, sequences.map(|id| given(id, tokens)));
    }
    assert_eq!(Some(engine.window_layout()), layout);
    let mut all = last.map(|logits| vec![logits]);
    for token in &GENERATED {
        let logits = step(engine, sequences.map(|id| generated(id, token)));
        assert_eq!(Some(engine.window_layout()), layout);
        for (all, logits) in all.iter_mut().zip(logits) {
            all.push(logits);
        }
    }
    all
}

#[test]
fn cells_in_one_place_and_in_several_give_equal_bits() {
    if !has_device() {
        return;
    }
    use WindowLayout::{Causal, Map, Span};
    for (model, format) in [
        ("tiny-qwen3-q4_k", KvFormat::F16),
        ("tiny-llama-q4_k", KvFormat::Q8_0),
    ] {
        let options = EngineOptions {
            ubatch: PROMPT as usize,
            ..with_format(LAYERS, format)
        };
        let load = || load(model, &options);
        let prompt = text(PROMPT);
        let expected = alone(&mut load(), &prompt, &GENERATED);
        assert_as_on_the_cpu(&expected, model, &options, &prompt, &GENERATED);
        let what = format!("{model}, {format:?}");
        let [behind] = beside(&mut load(), [Span], 41);
        assert_eq!(behind, expected, "{what}");
        let both = [expected.clone(), expected];
        assert_eq!(beside(&mut load(), [Causal, Map], 30), both, "{what}");
    }
}

const PARTS: [(usize, KvFormat); 2] = [(LAYERS, KvFormat::Q8_0), (1, KvFormat::F32)];

#[test]
fn a_fork_goes_on_as_if_it_had_computed_its_prefix() {
    if !has_device() {
        return;
    }
    for (layers, format) in PARTS {
        let mut engine = load("tiny-qwen3-q4_k", &with_format(layers, format));
        let tokens = text(40);
        let rest = [7, 8, 9, 200, 11];
        let whole = [&tokens[..21], &rest].concat();
        let of_parent = alone(&mut engine, &tokens, &GENERATED);
        let of_child = alone(&mut engine, &whole, &GENERATED);

        let parent = engine.create_sequence();
        step(&mut engine, [given(parent, &tokens)]);
        let free = engine.free_cells();
        let child = engine.fork_sequence(parent, 21).expect("a prefix");
        assert_eq!(engine.free_cells(), free, "shared rows take no cells");
        let [a, b] = step(
            &mut engine,
            [given(child, &rest), generated(parent, &GENERATED[0])],
        );
        assert_eq!([&a, &b], [&of_child[0], &of_parent[1]]);
        // Cells in turn, more often than a window has runs: their own rows are gathered, the shared ones stay.
        for (i, token) in GENERATED[..5].iter().enumerate() {
            let chunks = [
                generated(child, token),
                generated(parent, &GENERATED[i + 1]),
            ];
            let [a, b] = step(&mut engine, chunks);
            assert_eq!(engine.window_layout(), WindowLayout::Map);
            assert_eq!([&a, &b], [&of_child[i + 1], &of_parent[i + 2]]);
        }
        engine.release_sequence(parent).expect("exists");
        let last = step(&mut engine, [generated(child, &GENERATED[5])]);
        assert_eq!(last[..], of_child[6..]);
        assert_eq!(engine.free_cells(), engine.cells() - whole.len() - 6);
    }
}

#[test]
fn sequences_that_took_turns_in_the_cells_are_gathered() {
    if !has_device() {
        return;
    }
    use WindowLayout::{Map, Span};
    for (layers, format) in PARTS {
        let mut engine = load("tiny-qwen3-q4_k", &with_format(layers, format));
        let tokens = text(9);
        let expected = alone(&mut engine, &tokens, &GENERATED);
        let ids = [0; 2].map(|_| engine.create_sequence());
        for id in ids {
            step(&mut engine, [given(id, &tokens)]);
        }
        // A cell in turn cuts both windows until they would have five runs.
        let layouts = [Map, Map, Map, Span, Span, Span];
        for ((token, expected), layout) in GENERATED.iter().zip(&expected[1..]).zip(layouts) {
            for id in ids {
                let [logits] = step(&mut engine, [generated(id, token)]);
                assert_eq!(engine.window_layout(), layout);
                assert_eq!(logits, *expected);
            }
        }
    }
}
