//! Random arrivals against a cache of cells without contents.

use minfer_testdata::Random;

use super::*;

#[derive(Clone, Debug)]
struct Job {
    id: usize,
    prompt: usize,
    /// Tokens to generate.
    goal: usize,
    generated: usize,
    /// Tokens with rows.
    computed: usize,
    room: usize,
}

impl Job {
    /// All tokens; the last one generated has no row yet.
    fn tokens(&self) -> usize {
        self.prompt + self.generated
    }

    fn decodes(&self) -> bool {
        self.generated > 0 && self.computed + 1 == self.tokens()
    }

    fn running(&self) -> Running {
        Running {
            rows: self.tokens() - self.computed,
            decodes: self.decodes(),
            room: self.room,
        }
    }

    fn queued(&self) -> Queued {
        queued(self.tokens(), (self.goal - self.generated).min(8))
    }
}

/// Cells, and who holds how many.
struct World {
    limits: Limits,
    cells: usize,
    queue: Vec<Job>,
    running: Vec<Job>,
    /// Tokens of sequences that ended.
    cached: Vec<usize>,
    ended: Vec<usize>,
    refused: Vec<usize>,
    preemptions: usize,
    evictions: usize,
}

impl World {
    fn free(&self) -> usize {
        let held: usize = self.running.iter().map(|job| job.computed + job.room).sum();
        let used = held + self.cached.iter().sum::<usize>();
        self.cells
            .checked_sub(used)
            .expect("no cell has two owners")
    }

    fn decide(&self) -> Action {
        let queue: Vec<_> = self.queue.iter().map(Job::queued).collect();
        let running: Vec<_> = self.running.iter().map(Job::running).collect();
        let cached: Vec<_> = self
            .cached
            .iter()
            .map(|&tokens| cached(tokens, 0))
            .collect();
        let now = Moment {
            free: self.free(),
            queue: &queue,
            running: &running,
            cached: &cached,
        };
        next(self.limits, &now)
    }

    /// Decides until a step has been computed.
    fn step(&mut self) {
        for _ in 0..100 {
            match self.decide() {
                Action::Step(rows) => return self.compute(&rows),
                action => self.apply(action),
            }
        }
        panic!("a step was never decided");
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Step(_) => unreachable!("computed by the caller"),
            Action::Admit(first) => {
                assert_eq!(first, 0, "first come first");
                let mut job = self.queue.remove(0);
                let Queued { cells, ahead, .. } = job.queued();
                job.room = (cells + ahead).min(self.free());
                assert!(job.room >= job.tokens(), "admitted without cells");
                self.running.push(job);
            }
            Action::Refuse(first) => {
                let job = self.queue.remove(first);
                assert!(job.tokens() > self.cells, "{job:?} fits");
                self.refused.push(job.id);
            }
            Action::Evict { cached, keep } => {
                assert_eq!((cached, keep), (0, 0), "the oldest");
                self.cached.remove(0);
                self.evictions += 1;
            }
            Action::Preempt => {
                let mut job = self.running.pop().expect("someone runs");
                assert!(!self.running.is_empty(), "the last one is not preempted");
                (job.computed, job.room) = (0, 0);
                self.queue.insert(0, job);
                self.preemptions += 1;
            }
            Action::End => {
                let job = self.running.pop().expect("someone runs");
                assert!(self.running.is_empty() && self.cached.is_empty());
                assert!(job.tokens() > self.cells, "{job:?} fits");
                self.refused.push(job.id);
            }
        }
    }

    fn compute(&mut self, rows: &[usize]) {
        self.check(rows);
        for (i, &rows) in rows.iter().enumerate() {
            let free = self.free();
            let job = &mut self.running[i];
            let grows = rows.saturating_sub(job.room);
            assert!(grows <= free, "cells were promised");
            job.room += grows;
            job.computed += rows;
            job.room -= rows;
            if job.computed == job.tokens() {
                job.generated += 1;
            }
        }
        let running = std::mem::take(&mut self.running);
        let (ended, running): (Vec<Job>, _) = running
            .into_iter()
            .partition(|job| job.generated == job.goal);
        self.running = running;
        for job in ended {
            self.cached.push(job.computed);
            self.ended.push(job.id);
        }
    }

    fn check(&self, rows: &[usize]) {
        assert_eq!(rows.len(), self.running.len());
        assert!(rows.iter().sum::<usize>() <= self.limits.rows);
        let mut catching_up = Vec::new();
        for (job, &rows) in self.running.iter().zip(rows) {
            assert!((1..=job.running().rows).contains(&rows), "{job:?}: {rows}");
            if !job.decodes() {
                catching_up.push(rows);
            }
        }
        if catching_up.len() < rows.len() {
            let most = self.limits.catch_up.max(catching_up.len());
            assert!(catching_up.iter().sum::<usize>() <= most);
        }
    }
}

/// Runs random requests to their ends.
fn run(seed: u64) -> World {
    let mut random = Random(seed);
    let rows = random.between(1, 64);
    let mut world = World {
        limits: Limits::new(random.between(1, 8), rows, random.between(1, 32)),
        cells: random.between(20, 200),
        queue: Vec::new(),
        running: Vec::new(),
        cached: Vec::new(),
        ended: Vec::new(),
        refused: Vec::new(),
        preemptions: 0,
        evictions: 0,
    };
    let mut jobs: Vec<Job> = (0..random.between(1, 20))
        .map(|id| Job {
            id,
            prompt: random.between(1, 80),
            goal: random.between(1, 60),
            generated: 0,
            computed: 0,
            room: 0,
        })
        .collect();
    let total = jobs.len();
    jobs.reverse();
    let mut steps = 0;
    while world.ended.len() + world.refused.len() < total {
        for _ in 0..random.below(3) {
            world.queue.extend(jobs.pop());
        }
        world.step();
        steps += 1;
        // Even one row at a time and one request after the other would be done by then.
        assert!(steps < 20 * 140 + 20, "seed {seed}: no end");
    }
    world
}

#[test]
fn every_request_that_fits_alone_is_served() {
    let (mut preemptions, mut evictions, mut refused) = (0, 0, 0);
    for seed in 0..5000 {
        let world = run(seed);
        preemptions += world.preemptions;
        evictions += world.evictions;
        refused += world.refused.len();
    }
    println!("{preemptions} preemptions, {evictions} evictions, {refused} refused");
    assert!(preemptions > 500 && evictions > 5000 && refused > 500);
}
