//! Compute graph: IR, builder, planning, execution across backends.

mod backend;
mod ir;
mod kv;

pub use backend::{Backend, BackendError, BufferId, KvRegion, Operand, RowCount, StepRows, Task};
pub use ir::{
    Attention, DType, FusedQkv, Fusion, Graph, GraphParams, Input, MAX_WINDOW_RUNS, Node, NodeId,
    Norm, Op, Rope, RopeStyle, Rows, WeightId, WindowLayout,
};
pub use kv::{KvFormat, KvShape};
