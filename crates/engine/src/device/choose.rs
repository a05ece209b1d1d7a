//! The choice of layers for a device.

use std::collections::HashMap;

use minfer_gguf::Gguf;
use minfer_graph::{Graph, GraphParams, KvFormat, Node, Op, RowCount};
use minfer_model::Model;

use super::demand::Demand;
use super::gate::refused_weight;
use super::{Accelerator, DeviceChoice, OffloadError, Placement, select};
use crate::memory::{KvBudget, kv_bytes};
use crate::plans::Plans;
use crate::{EngineOptions, Error};

/// With at least this many key features in all layers together, reading keys and values takes a device more time than
/// f16 costs in accuracy is worth.
const F16_FEATURES: usize = 8192;

/// How a model is spread over memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Which layers run where.
    pub placement: Placement,
    /// Context length in tokens.
    pub n_ctx: usize,
    /// Format of the KV cache.
    pub kv_format: KvFormat,
    /// Size of the KV cache.
    pub kv: KvBudget,
}

/// How [`crate::Engine::from_gguf`] would spread a model, without loading it. The memory of the device counts, that of
/// the machine does not, and no GPU trace is written.
///
/// # Errors
/// As for loading, but for those that only the bytes of weights can cause.
pub fn spread(gguf: &Gguf, options: &EngineOptions) -> Result<Spread, Error> {
    options.validate()?;
    let model = Model::load(gguf)?;
    let looking = EngineOptions {
        metal: options.metal.without_capture(),
        ..options.clone()
    };
    let (accelerator, absence) = select(&looking)?;
    let situation = Situation {
        accelerator: accelerator.as_ref(),
        absence,
        room: None,
    };
    Wish::new(gguf, &model, options).choose(&situation)
}

/// What there is to run on.
pub(crate) struct Situation<'a> {
    pub accelerator: Option<&'a Accelerator>,
    /// Why there is none, if that may surprise.
    pub absence: Option<String>,
    /// Bytes of the host's memory beside the weights; `None` when unknown.
    pub room: Option<u64>,
}

/// A model and how it is to be loaded.
pub(crate) struct Wish<'a> {
    gguf: &'a Gguf,
    model: &'a Model,
    options: &'a EngineOptions,
    n_ctx: usize,
}

impl<'a> Wish<'a> {
    pub fn new(gguf: &'a Gguf, model: &'a Model, options: &'a EngineOptions) -> Self {
        Wish {
            gguf,
            model,
            options,
            n_ctx: options.resolve_n_ctx(model.hparams().n_ctx_train),
        }
    }

    pub fn choose(&self, situation: &Situation<'_>) -> Result<Spread, Error> {
        let Some(accelerator) = situation.accelerator else {
            return self.on_cpu(situation, situation.absence.clone());
        };
        if self.options.gpu_layers == Some(0) {
            return self.on_cpu(situation, None);
        }
        let format = self.kv_format(true);
        let graphs = self.graphs(format)?;
        let graph = graphs.first().map(|(_, graph)| graph);
        let device = accelerator.choice.name();
        if let Some(refused) = graph.and_then(|graph| refused_weight(device, self.model, graph)) {
            return match self.options.device {
                DeviceChoice::Auto => self.on_cpu(situation, Some(refused.to_string())),
                _ => Err(refused.into()),
            };
        }
        let kv = self.kv_budget(format, situation.room)?;
        let demand = self.demand(format, &graphs)?;
        self.on_device(accelerator, situation, kv, &demand)
    }

    /// The spread without a device.
    fn on_cpu(&self, situation: &Situation<'_>, reason: Option<String>) -> Result<Spread, Error> {
        let kv_format = self.kv_format(false);
        Ok(Spread {
            placement: Placement::on_cpu(self.model.hparams().n_layer, reason),
            n_ctx: self.n_ctx,
            kv_format,
            kv: self.kv_budget(kv_format, situation.room)?,
        })
    }

