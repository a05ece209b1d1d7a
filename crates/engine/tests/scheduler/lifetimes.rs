//! Requests that are refused, cancelled, too large, or fail.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minfer_engine::sampling::SamplerParams;
use minfer_engine::{
    DraftMethod, DraftOptions, EngineOptions, Error, Event, FinishReason, GenerateOptions, Request,
    Scheduler, SchedulerOptions,
};

use crate::support::{Company, alone, fertile, greedy, load, occupy, tokens};

const MODEL: &str = "tiny-qwen2-q4_0";

fn options(parallel: usize, n_ctx: usize) -> EngineOptions {
    EngineOptions {
        n_ctx: Some(n_ctx),
        parallel,
        ..EngineOptions::default()
    }
}

fn company(parallel: usize, n_ctx: usize, cells: usize) -> Company {
    let mut engine = load(MODEL, &options(parallel, n_ctx));
    occupy(&mut engine, cells);
    Company::new(engine, SchedulerOptions::default())
}

#[test]
fn unusable_requests_are_refused_at_once() {
    let engine = load(MODEL, &options(2, 50));
    let mut scheduler = Scheduler::new(engine, SchedulerOptions::default());
    let mut submit = |prompt| scheduler.submit(greedy(prompt, 1));
    let error = submit(tokens(51, 0)).expect_err("51 of 50");
    assert_eq!(
        error.to_string(),
        "the prompt has 51 tokens, but 50 of the context's 50 are left"
    );
    assert!(matches!(submit(vec![]), Err(Error::EmptyPrompt)));
    let error = submit(vec![1, 1_000_000]).expect_err("no such token");
    assert!(
        matches!(error, Error::UnknownToken { index: 1, .. }),
        "{error}"
    );
    let hot = Request {
        prompt: vec![1],
        options: GenerateOptions {
            sampler: SamplerParams {
                temperature: f32::NAN,
                ..SamplerParams::default()
            },
            ..GenerateOptions::default()
        },
        share_generated: false,
    };
    assert!(matches!(
        scheduler.submit(hot),
        Err(Error::SamplerParams(_))
    ));
    assert_eq!(scheduler.statistics().requests, 0);
    assert!(!scheduler.step(|id, _| panic!("{id}")));
}

#[test]
fn drafts_are_refused_instead_of_being_left_out() {
    let options = EngineOptions {
        draft: 8,
        ..options(2, 50)
    };
    let mut scheduler = Scheduler::new(load(MODEL, &options), SchedulerOptions::default());
    let mut request = greedy(tokens(10, 0), 4);
    request.options.draft = DraftOptions {
        method: DraftMethod::NGRAM,
        max_tokens: 5,
    };
    let error = scheduler.submit(request.clone()).expect_err("drafts");
    assert_eq!(
        error.to_string(),
        "drafts of 5 tokens are asked for, but a scheduler drafts nothing"
    );
    assert_eq!(scheduler.queued(), 0);
    request.options.draft.method = DraftMethod::None;
    scheduler.submit(request).expect("no drafts");
}

#[test]
fn a_cancelled_request_makes_room_at_the_next_step() {
    let cancels: [fn(&mut Company, &Arc<AtomicBool>); 2] = [
        |company, _| {
            let first = *company.heard.keys().next().expect("submitted");
            company.scheduler.cancel(first);
        },
        |_, flag| flag.store(true, Ordering::Relaxed),
    ];
    for cancel in cancels {
        let mut company = company(2, 100, 100);
        let flag = Arc::new(AtomicBool::new(false));
        let mut request = greedy(fertile(&mut load(MODEL, &options(1, 100)), 60, 40), 40);
        request.options.cancel = Some(Arc::clone(&flag));
        let first = company.submit(request);
        let second = company.submit(greedy(tokens(60, 1), 3));
        company.step();
        company.step();
        assert_eq!(
            (company.scheduler.running(), company.scheduler.queued()),
            (1, 1)
        );
        assert_eq!(company.scheduler.cells_used(), 200);
        cancel(&mut company, &flag);
        company.step();
        assert_eq!(company.finish(first).reason, FinishReason::Cancelled);
        assert_eq!(company.finish(first).generated, 2);
        assert_eq!(
            (company.scheduler.running(), company.scheduler.queued()),
            (1, 0)
        );
        company.run();
        assert_eq!(company.finish(second).generated, 3);
        // The second needed the first one's cells: 100 that were taken before, 60 + 2 rows.
        assert_eq!(company.scheduler.statistics().evictions, 1);
        assert_eq!(company.scheduler.cells_used(), 100 + 62);
    }
}

#[test]
fn nothing_more_is_heard_after_breaking_off() {
    let engine = load(MODEL, &options(2, 100));
    let mut scheduler = Scheduler::new(engine, SchedulerOptions::default());
    let gone = scheduler.submit(greedy(tokens(10, 0), 50)).expect("valid");
    let stays = scheduler.submit(greedy(tokens(10, 1), 8)).expect("valid");
    let (mut heard, mut done) = (0, None);
    let mut steps = 0;
    while scheduler.step(|id, event| {
        if id == gone {
            heard += 1;
            return ControlFlow::Break(());
        }
        if let Ok(Event::Done(finish)) = event {
            done = Some((id, finish.generated));
        }
        ControlFlow::Continue(())
    }) {
        steps += 1;
    }
    assert_eq!(heard, 1);
    assert_eq!(done, Some((stays, 8)));
    assert_eq!(steps, 7);
}

#[test]
fn a_request_that_fills_the_cache_alone_ends_there() {
    let mut company = company(1, 100, 40);
    let long = company.submit(greedy(tokens(30, 0), 50));
    let larger = company.submit(greedy(tokens(41, 1), 50));
    let fits = company.submit(greedy(tokens(40, 2), 1));
    company.run();
    let finish = company.finish(long);
    // Ten are decoded; the eleventh is sampled from the last one's logits.
    assert_eq!(
        (&finish.reason, finish.generated),
        (&FinishReason::Length, 11)
    );
    assert_eq!(
        company.heard[&larger].end,
        Some(Err(
            "the prompt needs 41 cells of the KV cache, of which 40 are free".into()
        ))
    );
    assert_eq!(company.finish(fits).generated, 1);
}

#[test]
fn a_preempted_request_goes_on_as_if_nothing_had_happened() {
    // Each has 64 cells ahead of its prompt: the second is put back when the first needs more.
    let mut reference = load(MODEL, &options(1, 200));
    let requests = [30, 5].map(|len| greedy(fertile(&mut reference, len, 120), 120));
    let mut company = company(2, 200, 200);
    let ids = requests.clone().map(|request| company.submit(request));
    company.run();
    assert_eq!(company.scheduler.statistics().preemptions, 1);
    for (id, request) in ids.into_iter().zip(requests) {
        let (text, _, finish) = alone(&mut reference, &request);
        assert_eq!(company.heard[&id].text, text);
        assert_eq!(company.finish(id).generated, finish.generated);
    }
}

#[test]
fn a_context_that_is_full_ends_the_text() {
    let mut company = company(2, 50, 100);
    let full = company.submit(greedy(tokens(50, 0), 9));
    let nearly = company.submit(greedy(tokens(48, 1), 9));
    let none = company.submit(greedy(tokens(8, 2), 0));
    company.run();
    let generated = |id| {
        (
            company.finish(id).reason.clone(),
            company.finish(id).generated,
        )
    };
    assert_eq!(generated(full), (FinishReason::Length, 1));
    assert_eq!(generated(nearly), (FinishReason::Length, 3));
    assert_eq!(generated(none), (FinishReason::Length, 0));
}
