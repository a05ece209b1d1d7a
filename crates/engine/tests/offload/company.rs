//! A row's bits depend on its role and position alone, on the device and where it hands over to the CPU.

use minfer_engine::{Chunk, Engine, EngineOptions, Role, SequenceId, Wanted};
use minfer_graph::{KvFormat, WindowLayout};

use crate::support::{
    Bits, LAYERS, assert_as_on_the_cpu, bits, has_device, load, text, with_format,
};

/// More than one tile of keys, and a rest.
const PROMPT: u32 = 70;
/// More keys than the most chunks of a window have with one block each.
const LONG: u32 = 16 * 32 + 9;
const GENERATED: [u32; 4] = [5, 250, 5, 17];

/// A sequence that adds some rows to every step, with a few tokens before them.
struct Companion {
    sequence: SequenceId,
    tokens: Vec<u32>,
    role: Role,
}

impl Companion {
    fn new(engine: &mut Engine, rows: u32, role: Role) -> Self {
        let sequence = engine.create_sequence();
        let tokens: Vec<u32> = (0..rows).map(|i| (i * 13 + rows) % 300).collect();
        let companion = Companion {
            sequence,
            tokens,
            role,
        };
        let before = Chunk {
            role: Role::Prompt,
            ..companion.chunk()
        };
        engine.step(&[before]).expect("room");
        companion
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk {
            sequence: self.sequence,
            tokens: &self.tokens,
            role: self.role,
            logits: Wanted::None,
        }
    }
}

fn step(engine: &mut Engine, others: &[Companion], subject: Chunk<'_>) {
    for other in others {
        engine.truncate_sequence(other.sequence, 2).expect("exists");
    }
    let mut chunks: Vec<Chunk<'_>> = others.iter().map(Companion::chunk).collect();
    chunks.insert(others.len() / 2, subject);
    engine.step(&chunks).unwrap_or_else(|e| panic!("{e}"));
}

/// The prompt in chunks of these rows, over and over, then generated tokens `at_once`.
fn subject(engine: &mut Engine, others: &[Companion], rows: &[usize], at_once: usize) -> Bits {
    let sequence = engine.create_sequence();
    let all = grow(engine, others, sequence, &text(PROMPT), rows, at_once);
    engine.release_sequence(sequence).expect("exists");
    all
}

fn grow(
    engine: &mut Engine,
    others: &[Companion],
    sequence: SequenceId,
    prompt: &[u32],
    rows: &[usize],
    at_once: usize,
) -> Bits {
    let at = others.len() / 2;
    let chunk = |tokens, role, logits| Chunk {
        sequence,
        tokens,
        role,
        logits,
    };
    let mut rest = prompt;
    for &rows in rows.iter().cycle() {
        let (tokens, after) = rest.split_at(rows.min(rest.len()));
        step(engine, others, chunk(tokens, Role::Prompt, Wanted::Last));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let mut all = vec![bits(engine.logits(at, 0))];
    for tokens in GENERATED.chunks(at_once) {
        step(engine, others, chunk(tokens, Role::Generated, Wanted::All));
        all.extend((0..tokens.len()).map(|row| bits(engine.logits(at, row))));
    }
    all
}

fn companions(engine: &mut Engine) -> [Companion; 3] {
    [
        (9, Role::Prompt),
        (1, Role::Generated),
        (3, Role::Generated),
    ]
    .map(|(rows, role)| Companion::new(engine, rows, role))
}

fn check(model: &str, layers: usize, format: KvFormat) {
    let mut engine = load(model, &with_format(layers, format));
    let alone = subject(&mut engine, &[], &[64], 1);
    assert!(alone[0].iter().any(|&bits| bits != alone[0][0]));
    let what = format!("{model}, {layers} layers, {format:?}");
    let chunked = subject(&mut engine, &[], &[33, 1, 7], 3);
    assert_eq!(chunked, alone, "{what}: in chunks");
    let others = companions(&mut engine);
    for (rows, at_once) in [(&[40][..], 1), (&[20, 3], 2)] {
        let beside = subject(&mut engine, &others, rows, at_once);
        assert_eq!(beside, alone, "{what}: in company, chunks of {rows:?}");
    }
}

#[test]
fn equal_bits_in_chunks_and_in_company() {
    if !has_device() {
        return;
    }
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        check("tiny-qwen3-q4_k", LAYERS, format);
    }
    check("tiny-llama-q4_k", LAYERS, KvFormat::F16);
}

#[test]
fn equal_bits_with_small_blocks_and_without() {
    if !has_device() {
        return;
    }
    check("tiny-qwen2-q5_0", LAYERS, KvFormat::F16);
    check("tiny-qwen2-bf16", LAYERS, KvFormat::F32);
}

/// Its last rows in chunks and in company, behind a prefix that is shared.
#[test]
fn equal_bits_of_a_long_prompt_whole_and_in_parts() {
    if !has_device() {
        return;
    }
    const MODEL: &str = "tiny-llama-q4_k";
    const SHARED: usize = 400;
    let options = EngineOptions {
        n_ctx: Some(LONG as usize + 32),
        ubatch: LONG as usize,
        ..with_format(LAYERS, KvFormat::F16)
    };
    let mut engine = load(MODEL, &options);
    let prompt = text(LONG);
    let whole = engine.create_sequence();
    let alone = grow(&mut engine, &[], whole, &prompt, &[prompt.len()], 1);
    assert_as_on_the_cpu(&alone, MODEL, &options, &prompt, &GENERATED);
    let others = companions(&mut engine);
    let sequence = engine.fork_sequence(whole, SHARED).expect("a prefix");
    let rest = &prompt[SHARED..];
    let found = grow(&mut engine, &others, sequence, rest, &[80, 3, 7], 2);
    assert_eq!(engine.window_layout(), WindowLayout::Map);
    assert_eq!(found, alone);
}

#[test]
fn equal_bits_where_the_cpu_takes_over() {
    if !has_device() {
        return;
    }
    for format in [KvFormat::F32, KvFormat::Q8_0] {
        check("tiny-qwen2-q4_k", 1, format);
    }
}
