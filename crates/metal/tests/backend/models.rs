//! Whole models against a reference that computed with weights dequantized to f32 and f32 activations.

use std::path::Path;
use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::{
    Backend, Executor, Fusion, GraphParams, KvFormat, RowCount, StepInputs, StepRows, WindowLayout,
};
use minfer_metal::backend::MetalBackend;
use minfer_metal::device::Device;
use minfer_model::Model;
use minfer_testdata::{TINY_MODELS, TinyLogits, tiny_logits, tiny_model};

use crate::{backend, fast_device};

/// Largest |Δlogit|; the logits are about -5 to 5. As for the CPU in f32: only the order of sums differs.
const TOLERANCE: f32 = 1e-4;

/// How a model runs.
pub struct Setup {
    pub window: WindowLayout,
    pub kv_format: KvFormat,
    /// KV cells.
    pub cells: usize,
    /// Most rows of a step.
    pub rows: usize,
}

/// A model on an executor.
pub struct Run {
    model: Model,
    executor: Executor,
    params: GraphParams,
    cells: usize,
    tokens: usize,
}

/// A CPU backend that computes prompt rows in plain f32.
pub fn exact_cpu(isa: Isa, threads: usize) -> Box<dyn Backend> {
    let options = CpuOptions {
        isa: Some(isa),
        ..CpuOptions::default()
    };
    let pool = Arc::new(Pool::new(threads).unwrap());
    Box::new(CpuBackend::new(pool, options).unwrap())
}

impl Run {
    /// A tiny model on a device, and on the CPU where that refuses.
    pub fn new<D: Device + 'static>(
        name: &str,
        device: D,
        window: WindowLayout,
        kv_format: KvFormat,
    ) -> Self {
        Run::on(name, backend(device), window, kv_format)
    }

    /// The same on a backend.
    pub fn on<D: Device + 'static>(
        name: &str,
        metal: MetalBackend<D>,
        window: WindowLayout,
        kv_format: KvFormat,
    ) -> Self {
        let backends = vec![
            Box::new(metal) as Box<dyn Backend>,
            exact_cpu(Isa::Scalar, 1),
        ];
        let setup = Setup {
            window,
            kv_format,
            cells: 40,
            rows: 16,
        };
        Run::load(&tiny_model(name), backends, &setup)
    }

    pub fn load(path: &Path, backends: Vec<Box<dyn Backend>>, setup: &Setup) -> Self {
        let gguf = Gguf::open(path, OpenOptions::default()).unwrap();
        let model = Model::load(&gguf).unwrap();
        let (window, kv_format) = (setup.window, setup.kv_format);
        let mut executor = Executor::new(backends, model.kv_layout(setup.cells, kv_format));
        for info in gguf.tensors() {
            let tensor = gguf.tensor(&info.name).unwrap();
            executor.register_weight(&tensor, None).unwrap();
        }
        let params = GraphParams {
            max_tokens: setup.rows,
            max_outputs: setup.rows,
            window,
            kv_format,
            generated_only: false,
            fusion: Fusion::default(),
        };
        let mut run = Run {
            model,
            executor,
            params,
            cells: setup.cells,
            tokens: 0,
        };
        run.prepare(false);
        run
    }

    /// Plans steps, of generated rows alone if so.
    fn prepare(&mut self, generated_only: bool) -> GraphParams {
        let params = GraphParams {
            generated_only,
            ..self.params
        };
        let layout = self.executor.kv().layout().clone();
        let build = |params: &GraphParams| self.model.build_graph(*params, &layout);
        self.executor.prepare(&params, build).unwrap();
        params
    }

    /// Whether every node runs on the Metal device.
    pub fn is_whole(&self) -> bool {
        let dump = self.executor.dump(&self.params).unwrap();
        dump.assigned().iter().all(|&backend| backend == 0)
    }

    /// Appends tokens; the logits after each.
    pub fn step(&mut self, ids: &[u32], role: fn(usize) -> RowCount) -> Vec<Vec<f32>> {
        self.step_with(ids, role, 0)
    }

    /// Appends tokens; the logits after each from `first_output` on.
    pub fn step_with(
        &mut self,
        ids: &[u32],
        role: fn(usize) -> RowCount,
        first_output: usize,
    ) -> Vec<Vec<f32>> {
        let first = self.tokens as i32;
        let count = ids.len() as i32;
        let tokens: Vec<_> = ids.iter().map(|&id| id as i32).collect();
        let positions: Vec<_> = (first..first + count).collect();
        // Backwards, so that cells and positions differ.
        let end = self.cells as i32;
        let cell = |position: i32| end - 1 - position;
        let cells: Vec<_> = match self.params.window {
            WindowLayout::Causal => positions.clone(),
            _ => positions.iter().map(|&position| cell(position)).collect(),
        };
        let window: Vec<_> = match self.params.window {
            WindowLayout::Causal => Vec::new(),
            WindowLayout::Span => {
                let spans = positions.iter().map(|&position| [cell(position), end]);
                spans.flatten().collect()
            }
            WindowLayout::Map => unreachable!("no model runs with it here"),
        };
        let step = StepInputs {
            rows: StepRows {
                tokens: role(ids.len()),
                outputs: role(ids.len() - first_output),
            },
            tokens: &tokens,
            positions: &positions,
            cells: &cells,
            window: &window,
            output_rows: &(first_output as i32..count).collect::<Vec<_>>(),
            ..StepInputs::default()
        };
        self.tokens += ids.len();
        let params = self.prepare(role(1).prompt == 0);
        let outputs = self.executor.run(&params, &step).unwrap();
        let logits = outputs.values(0).chunks(self.model.n_vocab());
        logits.map(<[f32]>::to_vec).collect()
    }

    /// The logits after each of `ids`, the last two of which count as generated.
    pub fn logits(&mut self, ids: &[u32]) -> Vec<Vec<f32>> {
        let (prompt, generated) = ids.split_at(ids.len() - 2);
        let mut logits = self.step(prompt, prompt_rows);
        for id in generated {
            logits.extend(self.step(&[*id], generated_rows));
        }
        logits
    }
}

