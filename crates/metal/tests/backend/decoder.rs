//! Models whose decode steps run fused or not.

use minfer_gguf::{Gguf, Tensor};
use minfer_graph::{
    DeviceWork, Executor, Fusion, Graph, GraphParams, KvFormat, KvPart, RowCount, StepInputs,
    StepRows, WindowLayout,
};
use minfer_metal::device::Device;
use minfer_model::Model;

use crate::backend;

/// KV cells.
pub const CELLS: usize = 24;
/// Most rows of a step.
pub const MOST_ROWS: usize = 16;

/// A model on one Metal device, with causal windows.
pub struct Decoder {
    model: Model,
    executor: Executor,
    params: GraphParams,
}

/// Tokens of one step, the first at position `first`, and whose logits are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub first: usize,
    pub ids: &'a [u32],
    pub wanted: &'a [usize],
}

impl Decoder {
    /// Decode steps are fused where `fused` says so.
    pub fn new<D: Device + 'static>(
        gguf: &Gguf,
        device: D,
        kv_format: KvFormat,
        fused: bool,
    ) -> Self {
        let model = Model::load(gguf).unwrap();
        let layout = model.kv_layout(CELLS, kv_format);
        let mut executor = Executor::new(vec![Box::new(backend(device))], layout.clone());
        let all = gguf.tensors().iter();
        let tensors = all.map(|info| gguf.tensor(&info.name).unwrap());
        tensors.for_each(|tensor: Tensor| executor.register_weight(&tensor, None).unwrap());
        let params = GraphParams {
            max_tokens: MOST_ROWS,
            max_outputs: MOST_ROWS,
            window: WindowLayout::Causal,
            kv_format,
            generated_only: fused,
            fusion: Fusion::default(),
        };
        let mut decoder = Decoder {
            model,
            executor,
            params,
        };
        decoder.prepare(&decoder.decode_params());
        decoder.prepare(&decoder.prompt_params());
        decoder
    }

    fn decode_params(&self) -> GraphParams {
        self.params
    }

    fn prompt_params(&self) -> GraphParams {
        GraphParams {
            generated_only: false,
            ..self.params
        }
    }

    fn prepare(&mut self, params: &GraphParams) {
        let layout = self.executor.kv().layout().clone();
        let build = |params: &GraphParams| self.model.build_graph(*params, &layout);
        self.executor.prepare(params, build).unwrap();
    }

    /// What the device was given so far.
    pub fn work(&self) -> DeviceWork {
        self.executor.backends()[0].device_work().unwrap()
    }

    /// What a decode step computes.
    pub fn decode_graph(&self) -> Graph {
        let dump = self.executor.dump(&self.decode_params()).unwrap();
        dump.graph().clone()
    }

    /// Computes a prompt from position 0 on.
    pub fn prompt(&mut self, ids: &[u32]) -> Vec<u32> {
        let wanted = [ids.len() - 1];
        let step = Step {
            first: 0,
            ids,
            wanted: &wanted,
        };
        let rows = |prompt| RowCount {
            prompt,
            generated: 0,
        };
        self.run(self.prompt_params(), step, rows)
    }

    /// Computes generated rows.
    pub fn decode(&mut self, step: Step<'_>) -> Vec<u32> {
        let rows = |generated| RowCount {
            prompt: 0,
            generated,
        };
        self.run(self.decode_params(), step, rows)
    }

    /// The bits of the logits.
    fn run(
        &mut self,
        params: GraphParams,
        step: Step<'_>,
        rows: fn(usize) -> RowCount,
    ) -> Vec<u32> {
        let tokens: Vec<_> = step.ids.iter().map(|&id| id as i32).collect();
        let positions: Vec<_> = (step.first as i32..).take(tokens.len()).collect();
        let output_rows: Vec<_> = step.wanted.iter().map(|&row| row as i32).collect();
        let inputs = StepInputs {
            rows: StepRows {
                tokens: rows(tokens.len()),
                outputs: rows(output_rows.len()),
            },
            tokens: &tokens,
            positions: &positions,
            cells: &positions,
            output_rows: &output_rows,
            ..StepInputs::default()
        };
        let outputs = self.executor.run(&params, &inputs).unwrap();
        outputs.values(0).iter().map(|x| x.to_bits()).collect()
    }

    /// All keys and values as they are stored.
    pub fn stored(&mut self) -> Vec<u8> {
        let layers = self.executor.kv().layout().len();
        let mut all = Vec::new();
        for layer in 0..layers {
            let shape = self.executor.kv().layout().layer(layer).unwrap();
            for part in [KvPart::Keys, KvPart::Values] {
                let mut bytes = vec![0; CELLS * shape.cell_bytes().unwrap()];
                let read = self.executor.read_rows(layer, part, 0..CELLS, &mut bytes);
                read.unwrap();
                all.extend(bytes);
            }
        }
        all
    }
}
