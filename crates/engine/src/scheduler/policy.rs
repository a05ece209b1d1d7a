//! What to do next, decided from counts alone: who is admitted, evicted, preempted, and which rows a step
//! computes.
//!
//! [`next`] is asked until it says [`Action::Step`]; each action before changes the moment that it sees.

#[cfg(test)]
mod tests;

/// Bounds of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most requests that run at once.
    parallel: usize,
    /// Most rows of a step; never below `parallel`, so that nobody who runs is left out.
    rows: usize,
    /// Most rows of a step that catch up while some other decodes.
    catch_up: usize,
}

impl Limits {
    pub fn new(parallel: usize, rows: usize, catch_up: usize) -> Self {
        Limits {
            parallel: parallel.min(rows),
            rows,
            catch_up,
        }
    }

    /// Whether one more may run beside so many.
    pub fn admits(self, running: usize) -> bool {
        running < self.parallel
    }
}

/// A request that has a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    /// Rows that it could compute now, at least one.
    pub rows: usize,
    /// Whether that is the one row of the token it chose last. Otherwise it catches up: with its prompt, or
    /// with all it had before it was preempted.
    pub decodes: bool,
    /// Rows it has reserved cells for.
    pub room: usize,
}

/// A request that has none.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// Cells for what it cannot share.
    pub cells: usize,
    /// Cells to reserve beyond, for what it will generate.
    pub ahead: usize,
    /// Whether a running request is about to compute rows that it could share.
    pub awaits: bool,
}

/// The sequence of a request that ended.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    pub tokens: usize,
    /// Leading tokens that the first in the queue who does not wait for a prefix is to share.
    pub wanted: usize,
}

/// What there is to decide upon.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Cells without an owner.
    pub free: usize,
    /// First come first. May be cut after the first who does not wait for a prefix.
    pub queue: &'a [Queued],
    /// In order of admission.
    pub running: &'a [Running],
    /// Least recently used first.
    pub cached: &'a [Cached],
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Gives this one of the queue a sequence.
    Admit(usize),
    /// Ends this one of the queue: it does not fit even alone.
    Refuse(usize),
    /// Keeps only the first tokens of this cached sequence.
    Evict { cached: usize, keep: usize },
    /// Puts the request admitted last back to the front of the queue.
    Preempt,
    /// Ends the only running request, which does not fit any more.
    End,
    /// Computes so many rows of each running request.
    Step(Vec<usize>),
}

/// What to do now. Those who run come first, then the queue in its order.
pub fn next(limits: Limits, now: &Moment<'_>) -> Action {
    let rows = share(limits, now.running);
    let needed = missing(now.running, &rows);
    if needed > now.free {
        return relieve(now);
    }
    if limits.admits(now.running.len())
        && let Some(first) = now.queue.iter().position(|queued| !queued.awaits)
    {
        let Queued { cells, ahead, .. } = now.queue[first];
        let alone = now.running.is_empty();
        match spare(now.cached) {
            _ if needed + cells + ahead <= now.free => return Action::Admit(first),
            Some(evict) => return evict,
            None if alone && cells <= now.free => return Action::Admit(first),
            None if alone => return Action::Refuse(first),
            None => {}
        }
    }
    Action::Step(rows)
}

/// What makes room for those who run.
pub fn relieve(now: &Moment<'_>) -> Action {
    match spare(now.cached) {
        Some(evict) => evict,
        None if !now.cached.is_empty() => Action::Evict { cached: 0, keep: 0 },
        None if now.running.len() > 1 => Action::Preempt,
        None => Action::End,
    }
}

/// Evicts the least recently used tokens, but none that are to be shared next: those cost as many cells as
/// they free.
fn spare(cached: &[Cached]) -> Option<Action> {
    let cached_at = cached.iter().position(|c| c.tokens > c.wanted)?;
    Some(Action::Evict {
        cached: cached_at,
        keep: cached[cached_at].wanted,
    })
}

/// Cells that are missing for these rows.
pub fn missing(running: &[Running], rows: &[usize]) -> usize {
    let missing = |(r, &rows): (&Running, &usize)| rows.saturating_sub(r.room);
    running.iter().zip(rows).map(missing).sum()
}

/// Rows of each in the next step: one for who decodes; the others share the rest evenly, and what one does
/// not need goes to the others.
fn share(limits: Limits, running: &[Running]) -> Vec<usize> {
    let mut shares = vec![1; running.len()];
    let mut behind: Vec<usize> = (0..running.len())
        .filter(|&i| !running[i].decodes)
        .collect();
    let decoding = running.len() - behind.len();
    let mut left = limits.rows.saturating_sub(decoding);
    if decoding > 0 {
        left = left.min(limits.catch_up.max(behind.len()));
    }
    behind.sort_by_key(|&i| running[i].rows);
    for (served, &i) in behind.iter().enumerate() {
        shares[i] = running[i].rows.min(left.div_ceil(behind.len() - served));
        left -= shares[i];
    }
    shares
}
