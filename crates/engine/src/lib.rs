//! Loading, prefill, decode and sampling.
//!
//! An [`Engine`] is a loaded model. A [`Session`] is a sequence of tokens on it, which grows by
//! [`Session::prefill`] and [`Session::decode`]; [`Session::generate`] continues a prompt with text.

mod batch;
mod bench;
mod config;
mod debug_logits;
mod engine;
mod error;
mod generate;
mod memory;
mod options;
pub mod sampling;
mod session;

pub use bench::Bench;
pub use config::{Config, ConfigError, Setting, kv_format_name, parse_kv_format};
pub use debug_logits::{DebugLogits, logsumexp};
pub use engine::{Engine, LoadProgress};
pub use error::Error;
pub use generate::{Event, Finish, FinishReason, GenerateOptions, Generator, Phase};
pub use memory::kv_bytes;
pub use options::{DEFAULT_N_CTX, EngineOptions};
pub use session::Session;
