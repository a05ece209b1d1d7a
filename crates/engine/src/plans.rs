//! Which graphs an engine plans.

use minfer_graph::{GraphParams, KvFormat, WindowLayout};

use crate::EngineOptions;

/// Capacities of an engine's plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plans {
    /// Parameters of every plan but for its capacities and its window.
    pub base: GraphParams,
    /// Most tokens of a step.
    pub max_rows: usize,
    /// Most rows of logits of a step.
    pub max_logits: usize,
    /// Whether steps of generated rows alone have plans of their own, which a device computes in fewer passes.
    pub fuses_decode: bool,
}

impl Plans {
    /// Plans of an engine that runs on a device, or not.
    pub fn new(
        options: &EngineOptions,
        n_ctx: usize,
        kv_format: KvFormat,
        on_device: bool,
    ) -> Self {
        let max_logits = options.parallel * (1 + options.draft);
        Plans {
            base: GraphParams {
                max_tokens: 1,
                max_outputs: 1,
                window: WindowLayout::Causal,
                kv_format,
                generated_only: false,
                fusion: options.fusion,
            },
            max_rows: options.ubatch.min(n_ctx).max(max_logits),
            max_logits,
            fuses_decode: on_device,
        }
    }

    /// Of a step of `tokens` rows. `generated_only` says that none of them belongs to a prompt.
    pub fn params(&self, tokens: usize, window: WindowLayout, generated_only: bool) -> GraphParams {
        let (max_tokens, max_outputs) = match tokens {
            1 => (1, 1),
            _ => (self.max_rows, self.max_logits),
        };
        GraphParams {
            max_tokens,
            max_outputs,
            window,
            generated_only: generated_only && self.fuses_decode,
            ..self.base
        }
    }

    /// Of every step there can be.
    pub fn all(&self) -> Vec<GraphParams> {
        let mut all = Vec::new();
        for window in [WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map] {
            for tokens in [self.max_rows, 1] {
                for generated_only in [false, true] {
                    let params = self.params(tokens, window, generated_only);
                    if !all.contains(&params) {
                        all.push(params);
                    }
                }
            }
        }
        all
    }
}
