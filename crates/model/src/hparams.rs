//! Hyperparameters shared by the decoder-only architectures, read from GGUF metadata.

use minfer_gguf::Metadata;

use crate::ModelError;

/// Shape of a decoder-only transformer.
///
/// The metadata keys are those of the GGUF specification, under the architecture's name.
#[derive(Clone, Debug, PartialEq)]
pub struct Hparams {
    /// Transformer blocks (`block_count`).
    pub n_layer: usize,
    /// Positions the model was trained for (`context_length`).
    pub n_ctx_train: usize,
    /// Features of the residual stream (`embedding_length`).
    pub n_embd: usize,
    /// Features inside the feed-forward block (`feed_forward_length`).
    pub n_ff: usize,
    /// Query heads (`attention.head_count`).
    pub n_head: usize,
    /// Key and value heads (`attention.head_count_kv`, default `n_head`).
    pub n_head_kv: usize,
    /// Features per head (`attention.key_length`, default `n_embd / n_head`).
    pub head_dim: usize,
    /// Rotated features per head (`rope.dimension_count`, default `head_dim`).
    pub n_rot: usize,
    /// Base of the rotation frequencies (`rope.freq_base`, default 10000).
    pub rope_freq_base: f32,
    /// Factor on positions: the inverse of a linear `rope.scaling.factor`.
    pub rope_freq_scale: f32,
    /// Epsilon of the norms (`attention.layer_norm_rms_epsilon`).
    pub rms_eps: f32,
}

impl Hparams {
    /// Reads the keys of architecture `arch`.
    ///
    /// # Errors
    /// A missing key, a value of the wrong type, or values no graph can be built from; the error names
    /// the key and the value.
    pub fn from_metadata(arch: &str, metadata: &Metadata) -> Result<Self, ModelError> {
        let keys = Keys { arch, metadata };
        let n_embd = keys.size("embedding_length")?;
        let n_head = keys.size("attention.head_count")?;
        let head_dim = keys
            .optional_size("attention.key_length")?
            .unwrap_or(n_embd / n_head);
        let hparams = Hparams {
            n_layer: keys.size("block_count")?,
            n_ctx_train: keys.size("context_length")?,
            n_embd,
            n_ff: keys.size("feed_forward_length")?,
            n_head,
            n_head_kv: keys
                .optional_size("attention.head_count_kv")?
                .unwrap_or(n_head),
            head_dim,
            n_rot: keys
                .optional_size("rope.dimension_count")?
                .unwrap_or(head_dim),
            rope_freq_base: keys.positive("rope.freq_base")?.unwrap_or(10_000.0),
            rope_freq_scale: keys.rope_freq_scale()?,
            rms_eps: metadata.require_f32(&keys.name("attention.layer_norm_rms_epsilon"))?,
        };
        keys.check(&hparams)?;
        Ok(hparams)
    }

    /// Features of all query heads together.
    pub fn n_embd_q(&self) -> usize {
        self.n_head * self.head_dim
    }

    /// Features of all key heads together, and of all value heads.
    pub fn n_embd_kv(&self) -> usize {
        self.n_head_kv * self.head_dim
    }
}

struct Keys<'a> {
    arch: &'a str,
    metadata: &'a Metadata,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.arch)
    }

    fn bad(&self, key: &str, value: impl ToString, reason: &'static str) -> ModelError {
        ModelError::BadValue {
            key: self.name(key),
            value: value.to_string(),
            reason,
        }
    }

    /// A required count of at least 1.
    fn size(&self, key: &str) -> Result<usize, ModelError> {
        let value = self.metadata.require_u32(&self.name(key))?;
        self.at_least_one(key, value)
    }

    fn optional_size(&self, key: &str) -> Result<Option<usize>, ModelError> {
        match self.metadata.get_u32(&self.name(key))? {
            Some(value) => self.at_least_one(key, value).map(Some),
            None => Ok(None),
        }
    }

    fn at_least_one(&self, key: &str, value: u32) -> Result<usize, ModelError> {
        if value == 0 {
            return Err(self.bad(key, value, "must be at least 1"));
        }
        Ok(value as usize)
    }

    fn positive(&self, key: &str) -> Result<Option<f32>, ModelError> {
        match self.metadata.get_f32(&self.name(key))? {
            Some(value) if !(value.is_finite() && value > 0.0) => {
                Err(self.bad(key, value, "must be finite and above 0"))
            }
            value => Ok(value),
        }
    }

    /// Linear scaling, under its present and its historical key. Llama 3 scaling needs none: the file
    /// carries it as the tensor `rope_freqs.weight`.
    fn rope_freq_scale(&self) -> Result<f32, ModelError> {
        let kind = self.metadata.get_str(&self.name("rope.scaling.type"))?;
        match kind {
            None | Some("linear") => {}
            Some("none") => return Ok(1.0),
            Some(other) => {
                let reason = "only none and linear are supported";
                return Err(self.bad("rope.scaling.type", other, reason));
            }
        }
        let factor = match self.positive("rope.scaling.factor")? {
            Some(factor) => factor,
            None => self.positive("rope.scale_linear")?.unwrap_or(1.0),
        };
        Ok(1.0 / factor)
    }

    fn check(&self, h: &Hparams) -> Result<(), ModelError> {
        let head_dim = h.head_dim;
        if !h.n_head.is_multiple_of(h.n_head_kv) {
            let reason = "must divide attention.head_count";
            return Err(self.bad("attention.head_count_kv", h.n_head_kv, reason));
        }
        if h.n_rot > head_dim || !h.n_rot.is_multiple_of(2) {
            let reason = "must be even and no larger than the head dimension";
            return Err(self.bad("rope.dimension_count", h.n_rot, reason));
        }
        match self.optional_size("attention.value_length")? {
            Some(value) if value != head_dim => {
                let reason = "must equal attention.key_length";
                Err(self.bad("attention.value_length", value, reason))
            }
            _ => Ok(()),
        }
    }
}
