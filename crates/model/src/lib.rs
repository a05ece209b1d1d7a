//! Model architectures: hyperparameters, weights and graphs.
//!
//! [`Model::load`] reads a GGUF file's metadata, finds the architecture by its name and builds its graph
//! once, so that a missing or misshapen tensor is reported before anything runs.

mod arch;
mod block;
mod error;
mod hparams;

use minfer_gguf::Gguf;
use minfer_graph::{
    Fusion, Graph, GraphBuilder, GraphError, GraphParams, KeyRope, KvFormat, KvLayout, KvShape,
    WeightCatalog, WindowLayout,
};

use arch::Architecture;
pub use error::ModelError;
pub use hparams::Hparams;

/// A model's description: everything but the bytes of its weights.
pub struct Model {
    arch: &'static dyn Architecture,
    hparams: Hparams,
    n_vocab: usize,
    catalog: WeightCatalog,
}

impl Model {
    /// Reads and checks the description of the model in `gguf`.
    ///
    /// # Errors
    /// An unknown architecture, an unusable hyperparameter, a missing, misshapen or unknown tensor; each
    /// error names it.
    pub fn load(gguf: &Gguf) -> Result<Self, ModelError> {
        let metadata = gguf.metadata();
        let name = metadata.require_str("general.architecture")?;
        let arch = arch::find(name).ok_or_else(|| ModelError::UnknownArchitecture {
            name: name.to_owned(),
            supported: arch::names(),
        })?;
        let hparams = Hparams::from_metadata(name, metadata)?;
        // Bounds everything that is sized by the layer count.
        if hparams.n_layer > gguf.tensors().len() {
            return Err(ModelError::BadValue {
                key: format!("{name}.block_count"),
                value: hparams.n_layer.to_string(),
                reason: "the file has fewer tensors than that",
            });
        }
        let mut catalog = WeightCatalog::default();
        for tensor in gguf.tensors() {
            catalog.insert(&tensor.name, tensor.ty, &tensor.shape);
        }
        let n_vocab = catalog.get("token_embd.weight").map_or(0, |w| w.dim(1));
        let model = Model {
            arch,
            hparams,
            n_vocab,
            catalog,
        };
        model.check(gguf)?;
        Ok(model)
    }

    /// Builds the graph once, and refuses tensors that it does not use: a model that has them computes
    /// something else.
    fn check(&self, gguf: &Gguf) -> Result<(), ModelError> {
        let params = GraphParams {
            max_tokens: 1,
            max_outputs: 1,
            window: WindowLayout::Causal,
            kv_format: KvFormat::F32,
            generated_only: false,
            fusion: Fusion::default(),
        };
        let graph = self.build_graph(params, &self.kv_layout(1, KvFormat::F32))?;
        let unused = gguf
            .tensors()
            .iter()
            .find(|tensor| !graph.weights.contains(&tensor.name));
        match unused {
            Some(tensor) => Err(ModelError::UnusedTensor {
                arch: self.arch.name(),
                tensor: tensor.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The model without the layers after the first `count`, which are fewer than it has or all: the same kernels
    /// with less to compute. What it predicts means nothing.
    pub fn first_layers(mut self, count: usize) -> Self {
        self.hparams.n_layer = self.hparams.n_layer.min(count);
        self
    }

    /// Name of the architecture, as in `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        self.arch.name()
    }

    /// The model's shape.
    pub fn hparams(&self) -> &Hparams {
        &self.hparams
    }

    /// Tokens in the vocabulary: rows of the embedding, and logits per output row.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Types and shapes of the weights.
    pub fn catalog(&self) -> &WeightCatalog {
        &self.catalog
    }

    /// KV regions of `cells` cells for every layer.
    pub fn kv_layout(&self, cells: usize, format: KvFormat) -> KvLayout {
        let shape = KvShape {
            cells,
            width: self.hparams.n_embd_kv(),
            head_dim: self.hparams.head_dim,
            format,
        };
        KvLayout::uniform(self.hparams.n_layer, shape)
    }

    /// How the graph rotates keys before it stores them.
    pub fn key_rope(&self) -> KeyRope {
        self.arch.key_rope(&self.hparams, &self.catalog)
    }

    /// The graph for `params`. Its only output is the logits, `[n_vocab, outputs]`.
    ///
    /// # Errors
    /// A missing or misshapen weight, or parameters that do not fit `kv`.
    pub fn build_graph(&self, params: GraphParams, kv: &KvLayout) -> Result<Graph, GraphError> {
        let mut builder = GraphBuilder::new(&self.catalog, params, kv);
        let rope = block::rope(&mut builder, &self.hparams, &self.key_rope())?;
        let logits = self.arch.build(&self.hparams, rope, &mut builder)?;
        builder.output(logits)?;
        Ok(builder.finish())
    }
}
