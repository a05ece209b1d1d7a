//! Whole models against a reference that computed with weights dequantized to f32 and f32 activations.

use std::path::Path;
use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::quantize::dequantize;
use minfer_gguf::{Gguf, OpenOptions, TensorType};
use minfer_graph::{
    Backend, Executor, Fusion, GraphParams, KvFormat, KvPart, MAX_WINDOW_RUNS, RowCount,
    StepInputs, StepRows, WindowLayout,
};
use minfer_metal::backend::MetalBackend;
use minfer_metal::device::Device;
use minfer_model::Model;
use minfer_testdata::{TINY_MODELS, TinyLogits, largest_difference, tiny_logits, tiny_model};

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
    /// Of each sequence.
    tokens: [usize; 2],
    /// To which tokens are appended. Only a map leaves cells to the second.
    pub sequence: usize,
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

/// The best instruction set that multiplies prompt rows in f32.
fn exact_isa() -> Isa {
    let mut levels = Isa::available().into_iter();
    levels.rfind(|level| *level != Isa::Amx).unwrap()
}

/// What the CPU computes in plain f32, for which every row is one of a prompt: the logits after each token from
/// `first_output` on.
pub fn exact(
    path: &Path,
    kv_format: KvFormat,
    ids: &[u32],
    first_output: usize,
) -> (Run, Vec<Vec<f32>>) {
    let setup = Setup {
        window: WindowLayout::Causal,
        kv_format,
        cells: ids.len(),
        rows: ids.len(),
    };
    let mut cpu = Run::load(path, vec![exact_cpu(exact_isa(), 2)], &setup);
    let logits = cpu.step_with(ids, prompt_rows, first_output);
    (cpu, logits)
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
            tokens: [0; 2],
            sequence: 0,
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

    pub fn kv_format(&self) -> KvFormat {
        self.params.kv_format
    }

    /// The most tokens of a sequence in cells beside each other where a map scatters them.
    fn piece(&self) -> usize {
        self.cells / (2 * MAX_WINDOW_RUNS)
    }

    fn cell(&self, position: usize) -> i32 {
        let cell = match self.params.window {
            WindowLayout::Causal => position,
            // Backwards, so that cells and positions differ.
            WindowLayout::Span => self.cells - 1 - position,
            // Pieces backwards, and those of the sequences in turn.
            WindowLayout::Map => {
                let piece = 2 * (position / self.piece()) + self.sequence;
                (2 * MAX_WINDOW_RUNS - 1 - piece) * self.piece() + position % self.piece()
            }
        };
        cell as i32
    }

    fn window(&self, position: usize) -> Vec<i32> {
        match self.params.window {
            WindowLayout::Causal => Vec::new(),
            WindowLayout::Span => vec![self.cell(position), self.cells as i32],
            WindowLayout::Map => {
                let pieces = (0..=position).step_by(self.piece());
                let len = |first| self.piece().min(position + 1 - first) as i32;
                let runs = pieces.flat_map(|first| [self.cell(first), len(first)]);
                let mut runs: Vec<_> = runs.collect();
                runs.resize(2 * MAX_WINDOW_RUNS, 0);
                runs
            }
        }
    }

    /// The keys and values of the sequence as they are stored.
    pub fn stored(&mut self) -> Vec<f32> {
        let mut all = Vec::new();
        for layer in 0..self.executor.kv().layout().len() {
            let shape = self.executor.kv().layout().layer(layer).unwrap();
            let used = shape.format.row_bytes(shape.width).unwrap();
            let mut bytes = vec![0; shape.cell_bytes().unwrap()];
            let mut values = vec![0.0; shape.width];
            for part in [KvPart::Keys, KvPart::Values] {
                for position in 0..self.tokens[self.sequence] {
                    let cell = self.cell(position) as usize;
                    let cells = cell..cell + 1;
                    let read = self.executor.read_rows(layer, part, cells, &mut bytes);
                    read.unwrap();
                    dequantize(element(shape.format), &bytes[..used], &mut values).unwrap();
                    all.extend(&values);
                }
            }
        }
        all
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
        let first = self.tokens[self.sequence];
        let rows = first..first + ids.len();
        let tokens: Vec<_> = ids.iter().map(|&id| id as i32).collect();
        let positions: Vec<_> = rows.clone().map(|position| position as i32).collect();
        let cells: Vec<_> = rows.clone().map(|position| self.cell(position)).collect();
        let window: Vec<_> = rows.flat_map(|position| self.window(position)).collect();
        let step = StepInputs {
            rows: StepRows {
                tokens: role(ids.len()),
                outputs: role(ids.len() - first_output),
            },
            tokens: &tokens,
            positions: &positions,
            cells: &cells,
            window: &window,
            output_rows: &(first_output as i32..ids.len() as i32).collect::<Vec<_>>(),
            ..StepInputs::default()
        };
        self.tokens[self.sequence] += ids.len();
        let params = self.prepare(role(1).prompt == 0);
        let outputs = self.executor.run(&params, &step).unwrap();
        let logits = outputs.values(0).chunks(self.model.n_vocab());
        logits.map(<[f32]>::to_vec).collect()
    }

    /// The logits after a prompt, and after each of the tokens that are then decoded.
    pub fn predict(&mut self, prompt: &[u32], decoded: &[u32]) -> Vec<Vec<f32>> {
        let mut logits = self.step_with(prompt, prompt_rows, prompt.len() - 1);
        for id in decoded {
            logits.extend(self.step(&[*id], generated_rows));
        }
        logits
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

fn element(format: KvFormat) -> TensorType {
    match format {
        KvFormat::F32 => TensorType::F32,
        KvFormat::F16 => TensorType::F16,
        KvFormat::Q8_0 => TensorType::Q8_0,
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

fn check(name: &str, run: &mut Run) {
    let expected = reference(name);
    let logits = run.logits(&expected.ids);
    let chosen: Vec<_> = logits.iter().map(|row| argmax(row)).collect();
    assert_eq!(chosen, expected.row_argmax, "{name}");
    let difference = largest_difference(logits.last().unwrap(), &expected.last_logits);
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
        let difference = largest_difference(logits.last().unwrap(), &expected.last_logits);
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
