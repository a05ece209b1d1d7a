//! A row's bits depend on its role and position alone: the matrix of weight types, KV formats, chunkings,
//! companions and thread counts.

use minfer_engine::{Chunk, Engine, EngineOptions, Role, SequenceId, Wanted};
use minfer_graph::KvFormat;
use minfer_testdata::{TINY_MODELS, tiny_model};

const N_CTX: usize = 360;
/// Tokens of the prompt: attention splits the keys of its last ones in two. Then those of its continuation.
const PROMPT: usize = 295;
const GENERATED: [u32; 6] = [5, 250, 5, 17, 99, 3];
/// Most tokens of a companion that is to stay short.
const SHORT: usize = 96;

/// Rows of the first prompt chunks, and of the later ones, over and over.
const CHUNKINGS: [(&[usize], &[usize]); 5] = [
    (&[], &[PROMPT]),
    (&[250], &[1]),
    (&[240], &[7]),
    (&[], &[16]),
    (&[], &[3, 20, 1, 9, 200]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Companions {
    None,
    /// A prompt longer than the subject's in chunks of five rows, a decode, and a verification of three
    /// rows; the subject's cells are in four places among theirs.
    Mixed,
    /// Fifteen decodes.
    Decodes,
}

const COMPANIONS: [Companions; 3] = [Companions::None, Companions::Mixed, Companions::Decodes];

/// Bits of the logits after the prompt and after each generated token.
type Bits = Vec<Vec<u32>>;

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn prompt() -> Vec<u32> {
    (0..PROMPT as u32).map(|i| (i * 37 + 11) % 300).collect()
}

fn load(name: &str, format: KvFormat, parallel: usize, threads: usize) -> Engine {
    let options = EngineOptions {
        n_ctx: Some(N_CTX),
        parallel,
        draft: 1,
        kv_format: Some(format),
        threads: Some(threads),
        ..EngineOptions::default()
    };
    Engine::load(tiny_model(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn alone(name: &str, format: KvFormat) -> Bits {
    let mut engine = load(name, format, 1, 1);
    let mut session = engine.session();
    session.prefill(&prompt()).expect("room");
    let mut all = vec![bits(session.logits())];
    for token in GENERATED {
        session.decode(token).expect("room");
        all.push(bits(session.logits()));
    }
    all
}

/// A sequence that adds some rows to every step.
struct Companion {
    sequence: SequenceId,
    tokens: Vec<u32>,
    role: Role,
    /// Most tokens it may have.
    most: usize,
}

impl Companion {
    fn new(engine: &mut Engine, rows: usize, role: Role, salt: u32) -> Self {
        let sequence = engine.create_sequence();
        // Some context, of another length for each.
        let (len, most) = match role {
            Role::Prompt => (PROMPT as u32 + 10, N_CTX),
            Role::Generated => (5 + salt, SHORT),
        };
        engine.reserve(sequence, most).expect("cells");
        let before: Vec<u32> = (0..len).map(|i| (i * 31 + salt * 7) % 300).collect();
        let chunk = Chunk {
            sequence,
            tokens: &before,
            role: Role::Prompt,
            logits: Wanted::None,
        };
        engine.step(&[chunk]).expect("room");
        Companion {
            sequence,
            tokens: (0..rows as u32).map(|i| (i * 13 + salt) % 300).collect(),
            role,
            most,
        }
    }

    fn chunk(&self) -> Chunk<'_> {
        Chunk {
            sequence: self.sequence,
            tokens: &self.tokens,
            role: self.role,
            logits: match self.role {
                Role::Prompt => Wanted::None,
                Role::Generated => Wanted::All,
            },
        }
    }

    /// Forgets its tokens rather than exceed the context.
    fn stay_within(&self, engine: &mut Engine) {
        if engine.tokens(self.sequence).len() + self.tokens.len() > self.most {
            let kept = self.most - 50;
            engine
                .truncate_sequence(self.sequence, kept)
                .expect("exists");
            engine
                .reserve(self.sequence, self.most - kept)
                .expect("cells");
        }
    }
}

/// The subject, whose cells are reserved, and its companions.
fn assemble(engine: &mut Engine, companions: Companions) -> (SequenceId, Vec<Companion>) {
    let subject = engine.create_sequence();
    let mut others = Vec::new();
    match companions {
        Companions::None => {}
        Companions::Mixed => {
            let shapes = [
                (5, Role::Prompt),
                (1, Role::Generated),
                (3, Role::Generated),
            ];
            for (salt, (rows, role)) in (1..).zip(shapes) {
                engine.reserve(subject, 70 * salt as usize).expect("cells");
                others.push(Companion::new(engine, rows, role, salt));
            }
        }
        Companions::Decodes => {
            others.extend((0..15).map(|salt| Companion::new(engine, 1, Role::Generated, salt)));
        }
    }
    let rows = PROMPT + GENERATED.len();
    engine.reserve(subject, rows).expect("cells");
    (subject, others)
}

/// Computes a chunk of the subject beside a chunk of each companion, before or after it.
fn step(engine: &mut Engine, others: &[Companion], subject: Chunk<'_>) {
    for other in others {
        other.stay_within(engine);
    }
    let (before, after) = others.split_at(others.len() / 2);
    let mut chunks: Vec<Chunk<'_>> = before.iter().map(Companion::chunk).collect();
    chunks.push(subject);
    chunks.extend(after.iter().map(Companion::chunk));
    engine.step(&chunks).expect("a valid step");
}

fn in_company(engine: &mut Engine, chunking: (&[usize], &[usize]), companions: Companions) -> Bits {
    let (sequence, others) = assemble(engine, companions);
    let index = others.len() / 2;
    let subject = |tokens, role, logits| Chunk {
        sequence,
        tokens,
        role,
        logits,
    };
    let prompt = prompt();
    let mut rest = &prompt[..];
    for &rows in chunking.0.iter().chain(chunking.1.iter().cycle()) {
        let (tokens, after) = rest.split_at(rows.min(rest.len()));
        step(engine, &others, subject(tokens, Role::Prompt, Wanted::Last));
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let mut all = vec![bits(engine.logits(index, 0))];
    // One by one, or verified in chunks of as many rows.
    let at_once = chunking.1[0].min(4);
    for tokens in GENERATED.chunks(at_once) {
        step(
            engine,
            &others,
            subject(tokens, Role::Generated, Wanted::All),
        );
        all.extend((0..tokens.len()).map(|row| bits(engine.logits(index, row))));
    }
    engine.release_sequence(sequence).expect("exists");
    for other in others {
        engine.release_sequence(other.sequence).expect("exists");
    }
    all
}

/// Every chunking with every company for every weight type, the thread count taking turns so that each
/// chunking and each company meets all of them.
fn check(format: KvFormat) {
    let mut cells = 0;
    let mut failed = Vec::new();
    for (m, name) in TINY_MODELS.into_iter().enumerate() {
        let expected = alone(name, format);
        assert!(
            expected[0].iter().any(|&bits| bits != expected[0][0]),
            "{name}"
        );
        let mut engines = [1, 2, 3].map(|threads| load(name, format, 16, threads));
        for (c, chunking) in CHUNKINGS.into_iter().enumerate() {
            for (k, companions) in COMPANIONS.into_iter().enumerate() {
                let turn = (m + c + k) % engines.len();
                let actual = in_company(&mut engines[turn], chunking, companions);
                cells += 1;
                if actual != expected {
                    let threads = turn + 1;
                    failed.push(format!(
                        "{name} {chunking:?} {companions:?} {threads} threads"
                    ));
                }
            }
        }
    }
    println!(
        "{format:?}: {cells} cells = {} models x {} chunkings x {} companies, threads in turn",
        TINY_MODELS.len(),
        CHUNKINGS.len(),
        COMPANIONS.len()
    );
    let count = failed.len();
    assert!(
        failed.is_empty(),
        "{format:?}: {count} of {cells} differ:\n{}",
        failed.join("\n")
    );
}

#[test]
fn equal_bits_in_company_with_f32_rows() {
    check(KvFormat::F32);
}

#[test]
fn equal_bits_in_company_with_f16_rows() {
    check(KvFormat::F16);
}

#[test]
fn equal_bits_in_company_with_q8_0_rows() {
    check(KvFormat::Q8_0);
}
