//! What follows a shift is computed as if all that is left had stayed where it was.

use std::ops::Range;
use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Pool};
use minfer_engine::{EngineOptions, Role};
use minfer_graph::{
    Executor, Fusion, GraphParams, KvFormat, KvLayout, MAX_WINDOW_RUNS, RowCount, StepInputs,
    StepRows, WindowLayout,
};
use minfer_model::Model;
use minfer_testdata::largest_difference;

use crate::model::*;

const N_CTX: usize = 320;

/// A model whose rows are stored at any position in any cell and see the cells they are told to.
struct Rows {
    model: Model,
    executor: Executor,
    kv: KvLayout,
}

impl Rows {
    fn new(cells: usize) -> Self {
        let gguf = model(CHATML, None);
        let model = Model::load(&gguf).expect("a model");
        let pool = Arc::new(Pool::new(1).expect("a thread"));
        let backend = CpuBackend::new(pool, CpuOptions::default()).expect("a backend");
        let kv = model.kv_layout(cells, KvFormat::F32);
        let mut executor = Executor::new(vec![Box::new(backend)], kv.clone());
        for info in gguf.tensors() {
            let tensor = gguf.tensor(&info.name).expect("listed");
            executor.register_weight(&tensor, None).expect("a weight");
        }
        Rows {
            model,
            executor,
            kv,
        }
    }

    /// Computes one row after the other; each sees `seen` and all cells since `cell`. Returns the logits after
    /// the last.
    fn append(
        &mut self,
        rows: &[(u32, Role)],
        position: usize,
        cell: usize,
        seen: &[Range<usize>],
    ) -> Vec<f32> {
        let params = GraphParams {
            max_tokens: 1,
            max_outputs: 1,
            window: WindowLayout::Map,
            kv_format: KvFormat::F32,
            generated_only: false,
            fusion: Fusion::default(),
        };
        let (model, kv) = (&self.model, &self.kv);
        let plan = self
            .executor
            .prepare(&params, |params| model.build_graph(*params, kv));
        plan.expect("a graph");
        let mut logits = Vec::new();
        for (i, &(token, role)) in rows.iter().enumerate() {
            let own = cell..cell + i + 1;
            let runs = seen.iter().chain([&own]).filter(|run| !run.is_empty());
            let mut window: Vec<i32> = runs
                .flat_map(|run| [to_i32(run.start), to_i32(run.len())])
                .collect();
            window.resize(2 * MAX_WINDOW_RUNS, 0);
            let count = match role {
                Role::Prompt => RowCount {
                    prompt: 1,
                    generated: 0,
                },
                Role::Generated => RowCount {
                    prompt: 0,
                    generated: 1,
                },
            };
            let inputs = StepInputs {
                rows: StepRows {
                    tokens: count,
                    outputs: count,
                },
                tokens: &[token as i32],
                positions: &[to_i32(position + i)],
                cells: &[to_i32(cell + i)],
                window: &window,
                output_rows: &[0],
                ..StepInputs::default()
            };
            let outputs = self.executor.run(&params, &inputs).expect("a step");
            logits = outputs.row(0, 0).expect("logits").to_vec();
        }
        logits
    }
}

fn to_i32(value: usize) -> i32 {
    i32::try_from(value).expect("a small number")
}

/// Logits after `rows`, without those of `removed`, and then `delta`. Attention depends on distances alone. So the
/// rows after the removed ones keep their positions, and those before are computed once more, by as much
/// later as there are removed ones: no key is ever rotated twice.
fn unshifted(rows: &[(u32, Role)], removed: Range<usize>, delta: &[(u32, Role)]) -> Vec<f32> {
    let (n, start) = (rows.len(), removed.start);
    let mut model = Rows::new(n + start + delta.len());
    model.append(rows, 0, 0, &[]);
    model.append(&rows[..start], removed.len(), n, &[]);
    model.append(delta, n, n + start, &[n..n + start, removed.end..n])
}

#[test]
fn logits_after_a_shift_are_those_of_rows_that_never_moved() {
    // f32 rotates by one angle or by the sum of two: the sines differ by 2^-24 times the angle. The other
    // formats store the keys twice, rounded to 11 bits or to 8 with a scale per 32, and the values once.
    for (format, tolerance) in [
        (KvFormat::F32, 2e-4),
        (KvFormat::F16, 0.01),
        (KvFormat::Q8_0, 0.15),
    ] {
        let options_of_engine = EngineOptions {
            kv_format: Some(format),
            ..EngineOptions::default()
        };
        let mut engine = load_with(CHATML, N_CTX, None, options_of_engine);
        let mut conversation = engine.conversation(options(Some("Be brief.")));
        let mut questions = 0..;
        let (rows, report) = loop {
            let session = conversation.session();
            let roles = session.engine().roles(session.sequence());
            let rows = session.tokens().iter().copied().zip(roles.iter().copied());
            let rows: Vec<(u32, Role)> = rows.collect();
            let question = format!("{:?} of the hour", questions.next());
            let report = ask(&mut conversation, &question, 0);
            if report.dropped_turns > 0 {
                break (rows, report);
            }
            let answer = conversation.regenerate(greedy(8)).expect("a turn");
            finish(answer.expect("a turn to repeat"));
        };
        assert!(report.shifted);
        assert!(rows.iter().any(|(_, role)| *role == Role::Generated));
        let tokens = conversation.session().tokens();
        let delta = tokens[tokens.len() - report.prefilled..].iter();
        let delta: Vec<(u32, Role)> = delta.map(|&token| (token, Role::Prompt)).collect();
        let turns = rows
            .iter()
            .skip(1)
            .position(|(token, _)| *token == IM_START);
        let start = 1 + turns.expect("a turn");
        let removed = start..start + rows.len() - report.reused;

        let actual = conversation.session().logits();
        let expected = unshifted(&rows, removed, &delta);
        let largest = largest_difference(actual, &expected);
        println!("{format:?}: max |Δlogit| {largest:.6}");
        assert!(largest <= tolerance, "{format:?}: {largest}");
        // The control differs only in that nothing was removed.
        let control = unshifted(&rows, start..start, &delta);
        let largest = largest_difference(actual, &control);
        println!("{format:?}: nothing removed {largest:.6}");
        assert!(largest > 2.0 * tolerance, "{format:?}: {largest}");
    }
}
