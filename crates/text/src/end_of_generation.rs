//! Tokens after which a model has nothing more to say.

/// Spellings that end a turn or a text, whatever a file's special ids say: end of turn, of message, of
/// text, and the padding and file separators that fill-in-the-middle models emit when they are done. The
/// set is llama.cpp's.
const NAMES: [&str; 32] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "<eos>",
    "</s>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "[e~[",
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
];

/// Whether a token spelled `text` ends a generation in the vocabulary that `contains` describes.
pub fn ends_generation(text: &str, contains: impl Fn(&str) -> bool) -> bool {
    match text {
        // The Harmony format ends messages with <|end|>, turns with the other two.
        "<|end|>" => !(contains("<|return|>") && contains("<|call|>")),
        // Vocabularies with this token keep an unrelated </s>.
        "</s>" => !contains("<|tool_response>"),
        // Most tokens are words: the first byte tells.
        _ => text.starts_with(['<', '[', '_']) && NAMES.contains(&text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_end_a_generation() {
        for name in [
            "<|im_end|>",
            "</s>",
            "<|eot_id|>",
            "<|file_sep|>",
            "<|end|>",
        ] {
            assert!(ends_generation(name, |_| false), "{name}");
        }
        for name in ["<|im_start|>", "<s>", "hello", ""] {
            assert!(!ends_generation(name, |_| false), "{name}");
        }
    }

    #[test]
    fn harmony_messages_do_not_end_the_turn() {
        let harmony = |name: &str| ["<|end|>", "<|return|>", "<|call|>"].contains(&name);
        assert!(!ends_generation("<|end|>", harmony));
        assert!(ends_generation("<|return|>", harmony));
    }
}
