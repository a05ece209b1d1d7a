//! Schedules computed by hand, and a property test over random histories.

mod history;

use super::*;

const LIMITS: Limits = Limits {
    parallel: 4,
    rows: 512,
    catch_up: 128,
};

/// Catches up with `rows` rows, all reserved.
fn behind(rows: usize) -> Running {
    Running {
        rows,
        decodes: false,
        room: rows,
    }
}

fn decodes(room: usize) -> Running {
    Running {
        rows: 1,
        decodes: true,
        room,
    }
}

fn queued(cells: usize, ahead: usize) -> Queued {
    Queued {
        cells,
        ahead,
        awaits: false,
    }
}

fn awaits(cells: usize) -> Queued {
    Queued {
        awaits: true,
        ..queued(cells, 0)
    }
}

fn cached(tokens: usize, wanted: usize) -> Cached {
    Cached { tokens, wanted }
}

fn decide(free: usize, queue: &[Queued], running: &[Running], cached: &[Cached]) -> Action {
    let now = Moment {
        free,
        queue,
        running,
        cached,
    };
    next(LIMITS, &now)
}

fn step(rows: &[usize]) -> Action {
    Action::Step(rows.to_vec())
}

#[test]
fn prompts_share_the_whole_step_while_nothing_decodes() {
    assert_eq!(decide(0, &[], &[behind(600)], &[]), step(&[512]));
    assert_eq!(
        decide(0, &[], &[behind(600), behind(600)], &[]),
        step(&[256, 256])
    );
    // 512 / 3, rounded up for those who have less to do; what the short one leaves goes to the others.
    assert_eq!(
        decide(0, &[], &[behind(600), behind(600), behind(600)], &[]),
        step(&[171, 171, 170])
    );
    assert_eq!(
        decide(0, &[], &[behind(600), behind(10), behind(700)], &[]),
        step(&[251, 10, 251])
    );
}

#[test]
fn a_decode_costs_prompts_all_but_a_chunk() {
    assert_eq!(
        decide(0, &[], &[behind(600), decodes(9)], &[]),
        step(&[128, 1])
    );
    assert_eq!(
        decide(
            0,
            &[],
            &[decodes(9), behind(600), behind(20), decodes(9)],
            &[]
        ),
        step(&[1, 108, 20, 1])
    );
}

#[test]
fn everyone_who_runs_gets_a_row_of_the_smallest_step() {
    let limits = Limits::new(9, 4, 1);
    assert_eq!(limits.parallel, 4);
    let running = [behind(50), decodes(9), behind(60), decodes(9)];
    assert_eq!(share(limits, &running), [1, 1, 1, 1]);
}

#[test]
fn the_queue_is_served_in_its_order_while_there_is_room() {
    let queue = [queued(100, 64), queued(10, 10)];
    assert_eq!(decide(164, &queue, &[], &[]), Action::Admit(0));
    // The decode takes one cell of the 164 that the first needs; the second, which would fit, stays behind.
    let running = [decodes(0)];
    assert_eq!(decide(164, &queue, &running, &[]), step(&[1]));
    assert_eq!(decide(165, &queue, &running, &[]), Action::Admit(0));
    let four = [decodes(5); 4];
    assert_eq!(decide(1000, &queue, &four, &[]), step(&[1, 1, 1, 1]));
}

#[test]
fn who_awaits_a_prefix_is_passed() {
    let queue = [awaits(10), awaits(20), queued(30, 0)];
    assert_eq!(decide(100, &queue, &[behind(400)], &[]), Action::Admit(2));
    assert_eq!(decide(100, &queue[..2], &[behind(400)], &[]), step(&[400]));
}

#[test]
fn the_least_recently_used_is_evicted_but_for_what_is_wanted() {
    let cache = [cached(50, 20), cached(40, 0)];
    let queue = [queued(30, 0)];
    let evict = |cached, keep| Action::Evict { cached, keep };
    assert_eq!(decide(29, &queue, &[], &cache), evict(0, 20));
    let cache = [cached(20, 20), cached(40, 0)];
    assert_eq!(decide(29, &queue, &[], &cache), evict(1, 0));
    let cache = [cached(20, 20)];
    assert_eq!(decide(29, &queue, &[], &cache), Action::Refuse(0));
    assert_eq!(decide(29, &queue, &[decodes(1)], &cache), step(&[1]));
    // For those who run, nothing is spared.
    assert_eq!(decide(0, &queue, &[decodes(0)], &cache), evict(0, 0));
}

#[test]
fn the_last_admitted_makes_room_for_the_others() {
    let running = [decodes(0), decodes(0), behind(7)];
    assert_eq!(decide(2, &[], &running, &[]), step(&[1, 1, 7]));
    assert_eq!(decide(1, &[], &running, &[]), Action::Preempt);
    assert_eq!(decide(0, &[], &running[..1], &[]), Action::End);
}

#[test]
fn what_is_reserved_ahead_is_waived_for_one_alone() {
    let queue = [queued(100, 64)];
    assert_eq!(decide(163, &queue, &[], &[]), Action::Admit(0));
    assert_eq!(decide(100, &queue, &[], &[]), Action::Admit(0));
    assert_eq!(decide(99, &queue, &[], &[]), Action::Refuse(0));
    assert_eq!(decide(163, &queue, &[decodes(1)], &[]), step(&[1]));
}
