//! Compute graph: IR, builder, planning, execution across backends.

mod backend;
mod builder;
mod error;
mod ir;
mod kv;
mod weights;

pub use backend::{Backend, BackendError, BufferId, KvRegion, Operand, RowCount, StepRows, Task};
pub use builder::{AttentionHeads, GraphBuilder, LayerScope};
pub use error::GraphError;
pub use ir::{
    Attention, DType, FusedQkv, Fusion, Graph, GraphParams, Input, MAX_WINDOW_RUNS, Node, NodeId,
    Norm, Op, Rope, RopeStyle, Rows, WeightId, WindowLayout,
};
pub use kv::{KvFormat, KvLayout, KvShape};
pub use weights::{WeightCatalog, WeightInfo};
