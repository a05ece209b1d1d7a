//! Nobody waits for a long prompt.

use minfer_engine::{EngineOptions, SchedulerOptions};

use crate::support::{Company, greedy, load, tokens};

fn company() -> Company {
    let options = EngineOptions {
        n_ctx: Some(700),
        parallel: 4,
        ..EngineOptions::default()
    };
    let chunks = SchedulerOptions {
        prefill_chunk: 32,
        ..SchedulerOptions::default()
    };
    Company::new(load("tiny-qwen2-q4_0", &options), chunks)
}

#[test]
fn a_long_prompt_costs_its_neighbour_no_token() {
    let mut company = company();
    let neighbour = company.submit(greedy(tokens(10, 1), 60));
    company.step();
    let long = company.submit(greedy(tokens(600, 0), 1));
    while company.heard[&long].end.is_none() {
        let before = company.scheduler.tokens(neighbour).len();
        company.step();
        assert_eq!(company.scheduler.tokens(neighbour).len(), before + 1);
    }
    // 600 rows in chunks of 32, the last of 24.
    assert_eq!(company.heard[&long].last, 1 + 19);
    assert!(company.heard[&neighbour].end.is_none());
}

#[test]
fn a_short_prompt_ends_long_before_a_long_one() {
    let mut company = company();
    company.submit(greedy(tokens(10, 1), 60));
    company.step();
    let long = company.submit(greedy(tokens(600, 0), 1));
    company.step();
    let short = company.submit(greedy(tokens(20, 2), 3));
    company.run();
    // Half of a chunk of 32 is the short one's; the second step has the rest of its 20 rows.
    assert_eq!(company.heard[&short].last, 2 + 2 + 2);
    // The other half, then the 28 left by the last 4, then whole chunks: 600 = 32 + 16 + 28 + 16 * 32 + 12.
    assert_eq!(company.heard[&long].last, 1 + 1 + 2 + 17);
}
