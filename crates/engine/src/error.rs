//! What can go wrong between a file and its tokens.

use minfer_cpu::IsaError;
use minfer_graph::{ArenaError, GraphError, KvShapeError, SequenceId};
use minfer_model::ModelError;
use minfer_text::TemplateError;

use crate::device::OffloadError;
use crate::sampling::{LogitError, ParamError};
use crate::session_file::SessionFileError;

/// A failure of the engine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model file is unusable.
    #[error(transparent)]
    Gguf(Box<minfer_gguf::Error>),
    /// The file describes a model that cannot be run.
    #[error(transparent)]
    Model(Box<ModelError>),
    /// The vocabulary is unusable.
    #[error(transparent)]
    Text(Box<minfer_text::Error>),
    /// The chat template is unusable, or refuses a conversation.
    #[error(transparent)]
    Template(Box<TemplateError>),
    /// The compute graph could not be built or run.
    #[error(transparent)]
    Graph(Box<GraphError>),
    /// A device cannot run what it was asked to.
    #[error(transparent)]
    Offload(Box<OffloadError>),
    /// A session file cannot be written or used.
    #[error(transparent)]
    SessionFile(Box<SessionFileError>),
    /// The KV cache has no place for a row, or a sequence is not what it was taken for.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A step names a sequence in two chunks.
    #[error("{sequence} is named twice in one step")]
    SequenceTwice {
        /// The sequence.
        sequence: SequenceId,
    },
    /// A step is larger than the graph it runs in.
    #[error("a step of {value} {name} is larger than the {most} it may have")]
    StepSize {
        /// What there is too much of.
        name: &'static str,
        /// How much there is.
        value: usize,
        /// How much there may be.
        most: usize,
    },
    /// The instruction set asked for is not there.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// The system refused a compute thread.
    #[error("cannot start a compute thread: {0}")]
    Threads(#[source] std::io::Error),
    /// A sampling parameter is out of range.
    #[error(transparent)]
    SamplerParams(#[from] ParamError),
    /// The model computed logits that no token can be chosen from.
    #[error("after {position} tokens: {source}")]
    Logits {
        /// Tokens in the context.
        position: usize,
        /// What is wrong with them.
        source: LogitError,
    },
    /// An engine option is out of range.
    #[error("{name} is {value}, but must be {expected}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: usize,
        /// The accepted values.
        expected: &'static str,
    },
    /// Drafts longer than what the engine was made to verify.
    #[error("drafts of {draft} tokens are asked for, but the engine verifies at most {most}")]
    DraftTooLong {
        /// Tokens asked for.
        draft: usize,
        /// The engine's [`draft`](crate::EngineOptions::draft).
        most: usize,
    },
    /// A request to a scheduler, which guesses nothing ahead, asks for drafts.
    #[error("drafts of {draft} tokens are asked for, but a scheduler drafts nothing")]
    DraftScheduled {
        /// Tokens asked for.
        draft: usize,
    },
    /// Lengths of n-grams that nothing can be looked up with.
    #[error(
        "n-grams of {shortest} to {longest} tokens cannot be looked up: 1 <= shortest <= longest <= 16"
    )]
    NgramLengths {
        /// Fewest tokens.
        shortest: usize,
        /// Most tokens.
        longest: usize,
    },
    /// The KV cache is larger than the memory that is left.
    #[error(
        "a context of {n_ctx} tokens needs {needed} bytes of KV cache, but only {available} bytes of \
         memory are available: at most {largest} tokens fit"
    )]
    KvMemory {
        /// Context length asked for.
        n_ctx: usize,
        /// Bytes of its KV cache.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// Longest context that fits.
        largest: u64,
    },
    /// The KV format cannot hold this model's rows.
    #[error("the KV format {format} does not fit this model, use f16 or f32: {source}")]
    KvFormat {
        /// The format.
        format: &'static str,
        /// The rule and the values that break it.
        source: KvShapeError,
    },
    /// A prompt, with what is in the context already, does not fit the context.
    #[error(
        "the prompt has {prompt} tokens, but {} of the context's {n_ctx} are left",
        n_ctx.saturating_sub(*used)
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens already in the context.
        used: usize,
        /// Context length.
        n_ctx: usize,
    },
    /// The host state of a session file is not that of a conversation, or could not be written as such.
    #[error("this is not a saved conversation: {reason}")]
    SavedConversation {
        /// What is wrong with it.
        reason: String,
    },
    /// No token can be appended.
    #[error("the context of {n_ctx} tokens is full")]
    ContextFull {
        /// Context length.
        n_ctx: usize,
    },
    /// A prompt does not fit the KV cache, even when no other request is in it.
    #[error("the prompt needs {needed} cells of the KV cache, of which {free} are free")]
    CacheFull {
        /// Cells it needs.
        needed: usize,
        /// Cells it could have.
        free: usize,
    },
    /// A step of a scheduler failed, and with it all requests in it.
    #[error("a step with {requests} requests failed: {source}")]
    Step {
        /// Requests that took part.
        requests: usize,
        /// Why it failed.
        source: std::sync::Arc<Error>,
    },
    /// A prompt without tokens has no last row to continue from.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A token id that the model does not have.
    #[error("token {token} at index {index} is not below the vocabulary size {n_vocab}")]
    UnknownToken {
        /// The id.
        token: u32,
        /// Its index among the tokens given.
        index: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The tokenizer and the model disagree about the vocabulary.
    #[error("the tokenizer has {tokenizer} tokens, but the model computes logits for {model}")]
    VocabularySize {
        /// Tokens in the tokenizer's list.
        tokenizer: usize,
        /// Rows of the embedding.
        model: usize,
    },
}

/// Boxed, so that a `Result` stays small where nothing goes wrong.
macro_rules! from_boxed {
    ($($variant:ident($error:ty)),* $(,)?) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Error::$variant(Box::new(error))
            }
        })*
    };
}

from_boxed!(
    Gguf(minfer_gguf::Error),
    Model(ModelError),
    Text(minfer_text::Error),
    Template(TemplateError),
    Graph(GraphError),
    Offload(OffloadError),
    SessionFile(SessionFileError),
);
