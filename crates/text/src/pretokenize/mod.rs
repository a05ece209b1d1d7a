//! Splitting text into words, within which BPE merges.
//!
//! Each pre-tokenizer is a regular expression in the model's original tokenizer. They are written out by
//! hand here, which is linear in the text whatever it holds; the expression stands beside each.

mod class;
mod gpt2;
mod llama3;

use class::Class;

/// Names of the pre-tokenizers that are implemented (`tokenizer.ggml.pre`).
pub const KNOWN: [&str; 9] = [
    "default",
    "gpt-2",
    "smollm",
    "qwen2",
    "deepseek-r1-qwen",
    "qwen35",
    "llama-bpe",
    "llama3",
    "llama-v3",
];

/// How text is split into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreTokenizer {
    /// Punctuation, then GPT-2's words, then digits by three.
    Default,
    /// GPT-2's words.
    Gpt2,
    /// Each digit alone, GPT-2's words between them.
    SmolLm,
    /// Llama 3's words and its relatives.
    Llama3(llama3::Words),
}

impl PreTokenizer {
    /// The pre-tokenizer that a file calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "default" => PreTokenizer::Default,
            "gpt-2" => PreTokenizer::Gpt2,
            "smollm" => PreTokenizer::SmolLm,
            "qwen2" | "deepseek-r1-qwen" => PreTokenizer::Llama3(llama3::QWEN2),
            "qwen35" => PreTokenizer::Llama3(llama3::QWEN35),
            "llama-bpe" | "llama3" | "llama-v3" => PreTokenizer::Llama3(llama3::LLAMA3),
            _ => return None,
        })
    }

    /// Whether a word that is a token is taken whole, without merging.
    pub fn takes_whole_words(self) -> bool {
        self == PreTokenizer::Llama3(llama3::LLAMA3)
    }

    /// Whether a vocabulary with this pre-tokenizer starts texts with BOS if the file does not say.
    pub fn adds_bos(self) -> bool {
        self == PreTokenizer::Llama3(llama3::LLAMA3)
    }

    /// Calls `emit` with each word; the words joined are `text`.
    pub fn split<'t>(self, text: &'t str, emit: &mut impl FnMut(&'t str)) {
        match self {
            PreTokenizer::Gpt2 => gpt2::split(text, emit),
            PreTokenizer::Llama3(words) => words.split(text, emit),
            PreTokenizer::SmolLm => {
                let is_number = |c| Class::of(c).is_number();
                split_runs(text, is_number, |run, matched| {
                    if matched {
                        run.split_inclusive(|_| true).for_each(&mut *emit);
                    } else {
                        gpt2::split(run, emit);
                    }
                });
            }
            PreTokenizer::Default => split_default(text, emit),
        }
    }
}

/// Four expressions, each applied to the pieces of the one before: `[\p{P}\$\+<=>\^~\|]+`, GPT-2's,
/// `\p{N}+`, `[0-9][0-9][0-9]`.
fn split_default<'t>(text: &'t str, emit: &mut impl FnMut(&'t str)) {
    let is_mark = |c| Class::of(c).is_punctuation() || "$+<=>^~|".contains(c);
    split_runs(text, is_mark, |run, _| {
        gpt2::split(run, &mut |word| {
            split_runs(
                word,
                |c| Class::of(c).is_number(),
                |part, _| split_triples(part, emit),
            );
        });
    });
}

/// Splits at each `[0-9][0-9][0-9]`.
fn split_triples<'t>(text: &'t str, emit: &mut impl FnMut(&'t str)) {
    split_runs(
        text,
        |c| c.is_ascii_digit(),
        |mut run, matched| {
            while matched && run.len() > 3 {
                let (triple, rest) = run.split_at(3);
                emit(triple);
                run = rest;
            }
            emit(run);
        },
    );
}

/// Calls `emit` with each maximal run of characters that all satisfy `in_run`, or all do not, and with
/// which of the two.
fn split_runs<'t>(
    text: &'t str,
    in_run: impl Fn(char) -> bool,
    mut emit: impl FnMut(&'t str, bool),
) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let matched = in_run(first);
        let end = rest.find(|c| in_run(c) != matched).unwrap_or(rest.len());
        let (run, tail) = rest.split_at(end);
        emit(run, matched);
        rest = tail;
    }
}

/// Length in bytes of the longest prefix of `text` whose characters satisfy `in_run`.
fn run_len(text: &str, in_run: impl Fn(Class) -> bool) -> usize {
    text.find(|c| !in_run(Class::of(c))).unwrap_or(text.len())
}

/// Length of the word at the start of `text`, which begins with whitespace: `\s+(?!\S)|\s+`. The last
/// character of a run stays with the word that follows it, unless it is the only one.
fn whitespace_len(text: &str) -> usize {
    let run = run_len(text, Class::is_space);
    let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
    if run < text.len() && run > last {
        run - last
    } else {
        run
    }
}

#[cfg(test)]
mod tests;
