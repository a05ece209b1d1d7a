//! What the topology of a graph depends on.

use super::WindowLayout;
use crate::kv::KvFormat;

/// Rewrites that the fusion pass may apply; all on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fusion {
    /// `Mul(Silu(x), y)` to [`crate::Op::SwiGlu`].
    pub swiglu: bool,
    /// Projections to KV store, to [`crate::Op::FusedQkv`].
    pub qkv: bool,
    /// Gate, up and SwiGLU, to [`crate::Op::FusedFfn`].
    pub ffn: bool,
    /// A projection with its bias and residual sum, to [`crate::Op::FusedMatMul`].
    pub residual: bool,
    /// A norm into the one projection that reads it.
    pub norm: bool,
}

impl Fusion {
    /// No rewrite at all.
    pub const NONE: Fusion = Fusion {
        swiglu: false,
        qkv: false,
        ffn: false,
        residual: false,
        norm: false,
    };
}

impl Default for Fusion {
    fn default() -> Self {
        Fusion {
            swiglu: true,
            qkv: true,
            ffn: true,
            residual: true,
            norm: true,
        }
    }
}

/// Everything the topology depends on: equal parameters mean an equal graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphParams {
    /// Most tokens a step of this graph can have.
    pub max_tokens: usize,
    /// Most output rows a step of this graph can have.
    pub max_outputs: usize,
    /// Window layout of every attention.
    pub window: WindowLayout,
    /// Format of the KV regions.
    pub kv_format: KvFormat,
    /// Whether no step of this graph has a prompt row. Some devices fuse more then.
    pub generated_only: bool,
    /// Fusion switches.
    pub fusion: Fusion,
}
