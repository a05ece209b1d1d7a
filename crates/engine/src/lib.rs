//! Loading, prefill, decode and sampling.
//!
//! An [`Engine`] is a loaded model with any number of sequences of tokens, which grow together by
//! [`Engine::step`]. A [`Session`] is one sequence that has the engine to itself: it grows by
//! [`Session::prefill`] and [`Session::decode`], and [`Session::generate`] continues a prompt with text.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//!
//! use minfer_engine::{Engine, EngineOptions, GenerateOptions};
//! use minfer_text::EncodeOptions;
//!
//! let mut engine = Engine::load("model.gguf", &EngineOptions::default())?;
//! let beginning = EncodeOptions { parse_special: false, add_bos: true };
//! let prompt = engine.tokenizer().encode("Once upon a time", beginning);
//! let mut session = engine.session();
//! let finish = session.generate(&prompt, GenerateOptions::default())?.run(|text| {
//!     print!("{text}");
//!     ControlFlow::Continue(())
//! })?;
//! println!("\n{:?}", finish.reason);
//! # Ok::<(), minfer_engine::Error>(())
//! ```

mod batch;
mod bench;
mod config;
mod conversation;
mod debug_logits;
mod device;
mod draft;
mod engine;
mod error;
mod generate;
mod memory;
mod options;
mod plans;
pub mod sampling;
mod scheduler;
mod sequences;
mod session;
pub mod session_file;
mod step;

pub use bench::{Bench, ParallelBench, ParallelSample};
pub use config::{Config, ConfigError, Setting, kv_format_name, parse_gpu_layers, parse_kv_format};
pub use conversation::{
    Answer, Conversation, ConversationOptions, ConversationStats, Message, MessageRole, Resumed,
    SessionSaved, TurnReport,
};
pub use debug_logits::{DebugLogits, logsumexp};
pub use device::{
    CpuDevice, DeviceChoice, MetalDevice, MetalSettings, OffloadError, Placement, Spread,
    metal_devices, spread,
};
pub use draft::{DraftMethod, DraftOptions};
pub use engine::{Engine, LoadProgress};
pub use error::Error;
pub use generate::{Event, Finish, FinishReason, GenerateOptions, Generator, Phase};
pub use memory::{KvBudget, kv_bytes};
pub use minfer_graph::SequenceId;
pub use minfer_metal::device::DeviceInfo;
pub use options::{DEFAULT_N_CTX, EngineOptions};
pub use scheduler::{Request, RequestId, Scheduler, SchedulerOptions, Statistics};
pub use session::Session;
pub use step::{Chunk, Role, Wanted};
