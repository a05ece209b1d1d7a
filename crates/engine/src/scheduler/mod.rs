//! Many requests on one engine.
//!
//! A [`Scheduler`] owns the engine. Requests come and go between steps; each [`Scheduler::step`] computes one
//! batch: a row for every request that decodes, and a share of the rest for those whose prompt is not complete.
//! What it decides is in `policy`, a pure function of counts; here is what carries it out.

mod cache;
mod decide;
mod policy;
mod prefix;
mod request;

use std::ops::ControlFlow;
use std::sync::Arc;

use minfer_graph::{ArenaError, SequenceId};

pub use request::{Request, RequestId};

use crate::{Chunk, Engine, Error, Event, Role, Wanted};
use policy::{Action, Limits};
use request::{EventSink, Task};

/// How a [`Scheduler`] divides the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerOptions {
    /// Most requests that run at once; those of the engine when absent. Never more than the rows of logits of
    /// a step.
    pub parallel: Option<usize>,
    /// Most prompt rows of a step in which a request decodes: how much a long prompt may slow the others
    /// down. A step without decodes has [`Engine::max_rows`].
    pub prefill_chunk: usize,
    /// Tokens that a request reserves cells for beyond its prompt, and again when it has used them: those who
    /// decode side by side would otherwise take turns in the cells, and be moved.
    pub reserve: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        SchedulerOptions {
            parallel: None,
            prefill_chunk: 128,
            reserve: 64,
        }
    }
}

/// What a scheduler has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests accepted.
    pub requests: usize,
    /// Steps computed.
    pub steps: usize,
    /// Rows computed of prompts, again after a preemption.
    pub prompt_tokens: usize,
    /// Rows computed of generated tokens, again after a preemption.
    pub generated_tokens: usize,
    /// Rows that were shared instead of computed.
    pub shared_tokens: usize,
    /// Sequences of ended requests that were dropped or cut for their cells.
    pub evictions: usize,
    /// Running requests put back for their cells.
    pub preemptions: usize,
}

/// Runs requests side by side on an engine. The text of each is what it gives alone, to the bit, unless it
/// says otherwise ([`Request::share_generated`]).
///
/// - Requests are admitted in order of arrival while [`SchedulerOptions::parallel`] and the cells of the KV
///   cache admit. One that shares a prefix with a prompt being computed waits for it, and is passed meanwhile.
/// - A request shares the longest prefix it has in common with any sequence, in tokens and roles. Sequences
///   of ended requests stay for that until their cells are needed, the least recently used goes first.
/// - When cells are still missing, the request admitted last is put back to the front of the queue. It is
///   computed anew later, every token in its role, and goes on where it was.
/// - One that fills the cache alone ends with [`FinishReason::Length`](crate::FinishReason::Length).
///
/// The times in [`Finish`](crate::Finish) run on the clock: they include the work on others in the same steps.
pub struct Scheduler {
    engine: Engine,
    limits: Limits,
    /// See [`SchedulerOptions::reserve`].
    reserve: usize,
    next_id: u64,
    queue: Vec<Task>,
    /// In order of admission.
    running: Vec<Running>,
    /// Sequences of ended requests, the least recently used first.
    cached: Vec<SequenceId>,
    statistics: Statistics,
}

/// A request that has a sequence.
struct Running {
    task: Task,
    sequence: SequenceId,
    /// Tokens it has reserved cells for.
    room: usize,
}