pub fn prompt_rows(prompt: usize) -> RowCount {
    RowCount {
        prompt,
        generated: 0,
    }
}

pub fn generated_rows(generated: usize) -> RowCount {
    RowCount {
        prompt: 0,
        generated,
    }
}

pub fn reference(name: &str) -> TinyLogits {
    let all = tiny_logits().into_iter();
    let mut named = all.filter(|logits| logits.file == format!("{name}.gguf"));
    named.next().unwrap()
}

pub fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    best.unwrap() as u32
}

pub fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // NaN must not pass.
    differences.fold(0.0, |most, d| if d <= most { most } else { d })
}

fn check(name: &str, run: &mut Run) {
    let expected = reference(name);
    let logits = run.logits(&expected.ids);
    let chosen: Vec<_> = logits.iter().map(|row| argmax(row)).collect();
    assert_eq!(chosen, expected.row_argmax, "{name}");
    let difference = difference(logits.last().unwrap(), &expected.last_logits);
    assert!(difference <= TOLERANCE, "{name}: {difference}");
}

/// Weight types without a kernel.
fn is_split(name: &str) -> bool {
    ["q2_k", "q3_k", "iq4_nl", "iq4_xs"]
        .iter()
        .any(|ty| name.ends_with(ty))
}

#[test]
fn every_model_whose_weights_have_kernels_runs_whole() {
    for name in TINY_MODELS.into_iter().filter(|name| !is_split(name)) {
        let Some(device) = fast_device() else { return };
        let mut run = Run::new(name, device, WindowLayout::Span, KvFormat::F32);
        assert!(run.is_whole(), "{name}");
        check(name, &mut run);
    }
}

/// The generated rows of the CPU round activations to int8: only prompt rows compare.
#[test]
fn weights_without_kernels_go_to_the_cpu() {
    for name in ["tiny-qwen2-q3_k", "tiny-qwen2-iq4_nl"] {
        let Some(device) = fast_device() else { return };
        let mut run = Run::new(name, device, WindowLayout::Causal, KvFormat::F32);
        let assigned = run.executor.dump(&run.params).unwrap().assigned().to_vec();
        assert!(assigned.contains(&0) && assigned.contains(&1), "{name}");
        let expected = reference(name);
        let logits = run.step(&expected.ids, prompt_rows);
        let difference = difference(logits.last().unwrap(), &expected.last_logits);
        assert!(difference <= TOLERANCE, "{name}: {difference}");
    }
}

/// Two engines of one process, of which each stores its keys and values in its own format, in turn.
#[test]
fn models_with_different_kv_formats_share_a_device() {
    const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
    let Some(device) = fast_device() else { return };
    let ids = reference("tiny-qwen3-q4_k").ids;
    let run = |format| {
        Run::new(
            "tiny-qwen3-q4_k",
            device.clone(),
            WindowLayout::Span,
            format,
        )
    };
    let alone = FORMATS.map(|format| run(format).logits(&ids));
    assert!(alone[0] != alone[1] && alone[0] != alone[2] && alone[1] != alone[2]);
    let mut runs = FORMATS.map(run);
    let (prompt, generated) = ids.split_at(ids.len() - 2);
    let mut together = [(); 3].map(|()| Vec::new());
    for (logits, run) in together.iter_mut().zip(&mut runs) {
        *logits = run.step(prompt, prompt_rows);
    }
    for id in generated {
        for (logits, run) in together.iter_mut().zip(&mut runs) {
            logits.extend(run.step(&[*id], generated_rows));
        }
    }
    assert!(together == alone);
}
