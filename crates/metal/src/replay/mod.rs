//! Replay bundles: dispatches with the bytes they read and left, to be run and compared elsewhere.
//!
//! [`Recorder`] is a device around another one that writes a bundle; [`Bundle`] reads one and runs it on any
//! device. `docs/replay-bundles.md` describes the files, for executors that are not this one.

mod bundle;
mod commands;
mod compare;
mod error;
mod format;
mod recorder;
mod run;
mod writer;

pub use bundle::Bundle;
pub use compare::{Comparison, Difference, Floats};
pub use error::ReplayError;
pub use format::{
    Binding, Constant, ConstantType, Description, FORMAT, GridUnit, HexBytes, Index, InlineValue,
    Launch, Memory, Role, ThreadgroupMemory,
};
pub use recorder::{
    RecordedLibrary, RecordedPipeline, Recorder, RecorderBlit, RecorderCommands, RecorderCompute,
};
pub use run::Outcome;
