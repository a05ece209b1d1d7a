//! What can be wrong with the tokenizer tables of a model.

/// A defect of a vocabulary. Every variant names the table and the values observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A metadata key is missing or has the wrong type.
    #[error(transparent)]
    Gguf(#[from] minfer_gguf::Error),
    /// `tokenizer.ggml.model` names a tokenizer that is not implemented.
    #[error(
        "unknown tokenizer model `{model}`; `gpt2` (BPE) and `llama` (SentencePiece) are known"
    )]
    UnknownModel {
        /// The value in the file.
        model: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not implemented.
    #[error("unknown pre-tokenizer `{pre}`; known are {}", crate::pretokenize::KNOWN.join(", "))]
    UnknownPreTokenizer {
        /// The value in the file.
        pre: String,
    },
    /// The vocabulary has no token.
    #[error("`tokenizer.ggml.tokens` is empty")]
    NoTokens,
    /// The vocabulary has more tokens than an id can number.
    #[error("`tokenizer.ggml.tokens` has {found} entries, more than an id can number")]
    TooManyTokens {
        /// Entries in the table.
        found: usize,
    },
    /// A table has another length than the token table.
    #[error("`{table}` has {found} entries for {expected} tokens")]
    TableLength {
        /// The metadata key.
        table: &'static str,
        /// Number of tokens.
        expected: usize,
        /// Entries in the table.
        found: usize,
    },
    /// A table that the tokenizer model needs is missing.
    #[error("tokenizer model `{model}` needs `{table}`, which the file does not have")]
    MissingTable {
        /// The tokenizer model.
        model: &'static str,
        /// The metadata key.
        table: &'static str,
    },
    /// A token type is not one of those defined.
    #[error("`tokenizer.ggml.token_type` is {found} for token {id}; 1 to 6 are defined")]
    TokenType {
        /// The token.
        id: usize,
        /// Its type in the file.
        found: i64,
    },
    /// A score cannot be ordered.
    #[error("`tokenizer.ggml.scores` is not a number for token {id}")]
    Score {
        /// The token.
        id: usize,
    },
    /// Two tokens have the same text.
    #[error("tokens {first} and {second} are both {text:?}")]
    DuplicateToken {
        /// The lower id.
        first: usize,
        /// The higher id.
        second: usize,
        /// The text of both.
        text: String,
    },
    /// A merge is not two texts separated by a space.
    #[error("merge {index} is {merge:?}, not two tokens separated by a space")]
    MergeSyntax {
        /// Position in `tokenizer.ggml.merges`.
        index: usize,
        /// The entry.
        merge: String,
    },
    /// A merge has a part or a result that is not a token.
    #[error("merge {index} ({merge:?}) needs {missing:?}, which is not a token")]
    MergeToken {
        /// Position in `tokenizer.ggml.merges`.
        index: usize,
        /// The entry.
        merge: String,
        /// The text that the vocabulary lacks.
        missing: String,
    },
    /// The id of a special token is outside the vocabulary.
    #[error("`{key}` is {id}, but there are {n_vocab} tokens")]
    SpecialId {
        /// The metadata key.
        key: &'static str,
        /// The id in the file.
        id: u32,
        /// Number of tokens.
        n_vocab: usize,
    },
    /// A byte token is not spelled `<0xNN>`.
    #[error("token {id} is a byte token, but its text {text:?} is not `<0xNN>`")]
    ByteToken {
        /// The token.
        id: usize,
        /// Its text.
        text: String,
    },
    /// A SentencePiece vocabulary can encode neither arbitrary bytes nor unknown characters.
    #[error("byte 0x{byte:02X} has no byte token, and the vocabulary has no unknown token")]
    NoFallback {
        /// The first byte without a token.
        byte: u8,
    },
    /// The special tokens do not fit one automaton.
    #[error("the special tokens cannot be compiled: {reason}")]
    SpecialTokens {
        /// The automaton's explanation.
        reason: String,
    },
}