    /// As many layers as were asked for, or as fit. Fewer cells than wanted, though enough for one sequence of full
    /// length, are better than fewer layers.
    fn on_device(
        &self,
        accelerator: &Accelerator,
        situation: &Situation<'_>,
        kv: KvBudget,
        demand: &Demand,
    ) -> Result<Spread, Error> {
        let of = self.model.hparams().n_layer;
        let device = accelerator.choice.name();
        let available = accelerator.available(&self.options.metal);
        let wanted = self.options.gpu_layers.unwrap_or(of).min(of);
        let beside = |layers| {
            let most = demand.most_cells(layers, available);
            kv.at_most(most.max(self.n_ctx))
        };
        let cells = beside(wanted).cells;
        let fit = demand.largest(cells, available);
        let short = (!demand.fits(wanted, cells, available)).then(|| {
            let need = demand.need(wanted, cells);
            OffloadError::Memory {
                device,
                layers: wanted,
                of,
                weights: need.weights,
                kv: need.kv,
                buffers: need.buffers,
                available: available.unwrap_or(u64::MAX),
                fit,
            }
        });
        let (layers, reason) = match (self.options.gpu_layers, short) {
            (_, None) => (wanted, None),
            (Some(_), Some(short)) => return Err(short.into()),
            (None, Some(short)) => (fit, Some(short.to_string())),
        };
        if layers == 0 {
            return self.on_cpu(situation, reason);
        }
        Ok(Spread {
            placement: Placement {
                device: accelerator.choice,
                device_name: Some(accelerator.info.name.clone()),
                layers,
                of,
                reason,
            },
            n_ctx: self.n_ctx,
            kv_format: self.kv_format(true),
            // What the layer that does not fit would have taken is free for more cells.
            kv: beside(layers),
        })
    }

    fn demand(&self, format: KvFormat, graphs: &[(GraphParams, Graph)]) -> Result<Demand, Error> {
        let layers = self.model.hparams().n_layer;
        let tensors = self.gguf.tensors().iter();
        let bytes: HashMap<_, _> = tensors
            .map(|tensor| (tensor.name.as_str(), tensor.len as u64))
            .collect();
        let tensor_bytes = |name: &str| bytes.get(name).copied().unwrap_or(0);
        let cell = kv_bytes(&self.model.kv_layout(1, format))? / layers.max(1) as u64;
        let scratch = self.scratch(format, graphs);
        Ok(Demand::new(layers, cell, scratch, graphs, tensor_bytes)?)
    }

    /// Bytes that a device's attention takes beside its operands, the same ones in every layer.
    fn scratch(&self, format: KvFormat, graphs: &[(GraphParams, Graph)]) -> u64 {
        let cells = self.n_ctx.saturating_mul(self.options.parallel);
        let layout = self.model.kv_layout(cells, format);
        let nodes = graphs
            .iter()
            .flat_map(|(params, graph)| graph.nodes.iter().map(move |node| (params, node)));
        let of_node = |(params, node): (&GraphParams, &Node)| {
            let Op::Attention(attention) = &node.op else {
                return None;
            };
            let rows = RowCount {
                prompt: params.max_tokens,
                generated: params.max_outputs,
            };
            let region = layout.layer(attention.layer)?;
            let kernels = self.options.metal.kernels;
            Some(kernels.scratch_bytes(attention, rows, self.n_ctx, region))
        };
        nodes.filter_map(of_node).max().unwrap_or(0)
    }

    /// The graphs of all plans on a device.
    pub fn graphs(&self, format: KvFormat) -> Result<Vec<(GraphParams, Graph)>, Error> {
        let layout = self.model.kv_layout(1, format);
        let plans = self.plans(format, true).all().into_iter();
        let build = |params| Ok((params, self.model.build_graph(params, &layout)?));
        plans.map(build).collect()
    }

    pub fn plans(&self, format: KvFormat, on_device: bool) -> Plans {
        Plans::new(self.options, self.n_ctx, format, on_device)
    }

    fn kv_format(&self, on_device: bool) -> KvFormat {
        let hparams = self.model.hparams();
        let features = hparams.n_layer.saturating_mul(hparams.n_embd_kv());
        let automatic = auto_kv_format(on_device, features);
        self.options.kv_format.unwrap_or(automatic)
    }

