//! Whatever happens around a request, it gives what it gives alone.

use minfer_engine::sampling::{PenaltyParams, SamplerParams};
use minfer_engine::{
    Engine, EngineOptions, FinishReason, GenerateOptions, Request, RequestId, SchedulerOptions,
    Statistics,
};
use minfer_graph::KvFormat;
use minfer_testdata::Random;

use crate::support::{Company, alone, load, occupy, tokens};

const N_CTX: usize = 96;
const HISTORIES: u64 = 160;

fn random(seed: u64) -> Random {
    let mut random = Random(seed);
    // Neighbouring seeds begin alike.
    for _ in 0..5 {
        random.below(2);
    }
    random
}

fn engine_options(random: &mut Random, format: KvFormat) -> EngineOptions {
    EngineOptions {
        n_ctx: Some(N_CTX),
        kv_format: Some(format),
        parallel: random.between(1, 8),
        ubatch: random.of(&[1, 3, 8, 16, 40, 96]),
        threads: Some(random.between(1, 2)),
        ..EngineOptions::default()
    }
}

/// Prompts start alike more often than not, some are what others have said.
fn request(random: &mut Random, earlier: &[Vec<u32>]) -> Request {
    let mut prompt = match random.below(4) {
        0 if !earlier.is_empty() => earlier[random.below(earlier.len())].clone(),
        _ => tokens(random.of(&[3, 20, 50]), random.below(2)),
    };
    prompt.truncate(random.between(2, 50));
    prompt.extend(tokens(random.below(12), random.below(9)));
    let mut sampler = SamplerParams {
        seed: Some(random.below(1000) as u64),
        ..SamplerParams::default()
    };
    if random.one_in(3) {
        sampler = SamplerParams::greedy();
    }
    if random.one_in(3) {
        sampler.penalties = PenaltyParams {
            presence: 0.5,
            ..PenaltyParams::default()
        };
    }
    let stop = random.one_in(4).then(|| "e".to_owned());
    Request {
        prompt,
        options: GenerateOptions {
            sampler,
            max_tokens: (!random.one_in(5)).then(|| random.below(40)),
            stop: stop.into_iter().collect(),
            ..GenerateOptions::default()
        },
        share_generated: random.one_in(8),
    }
}

/// One history of up to a dozen requests; what the scheduler did.
fn run(seed: u64, model: &str, format: KvFormat, reference: &mut Engine) -> Statistics {
    let mut random = random(seed);
    let mut engine = load(model, &engine_options(&mut random, format));
    let cells = random.between(N_CTX, engine.cells().min(2 * N_CTX));
    occupy(&mut engine, cells);
    let options = SchedulerOptions {
        prefill_chunk: random.of(&[1, 5, 16, 128]),
        reserve: random.of(&[0, 1, 5, 20, 64]),
        ..SchedulerOptions::default()
    };
    let mut company = Company::new(engine, options);
    let mut requests: Vec<(RequestId, Request)> = Vec::new();
    let mut said: Vec<Vec<u32>> = Vec::new();
    let mut cancelled = Vec::new();
    let count = random.between(1, 12);
    loop {
        if requests.len() < count && random.one_in(3) {
            let request = request(&mut random, &said);
            requests.push((company.submit(request.clone()), request));
        }
        if !requests.is_empty() && random.one_in(40) {
            let (id, _) = requests[random.below(requests.len())];
            company.scheduler.cancel(id);
            cancelled.push(id);
        }
        let more = company.step();
        assert!(
            company.steps < 5000,
            "seed {seed}, {model}, {format:?}: no end"
        );
        said = company
            .heard
            .values()
            .map(|heard| heard.tokens.clone())
            .collect();
        said.retain(|tokens| !tokens.is_empty());
        if !more && requests.len() == count {
            break;
        }
    }
    for (id, request) in requests {
        let (text, tokens, finish) = alone(reference, &request);
        let heard = &company.heard[&id];
        let context = format!("seed {seed}, {model}, {format:?}, {id}: {request:?}");
        let end = heard.finish();
        if request.share_generated {
            continue;
        }
        assert!(
            tokens.starts_with(&heard.tokens) || heard.tokens.starts_with(&tokens),
            "{context}"
        );
        if cancelled.contains(&id) && end.reason == FinishReason::Cancelled {
            assert!(
                text.starts_with(heard.text.trim_end_matches('\u{fffd}')),
                "{context}"
            );
            continue;
        }
        assert_eq!(heard.text, text, "{context}");
        assert_eq!(end.reason, finish.reason, "{context}");
        assert_eq!(end.generated, finish.generated, "{context}");
    }
    company.scheduler.statistics()
}

#[test]
fn every_request_gives_what_it_gives_alone() {
    let models = [
        ("tiny-qwen2-q4_0", KvFormat::F32),
        ("tiny-qwen2-q5_k", KvFormat::F16),
        ("tiny-qwen2-bf16", KvFormat::Q8_0),
        ("tiny-qwen3-q4_k", KvFormat::F32),
    ];
    let mut total = Statistics::default();
    for (model, format) in models {
        let options = EngineOptions {
            n_ctx: Some(N_CTX),
            kv_format: Some(format),
            threads: Some(1),
            ..EngineOptions::default()
        };
        let mut reference = load(model, &options);
        for seed in 0..HISTORIES / 4 {
            let done = run(seed, model, format, &mut reference);
            total.requests += done.requests;
            total.steps += done.steps;
            total.shared_tokens += done.shared_tokens;
            total.prompt_tokens += done.prompt_tokens;
            total.generated_tokens += done.generated_tokens;
            total.evictions += done.evictions;
            total.preemptions += done.preemptions;
        }
    }
    println!("{HISTORIES} histories: {total:?}");
    assert!(total.preemptions > 20 && total.evictions > 100 && total.shared_tokens > 1000);
}