impl Scheduler {
    /// A scheduler without requests. Sequences that the engine has already keep their cells.
    pub fn new(engine: Engine, options: SchedulerOptions) -> Self {
        let parallel = options.parallel.unwrap_or(engine.parallel()).max(1);
        let parallel = parallel.min(engine.max_logits());
        Scheduler {
            limits: Limits::new(parallel, engine.max_rows(), options.prefill_chunk),
            reserve: options.reserve,
            engine,
            next_id: 0,
            queue: Vec::new(),
            running: Vec::new(),
            cached: Vec::new(),
            statistics: Statistics::default(),
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Gives the engine back without any sequence of this scheduler.
    pub fn into_engine(mut self) -> Engine {
        for sequence in self.running.drain(..).map(|running| running.sequence) {
            release(&mut self.engine, sequence);
        }
        for sequence in self.cached.drain(..) {
            release(&mut self.engine, sequence);
        }
        self.engine
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Cells with an owner, those reserved and those of ended requests included.
    pub fn cells_used(&self) -> usize {
        self.engine.cells() - self.engine.free_cells()
    }

    /// Requests that wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Requests that run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Tokens so far of a request that waits or runs, its prompt first; none of another one.
    pub fn tokens(&self, request: RequestId) -> &[u32] {
        let running = self.running.iter().map(|running| &running.task);
        let mut tasks = running.chain(&self.queue);
        let task = tasks.find(|task| task.id == request);
        task.map_or(&[], Task::tokens)
    }

    /// Accepts a request, which starts at the next step.
    ///
    /// # Errors
    /// No prompt, a prompt longer than the context, an unknown token, a sampling parameter out of range, drafts.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, Error> {
        let id = RequestId(self.next_id);
        self.queue.push(Task::new(id, request, &self.engine)?);
        self.next_id += 1;
        self.statistics.requests += 1;
        Ok(id)
    }

    /// Lets a request end with [`FinishReason::Cancelled`](crate::FinishReason::Cancelled) at the next step, as
    /// [`GenerateOptions::cancel`](crate::GenerateOptions::cancel) does. One that has ended stays as it is.
    pub fn cancel(&mut self, request: RequestId) {
        if let Some(task) = self.tasks().find(|task| task.id == request) {
            task.cancel();
        }
    }

    /// Computes one batch and hands over what came of it. Returns whether there is more to do.
    ///
    /// [`Event::Done`] or an error is the last that is heard of a request. An error ends its request alone,
    /// unless the computation itself failed: that ends all that took part in it. Breaking off from
    /// `on_event` cancels the request; nothing more is heard of it.
    pub fn step(
        &mut self,
        mut on_event: impl FnMut(RequestId, Result<Event<'_>, Error>) -> ControlFlow<()>,
    ) -> bool {
        self.tasks()
            .filter(|t| t.is_cancelled())
            .for_each(Task::cancel);
        self.dismiss(&mut on_event);
        let rows = loop {
            match self.decide() {
                Action::Step(rows) => break rows,
                action => self.carry_out(action),
            }
            self.dismiss(&mut on_event);
        };
        if !rows.is_empty() {
            self.compute(&rows);
            for Running { task, .. } in &mut self.running {
                if task.ending.is_none() {
                    task.show(&mut on_event);
                }
            }
            self.dismiss(&mut on_event);
        }
        !(self.running.is_empty() && self.queue.is_empty())
    }

    /// Computes so many rows of each running request.
    fn compute(&mut self, rows: &[usize]) {
        self.grow(rows);
        let chunks: Vec<_> = self
            .running
            .iter()
            .zip(rows)
            .map(|(running, &rows)| running.chunk(rows, &self.engine))
            .collect();
        match self.engine.step(&chunks) {
            Ok(()) => self.advance(rows),
            Err(error) => self.fail(error),
        }
    }

    /// Reserves the cells that are missing, and some ahead if all get what they need.
    fn grow(&mut self, rows: &[usize]) {
        let missing = self.running.iter().zip(rows);
        let missing: usize = missing.map(|(r, rows)| rows.saturating_sub(r.room)).sum();
        let mut spare = self.engine.free_cells().saturating_sub(missing);
        let (n_ctx, reserve) = (self.engine.n_ctx(), self.reserve);
        for (running, &rows) in self.running.iter_mut().zip(rows) {
            if rows > running.room {
                let ahead = running.task.ahead(n_ctx).min(reserve).min(spare);
                // Without a reserve the step takes what it needs.
                if self.engine.reserve(running.sequence, rows + ahead).is_ok() {
                    running.room = rows + ahead;
                    spare -= ahead;
                }
            }
        }
    }

    /// Takes in what the step computed.
    fn advance(&mut self, rows: &[usize]) {
        self.statistics.steps += 1;
        let n_ctx = self.engine.n_ctx();
        for (chunk, (running, &rows)) in self.running.iter_mut().zip(rows).enumerate() {
            running.room = running.room.saturating_sub(rows);
            match self.engine.roles(running.sequence).last() {
                Some(Role::Prompt) => {
                    self.statistics.prompt_tokens += rows;
                    running.task.count_prefill(rows);
                }
                _ => self.statistics.generated_tokens += rows,
            }
            let logits = self.engine.logits(chunk, 0);
            if !logits.is_empty() {
                running.task.advance(logits, n_ctx);
            }
        }
    }

    /// Makes room if that is what the step lacked; else ends all requests, which all took part in it.
    fn fail(&mut self, error: Error) {
        for running in &mut self.running {
            // A failed step gives up what was reserved.
            running.room = 0;
        }
        use ArenaError::{Fragmented, Full, TooManyRuns};
        if let Error::Arena(Full { .. } | Fragmented { .. } | TooManyRuns { .. }) = error {
            let action = self.consult(policy::relieve);
            self.carry_out(action);
            return;
        }
        let requests = self.running.len();
        let source = Arc::new(error);
        for running in &mut self.running {
            let source = Arc::clone(&source);
            running.task.ending = Some(Err(Error::Step { requests, source }));
        }
    }

    /// Parts from those that have ended.
    fn dismiss(&mut self, on_event: &mut impl EventSink) {
        let ended = self.running.extract_if(.., |r| r.task.ending.is_some());
        for Running { task, sequence, .. } in ended.collect::<Vec<_>>() {
            match &task.ending {
                Some(Err(_)) => release(&mut self.engine, sequence),
                _ => self.keep(sequence),
            }
            task.conclude(on_event);
        }
        for task in self.queue.extract_if(.., |task| task.ending.is_some()) {
            task.conclude(on_event);
        }
    }

    fn tasks(&mut self) -> impl Iterator<Item = &mut Task> {
        let running = self.running.iter_mut().map(|running| &mut running.task);
        running.chain(&mut self.queue)
    }
}

impl Running {
    /// Its next rows.
    fn chunk(&self, rows: usize, engine: &Engine) -> Chunk<'_> {
        let computed = engine.tokens(self.sequence).len();
        let (tokens, role) = self.task.missing(computed);
        let tokens = &tokens[..rows.min(tokens.len())];
        let is_last = computed + tokens.len() == self.task.len();
        Chunk {
            sequence: self.sequence,
            tokens,
            role,
            logits: if is_last { Wanted::Last } else { Wanted::None },
        }
    }
}

/// Ends a sequence, which fails only for one that does not exist.
fn release(engine: &mut Engine, sequence: SequenceId) {
    let _ = engine.release_sequence(sequence);
}
