use std::sync::atomic::AtomicU32;

use super::*;

fn pool(threads: usize) -> Pool {
    Pool::new(threads).expect("threads")
}

#[test]
fn every_worker_runs_once_per_job() {
    for threads in 1..=5 {
        let pool = pool(threads);
        let calls: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
        for _ in 0..2000 {
            pool.run(|w| {
                calls[w].fetch_add(1, Ordering::Relaxed);
            });
        }
        assert!(calls.iter().all(|c| c.load(Ordering::Relaxed) == 2000));
    }
}

#[test]
fn chunks_cover_the_range_once() {
    let pool = pool(3);
    for (n, chunk) in [(0, 4), (1, 4), (4, 4), (5, 4), (1000, 7), (3, 0)] {
        let hits: Vec<AtomicU32> = (0..n).map(|_| AtomicU32::new(0)).collect();
        pool.for_each_chunk(n, chunk, |range| {
            assert!(range.len() <= chunk.max(1));
            for i in range {
                hits[i].fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn scratch_is_exclusive_to_a_worker() {
    let pool = pool(4);
    let mut sums = vec![0usize; 4];
    for _ in 0..100 {
        pool.for_each_chunk_with(&mut sums, 1000, 3, |sum, range| {
            *sum += range.sum::<usize>()
        });
    }
    assert_eq!(sums.iter().sum::<usize>(), 100 * 999 * 1000 / 2);
}

#[test]
fn a_job_starts_after_the_workers_went_to_sleep() {
    let pool = pool(2);
    let calls = AtomicU32::new(0);
    for _ in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        pool.run(|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    assert_eq!(calls.load(Ordering::Relaxed), 10);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_survives() {
    let pool = pool(3);
    for victim in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|w| assert_ne!(w, victim, "worker {w} fails"));
        }));
        let payload = result.expect_err("the panic is propagated");
        let message = payload.downcast_ref::<String>().expect("a message");
        assert!(message.contains(&format!("worker {victim} fails")));
        let calls = AtomicU32::new(0);
        pool.run(|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn callers_and_pools_contend_for_few_cores() {
    let shared = pool(8);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = pool(4);
                for _ in 0..200 {
                    let sum = AtomicUsize::new(0);
                    shared.for_each_chunk(100, 1, |r| {
                        sum.fetch_add(r.start, Ordering::Relaxed);
                    });
                    own.for_each_chunk(100, 1, |r| {
                        sum.fetch_add(r.start, Ordering::Relaxed);
                    });
                    assert_eq!(sum.load(Ordering::Relaxed), 2 * 4950);
                }
            });
        }
    });
}
