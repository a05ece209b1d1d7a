//! Compute graph: IR, builder, planning, execution across backends.
//!
//! A step goes through `build -> assign -> fuse -> alloc -> execute`; all but the last happen once for
//! each [`GraphParams`].
//!
//! - build: [`GraphBuilder`] appends nodes in execution order and checks every shape.
//! - assign: each node gets the preferred or the first backend that accepts it, for good. From here on
//!   a failure is an error, never another placement.
//! - fuse: groups of nodes become one where the backend gains; the backend accepts the new node first.
//! - alloc: values get buffers by liveness, KV regions are made once and stay, budgets are checked.
//! - execute: [`Executor::run`] checks and writes the inputs, runs each split (consecutive nodes on one
//!   backend) after copying what it needs from other backends, and reads the outputs.
//!
//! Topology is a function of the parameters; tokens, positions, cells and windows are data. The number
//! of rows is data too, up to the capacity in the parameters.

mod alloc;
mod arena;
mod assign;
mod backend;
mod builder;
mod dump;
mod error;
mod estimate;
mod exec;
mod fuse;
mod host_copy;
mod ir;
mod kv;
mod memory;
mod plan;
mod profile;
mod run;
mod schedule;
mod step;
mod trace;
mod weights;

pub use arena::{
    Arena, ArenaError, CellInputs, CellRun, Direction, Rotation, RowCopy, RowEdit, SequenceId,
};
pub use assign::{Preference, layer_of};
pub use backend::{
    Backend, BackendError, BufferId, DeviceWork, KvRegion, Operand, RowCount, StepRows, Task,
};
pub use builder::{AttentionHeads, GraphBuilder, LayerScope};
pub use dump::GraphDump;
pub use error::GraphError;
pub use estimate::buffer_bytes;
pub use exec::Executor;
pub use ir::{
    Attention, DType, FusedMatMul, FusedQkv, Fusion, Graph, GraphParams, Input, MAX_WINDOW_RUNS,
    Node, NodeId, Norm, Op, Rope, RopeStyle, Rows, WeightId, WindowLayout,
};
pub use kv::{KeyRope, KvFormat, KvLayout, KvPart, KvRegions, KvShape, KvShapeError};
pub use memory::MemoryUse;
pub use profile::{DeviceProfile, OpProfile, OpTime};
pub use run::Outputs;
pub use step::StepInputs;
pub use trace::{Trace, TracedValue};
pub use weights::{WeightCatalog, WeightInfo};
