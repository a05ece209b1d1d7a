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

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(on_device: bool) -> Plans {
        let options = EngineOptions {
            parallel: 2,
            ..EngineOptions::default()
        };
        Plans::new(&options, 4096, KvFormat::F32, on_device)
    }

    #[test]
    fn every_step_has_its_plan() {
        for (on_device, count) in [(false, 6), (true, 12)] {
            let all = plans(on_device).all();
            assert_eq!(all.len(), count);
            for window in [WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map] {
                for tokens in [1, 2, 512] {
                    for generated_only in [false, true] {
                        let params = plans(on_device).params(tokens, window, generated_only);
                        assert!(all.contains(&params), "{params:?}");
                        assert_eq!(params.generated_only, on_device && generated_only);
                    }
                }
            }
        }
    }
}

#[cfg(all(test, feature = "softmetal", target_os = "linux"))]
mod device_tests {
    use minfer_testdata::tiny_model;

    use crate::{DeviceChoice, Engine, EngineOptions};

    fn load() -> Engine {
        let options = EngineOptions {
            device: DeviceChoice::SoftMetal,
            ..EngineOptions::default()
        };
        let loaded = Engine::load(tiny_model("tiny-qwen3-q4_k"), &options);
        loaded.unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn no_plan_of_an_engine_on_a_device_drops_another() {
        let mut engine = load();
        let built = engine.executor.plans_built();
        assert_eq!(built, 12);
        engine.prepare_all().expect("known plans");
        assert_eq!(engine.executor.plans_built(), built);
    }

    #[test]
    fn the_graph_of_one_row_is_that_of_a_decode_step() {
        let mut engine = load();
        let mut is_fused = |rows| {
            let graph = engine.graph(rows).expect("a plan");
            graph.to_dot().contains("FusedQkv")
        };
        assert!(is_fused(1));
        assert!(!is_fused(2));
    }
}
