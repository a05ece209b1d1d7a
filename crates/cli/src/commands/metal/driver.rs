//! Runs a prompt and decode steps of a model on a Metal device.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use minfer_cpu::{CpuBackend, CpuOptions, Pool};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::{
    Executor, Fusion, Graph, GraphError, GraphParams, KvLayout, Op, RowCount, StepInputs, StepRows,
    WindowLayout,
};
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_metal::device::Device;
use minfer_model::Model;
use minfer_softmetal::Options;

use super::ideal::{Traffic, traffic};
use super::options::ModelOptions;
use crate::console::Console;
use crate::environment::Environment;
use crate::model_file::Resolver;

/// Place of the Metal backend among an executor's.
const METAL: usize = 0;

/// Rows of a decode step.
const DECODE: RowCount = RowCount {
    prompt: 0,
    generated: 1,
};

/// Time for a command buffer: with checks, a large model's takes minutes.
const LIMIT: Duration = Duration::from_secs(3600);

/// A model and how much of it runs.
pub struct Job {
    gguf: Gguf,
    model: Model,
    kv: KvLayout,
    params: GraphParams,
    prompt: usize,
    /// For the software device.
    pub device: Options,
}

impl Job {
    /// Opens the model, for `decode_steps` after the prompt. Says so if only a part of its layers run.
    pub fn new(console: Console, options: &ModelOptions, decode_steps: usize) -> Result<Self> {
        let environment = Environment::read()?;
        let path = Resolver::new(console, &environment)?.file(&options.model)?;
        let gguf = Gguf::open(&path, OpenOptions::default())?;
        let model = Model::load(&gguf)?;
        let all = model.hparams().n_layer;
        let layers = options.layers.of(all);
        if layers < all {
            console.note(format_args!(
                "{layers} of {all} layers run (--layers all for the whole model)"
            ));
        }
        let model = model.first_layers(layers);
        let prompt = options.prompt_tokens.get();
        Ok(Job {
            // More than there can be is refused by the regions, with the number.
            kv: model.kv_layout(prompt.saturating_add(decode_steps), options.cache_type),
            params: GraphParams {
                max_tokens: prompt,
                max_outputs: 1,
                window: WindowLayout::Causal,
                kv_format: options.cache_type,
                generated_only: false,
                fusion: Fusion::default(),
            },
            gguf,
            model,
            prompt,
            device: Options {
                profile: options.device.profile(),
                cache: Some(environment.kernel_cache()),
                ..Options::default()
            },
        })
    }

    /// A run on `device`, with the CPU for what it refuses.
    pub fn start<D: Device + 'static>(&self, device: D) -> Result<Run<'_>> {
        let pool = Pool::new(Pool::default_threads())?;
        let cpu = CpuBackend::new(Arc::new(pool), CpuOptions::default())?;
        let metal = MetalBackend::new(
            device,
            MetalOptions {
                submit_limit: LIMIT,
                ..MetalOptions::default()
            },
        );
        let mut executor = Executor::new(vec![Box::new(metal), Box::new(cpu)], self.kv.clone());
        for name in &self.graph(DECODE)?.weights {
            if let Some(tensor) = self.gguf.tensor(name) {
                executor.register_weight(&tensor, None)?;
            }
        }
        Ok(Run {
            job: self,
            executor,
            computed: 0,
        })
    }

    /// Those of the plan that the engine would choose for these rows.
    fn params(&self, tokens: RowCount) -> GraphParams {
        GraphParams {
            max_tokens: tokens.total(),
            generated_only: tokens.prompt == 0,
            ..self.params
        }
    }

    fn prompt(&self) -> RowCount {
        RowCount {
            prompt: self.prompt,
            generated: 0,
        }
    }

    fn graph(&self, tokens: RowCount) -> Result<Graph, GraphError> {
        self.model.build_graph(self.params(tokens), &self.kv)
    }
}

/// A model whose steps run one after the other.
pub struct Run<'a> {
    job: &'a Job,
    executor: Executor,
    computed: usize,
}

