//! The architectures, one file each. A new one is a file here and a line in [`ALL`].

mod llama;
mod qwen2;
mod qwen3;

use minfer_graph::{GraphBuilder, GraphError, KeyRope, NodeId, Rope, WeightCatalog};

use crate::Hparams;

/// How to build the graph of one family of models.
pub(crate) trait Architecture: Sync {
    /// Value of `general.architecture`.
    fn name(&self) -> &'static str;

    /// How queries and keys are rotated, in the graph and when stored keys move to other positions.
    fn key_rope(&self, h: &Hparams, weights: &WeightCatalog) -> KeyRope;

    /// Appends all nodes and returns the logits, `[n_vocab, outputs]`. `rope` is
    /// [`Architecture::key_rope`].
    fn build(
        &self,
        h: &Hparams,
        rope: Rope,
        b: &mut GraphBuilder<'_>,
    ) -> Result<NodeId, GraphError>;
}

const ALL: [&dyn Architecture; 3] = [&llama::Llama, &qwen2::Qwen2, &qwen3::Qwen3];

pub(crate) fn find(name: &str) -> Option<&'static dyn Architecture> {
    ALL.into_iter().find(|arch| arch.name() == name)
}

pub(crate) fn names() -> Vec<&'static str> {
    ALL.iter().map(|arch| arch.name()).collect()
}
