//! Whole graphs on the CPU backend: what must not change a bit of a row's logits.

mod support;

use minfer_graph::{Fusion, GraphBuilder, GraphError, Input, KvFormat, StepInputs, StepRows};
use support::*;

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

/// A prompt of 40 tokens and 3 generated ones.
fn logits(backends: usize, threads: usize, format: KvFormat, fusion: Fusion) -> Vec<Vec<u32>> {
    let mut executor = executor(backends, threads, format);
    let params = params(40, format, fusion);
    let tokens = sequence(1, 0, 0..43);
    let mut logits = step(&mut executor, &params, &tokens[..40], prompt(40));
    for token in &tokens[40..] {
        logits.extend(step(&mut executor, &params, &[*token], generated(1)));
    }
    logits
}

#[test]
fn two_backends_compute_what_one_does() {
    for format in FORMATS {
        let one = logits(1, 2, format, Fusion::default());
        assert_eq!(one, logits(2, 2, format, Fusion::default()), "{format:?}");
    }
}

#[test]
fn an_error_names_its_node_once() {
    let mut executor = executor(1, 1, KvFormat::F32);
    let params = params(1, KvFormat::F32, Fusion::default());
    let (catalog, kv) = (executor.catalog().clone(), executor.kv().layout().clone());
    let mut b = GraphBuilder::new(&catalog, params, &kv);
    let positions = b.input(Input::Positions).expect("an input");
    let x = b.embed(positions, "token_embd").expect("a table");
    b.output(x).expect("f32");
    let graph = b.finish();
    let prepared = executor.prepare(&params, |_| Ok::<_, GraphError>(graph));
    prepared.expect("a plan");
    let step = StepInputs {
        rows: StepRows {
            tokens: prompt(1),
            outputs: prompt(0),
        },
        positions: &[VOCABULARY as i32],
        ..StepInputs::default()
    };
    let error = executor.run(&params, &step).expect_err("no such row");
    assert_eq!(
        error.to_string(),
        "node token_embd (Embed): cpu0: index 301 at row 0: the source has 301 rows"
    );
}

#[test]
fn layers_alternate_between_two_backends() {
    let mut executor = executor(2, 1, KvFormat::F32);
    let params = params(4, KvFormat::F32, Fusion::default());
    prepare(&mut executor, &params);
    let dump = executor.dump(&params).expect("a plan");
    assert!(dump.assigned().contains(&0) && dump.assigned().contains(&1));
    let fused = |name| {
        dump.graph()
            .nodes
            .iter()
            .filter(|n| n.op.name() == name)
            .count()
    };
    assert_eq!((fused("FusedQkv"), fused("FusedFfn")), (LAYERS, LAYERS));
}

#[test]
fn fused_nodes_compute_what_their_parts_do() {
    for format in FORMATS {
        let fused = logits(1, 2, format, Fusion::default());
        assert_eq!(fused, logits(1, 2, format, UNFUSED), "{format:?}");
    }
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    let one = logits(1, 1, KvFormat::F16, Fusion::default());
    for threads in [2, 3] {
        assert_eq!(one, logits(1, threads, KvFormat::F16, Fusion::default()));
    }
}

#[test]
fn chunks_of_a_prompt_do_not_change_a_bit() {
    let params = params(200, KvFormat::Q8_0, Fusion::default());
    let tokens = sequence(2, 100, 0..200);
    let mut whole = executor(1, 2, KvFormat::Q8_0);
    let expected = step(&mut whole, &params, &tokens, prompt(200));
    for chunk in [1, 33, 64] {
        let mut executor = executor(1, 2, KvFormat::Q8_0);
        let mut logits = Vec::new();
        for part in tokens.chunks(chunk) {
            logits.extend(step(&mut executor, &params, part, prompt(part.len())));
        }
        assert_eq!(logits, expected, "chunks of {chunk}");
    }
}

#[test]
fn companions_do_not_change_a_bit() {
    let params = params(300, KvFormat::F16, Fusion::default());
    let (a, b) = (sequence(3, 0, 0..301), sequence(4, 400, 0..20));
    let mut alone = executor(1, 2, KvFormat::F16);
    step(&mut alone, &params, &a[..300], prompt(300));
    let expected_a = step(&mut alone, &params, &a[300..], generated(1));
    let expected_b = step(&mut alone, &params, &b, prompt(20));

    let mut together = executor(1, 2, KvFormat::F16);
    step(&mut together, &params, &a[..300], prompt(300));
    let mut mixed = b.clone();
    mixed.push(a[300]);
    let mut rows = prompt(20);
    rows.generated = 1;
    let logits = step(&mut together, &params, &mixed, rows);
    assert_eq!(logits[..20], expected_b);
    assert_eq!(logits[20..], expected_a);
}
