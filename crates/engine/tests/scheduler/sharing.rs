//! Prefixes are computed once.

use minfer_engine::{EngineOptions, FinishReason, SchedulerOptions};

use crate::support::{Company, alone, greedy, load, tokens};

const MODEL: &str = "tiny-qwen2-q4_0";

fn company(parallel: usize, n_ctx: usize) -> Company {
    let options = EngineOptions {
        n_ctx: Some(n_ctx),
        parallel,
        ..EngineOptions::default()
    };
    Company::new(load(MODEL, &options), SchedulerOptions::default())
}

#[test]
fn sixteen_requests_at_once_compute_their_prefix_once() {
    let mut company = company(16, 600);
    let prefix = tokens(400, 0);
    let private = |i: usize| vec![i as u32; i + 1];
    let ids: Vec<_> = (0..16)
        .map(|i| {
            let prompt = [prefix.clone(), private(i)].concat();
            company.submit(greedy(prompt, 5))
        })
        .collect();
    company.run();
    let statistics = company.scheduler.statistics();
    assert_eq!(statistics.prompt_tokens, 400 + (1..=16).sum::<usize>());
    assert_eq!(statistics.shared_tokens, 15 * 400);
    assert_eq!((statistics.preemptions, statistics.evictions), (0, 0));
    // The last token generated, or that of the end, is not computed.
    let decoded = |id| {
        let finish = company.finish(id);
        finish.generated - usize::from(finish.reason == FinishReason::Length)
    };
    let generated: usize = ids.iter().map(|&id| decoded(id)).sum();
    assert!(generated > 16, "{generated}");
    assert_eq!(statistics.generated_tokens, generated);
    let rows = 400 + (1..=16).sum::<usize>() + generated;
    assert_eq!(company.scheduler.cells_used(), rows);
    for (i, id) in ids.into_iter().enumerate() {
        let finish = company.finish(id);
        let computed = finish.prefill.tokens;
        assert_eq!(finish.reused, if i == 0 { 0 } else { 400 });
        assert_eq!(computed + finish.reused, 401 + i);
    }
}

#[test]
fn a_prompt_that_ended_before_is_shared_but_for_its_last_token() {
    let mut company = company(2, 200);
    let first = company.submit(greedy(tokens(100, 0), 3));
    company.run();
    let again = company.submit(greedy(tokens(100, 0), 3));
    company.run();
    assert_eq!(company.finish(again).reused, 99);
    assert_eq!(company.finish(again).prefill.tokens, 1);
    assert_eq!(company.heard[&first].text, company.heard[&again].text);
    // The second sequence is equal to the first and takes its place.
    assert_eq!(company.scheduler.cells_used(), 102);
}

#[test]
fn what_was_generated_is_shared_only_if_asked_for() {
    let answer = |share_generated| {
        let mut company = company(2, 200);
        let first = company.submit(greedy(tokens(30, 0), 10));
        company.run();
        let mut turn = company.heard[&first].tokens.clone();
        assert_eq!(turn.len(), 39);
        turn.extend(tokens(5, 3));
        let mut request = greedy(turn, 4);
        request.share_generated = share_generated;
        let next = company.submit(request.clone());
        company.run();
        let heard = &company.heard[&next];
        let (text, tokens, _) = alone(&mut load(MODEL, &EngineOptions::default()), &request);
        let same = heard.text == text && heard.tokens == tokens;
        (company.finish(next).reused, same)
    };
    assert_eq!(answer(false), (30, true));
    assert_eq!(answer(true).0, 39);
}

#[test]
fn others_pass_who_waits_for_a_prefix() {
    let mut company = company(4, 1200);
    let long = tokens(1000, 0);
    let first = company.submit(greedy(long.clone(), 2));
    let same = company.submit(greedy([&long[..], &[1, 2]].concat(), 2));
    let other = company.submit(greedy(vec![299, 298, 297], 2));
    company.step();
    assert_eq!(
        (company.scheduler.running(), company.scheduler.queued()),
        (2, 1)
    );
    company.run();
    assert_eq!(company.finish(same).reused, 1000);
    assert_eq!(company.finish(other).reused, 0);
    let last = |id| company.heard[&id].last;
    assert!(last(other) < last(first) && last(first) < last(same));
}