/// A node that runs on the CPU, and why.
pub struct OnCpu {
    pub node: String,
    pub op: &'static str,
    pub reason: String,
}

impl Run<'_> {
    /// Computes the prompt.
    pub fn prefill(&mut self) -> Result<(), GraphError> {
        self.step(self.job.prompt())
    }

    /// Leaves the prompt's keys and values zero. A decode step reads as much then.
    pub fn skip_prefill(&mut self) {
        self.computed += self.job.prompt;
    }

    /// Computes one more token.
    pub fn decode(&mut self) -> Result<(), GraphError> {
        self.step(DECODE)
    }

    /// Computes the prompt and `steps` more tokens.
    pub fn all(&mut self, steps: usize) -> Result<(), GraphError> {
        self.prefill()?;
        (0..steps).try_for_each(|_| self.decode())
    }

    fn step(&mut self, tokens: RowCount) -> Result<(), GraphError> {
        let count = tokens.total();
        let params = self.prepare(tokens)?;
        let numbers = self.computed..self.computed + count;
        let positions: Vec<i32> = numbers.clone().map(|n| n as i32).collect();
        let vocabulary = self.job.model.n_vocab();
        let tokens_of = |n: usize| (n.wrapping_mul(31) + 1) % vocabulary;
        let ids: Vec<i32> = numbers.map(|n| tokens_of(n) as i32).collect();
        self.executor.run(
            &params,
            &StepInputs {
                rows: rows(tokens),
                tokens: &ids,
                positions: &positions,
                cells: &positions,
                output_rows: &[count as i32 - 1],
                ..StepInputs::default()
            },
        )?;
        self.computed += count;
        Ok(())
    }

    fn prepare(&mut self, tokens: RowCount) -> Result<GraphParams, GraphError> {
        let (job, params) = (self.job, self.job.params(tokens));
        self.executor
            .prepare(&params, |_| job.graph(tokens))
            .map(|()| params)
    }

    /// Nodes of the prompt's graph and of a decode step's that do not run on the Metal device.
    pub fn on_cpu(&mut self) -> Result<Vec<OnCpu>, GraphError> {
        let mut found: Vec<OnCpu> = Vec::new();
        for tokens in [self.job.prompt(), DECODE] {
            let params = self.prepare(tokens)?;
            let Some(plan) = self.executor.dump(&params) else {
                continue;
            };
            let metal = &self.executor.backends()[METAL];
            let graph = plan.graph();
            for (node, &backend) in graph.nodes.iter().zip(plan.assigned()) {
                let runs = !matches!(node.op, Op::Input(_) | Op::View { .. });
                let known = found.iter().any(|known| known.node == node.name);
                if runs && backend != METAL && !known {
                    found.push(OnCpu {
                        node: node.name.clone(),
                        op: node.op.name(),
                        reason: metal.refusal(graph, node),
                    });
                }
            }
        }
        Ok(found)
    }

    /// The bytes that the prompt's step has to move, and a decode step's right after it.
    pub fn ideal(&mut self) -> Result<[Traffic; 2], GraphError> {
        let prompt = self.job.prompt;
        Ok([
            self.traffic(self.job.prompt(), prompt)?,
            self.traffic(DECODE, prompt + 1)?,
        ])
    }

    fn traffic(&mut self, tokens: RowCount, cells: usize) -> Result<Traffic, GraphError> {
        let params = self.prepare(tokens)?;
        let job = self.job;
        let plan = self.executor.dump(&params);
        let of = |graph| traffic(graph, job.model.catalog(), &job.kv, rows(tokens), cells);
        Ok(plan.map(|plan| of(plan.graph())).unwrap_or_default())
    }
}

/// Rows of a step whose last token yields logits.
fn rows(tokens: RowCount) -> StepRows {
    let outputs = RowCount {
        prompt: usize::from(tokens.prompt > 0),
        generated: usize::from(tokens.prompt == 0),
    };
    StepRows { tokens, outputs }
}