    fn kv_budget(&self, format: KvFormat, room: Option<u64>) -> Result<KvBudget, Error> {
        let per_cell = kv_bytes(&self.model.kv_layout(1, format))?;
        KvBudget::new(self.n_ctx, self.options.parallel, per_cell, room)
    }
}

/// The KV format where none is asked for, of a model with so many key features in all layers together.
fn auto_kv_format(on_device: bool, features: usize) -> KvFormat {
    match on_device && features >= F16_FEATURES {
        true => KvFormat::F16,
        false => KvFormat::F32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_caches_of_a_device_are_f16() {
        assert_eq!(auto_kv_format(true, 8192), KvFormat::F16);
        assert_eq!(auto_kv_format(true, 8191), KvFormat::F32);
        assert_eq!(auto_kv_format(false, 1 << 20), KvFormat::F32);
    }
}

#[cfg(all(test, feature = "softmetal", target_os = "linux"))]
mod device_tests {
    use minfer_gguf::OpenOptions;
    use minfer_metal::backend::{MetalBackend, MetalOptions};
    use minfer_softmetal::{Options, SoftDevice};
    use minfer_testdata::tiny_model;

    use super::super::accelerator::open;
    use super::super::refused_node;
    use super::*;

    fn gguf(name: &str) -> Gguf {
        Gguf::open(tiny_model(name), OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// What is chosen for a model where there is a device.
    fn choose(name: &str, device: DeviceChoice) -> Result<Spread, Error> {
        let options = EngineOptions {
            device,
            ..EngineOptions::default()
        };
        let accelerator = open(DeviceChoice::SoftMetal, &options.metal).expect("the feature is on");
        let situation = Situation {
            accelerator: Some(&accelerator),
            absence: None,
            room: None,
        };
        let gguf = gguf(name);
        let model = Model::load(&gguf)?;
        Wish::new(&gguf, &model, &options).choose(&situation)
    }

    #[test]
    fn a_model_without_kernels_runs_on_the_cpu_unless_the_device_was_named() {
        let layers = |name| {
            let placement = choose(name, DeviceChoice::Auto).expect("a place").placement;
            (placement.layers, placement.reason)
        };
        assert_eq!(layers("tiny-qwen2-q4_k"), (2, None));
        let (on_device, reason) = layers("tiny-qwen2-iq4_xs");
        assert_eq!(on_device, 0);
        let reason = reason.expect("it may surprise");
        let expected = "soft-metal has no kernels for token_embd.weight, which is IQ4_XS [";
        assert!(reason.starts_with(expected), "{reason}");
        let refused = choose("tiny-qwen2-iq4_xs", DeviceChoice::SoftMetal);
        assert_eq!(refused.expect_err("named").to_string(), reason);
    }

    #[test]
    fn the_first_node_without_a_kernel_is_named() {
        let spread = choose("tiny-qwen3-q4_k", DeviceChoice::SoftMetal).expect("a place");
        let gguf = gguf("tiny-qwen3-q4_k");
        let model = Model::load(&gguf).expect("a model");
        let options = EngineOptions::default();
        let wish = Wish::new(&gguf, &model, &options);
        let graphs = wish.graphs(spread.kv_format).expect("graphs");
        let (params, graph) = &graphs[0];
        // No weight is registered.
        let mut backend =
            MetalBackend::new(SoftDevice::new(Options::default()), MetalOptions::default());
        let refusal = |placement: &Placement, backend: &MetalBackend<SoftDevice>| {
            refused_node(placement, backend, params, graph).map(|error| error.to_string())
        };
        let found = refusal(&spread.placement, &backend).expect("no weights");
        assert!(
            found.starts_with("soft-metal cannot run token_embd"),
            "{found}"
        );
        let half = Placement {
            layers: 1,
            ..spread.placement.clone()
        };
        let found = refusal(&half, &backend).expect("no weights");
        assert!(
            found.starts_with("soft-metal cannot run blk.0.attn_norm ("),
            "{found}"
        );
        for info in gguf.tensors() {
            let tensor = gguf.tensor(&info.name).expect("listed");
            minfer_graph::Backend::register_weight(&mut backend, &tensor).expect("memory");
        }
        assert_eq!(refusal(&spread.placement, &backend), None);
    }
}
