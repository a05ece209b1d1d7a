//! Tokenizers, chat templates and incremental detokenization from GGUF.
//!
//! A [`Tokenizer`] turns text into token ids with the vocabulary of a GGUF file, a [`Detokenizer`] turns
//! generated ids back into text as they come, and [`StopStrings`] ends that text at a stop string. A
//! [`ChatTemplate`] renders a conversation as the model's author laid it out; [`render_chat`] keeps what a
//! user wrote from becoming special tokens, and its [`ChatText`] is encoded whole ([`encode_chat`]) or in pieces
//! as the conversation grows.

mod bpe;
mod byte_alphabet;
mod chat_text;
mod detokenize;
mod end_of_generation;
mod error;
mod pretokenize;
mod prompt;
mod special;
mod spm;
mod stop;
mod template;
mod tokenizer;
#[cfg(test)]
mod toy;
mod vocabulary;

pub use chat_text::{ChatText, EncodedChat, SpecialToken};
pub use detokenize::Detokenizer;
pub use error::Error;
pub use prompt::{encode_chat, render_chat};
pub use stop::{StopMatcher, StopStrings, StopText};
pub use template::{ChatTemplate, RenderTime, TemplateError};
pub use tokenizer::{EncodeOptions, Tokenizer};
pub use vocabulary::{TokenType, TokenizerModel, Vocabulary};
