//! Between the policy and the engine: what is there to decide upon, and carrying out what was decided.

use minfer_graph::SequenceId;

use super::policy::{self, Action, Moment};
use super::prefix::{Prospect, Rows};
use super::request::Task;
use super::{Running, Scheduler, release};
use crate::Error;

/// What the policy sees.
impl Scheduler {
    pub(super) fn decide(&self) -> Action {
        self.consult(|now| policy::next(self.limits, now))
    }

    pub(super) fn consult(&self, decision: impl FnOnce(&Moment<'_>) -> Action) -> Action {
        let running: Vec<_> = self.running.iter().map(|r| self.count(r)).collect();
        let mut queue = Vec::new();
        let mut parent = None;
        if self.limits.admits(running.len()) {
            for task in &self.queue {
                let prospect = self.prospect(task);
                queue.push(policy::Queued {
                    cells: task.len() - prospect.shared(),
                    ahead: self.ahead(task),
                    awaits: prospect.awaits,
                });
                if !prospect.awaits {
                    parent = prospect.parent;
                    break;
                }
            }
        }
        let cached = self.cached.iter().map(|&sequence| policy::Cached {
            tokens: self.engine.tokens(sequence).len(),
            wanted: match parent {
                Some((wanted, shared)) if wanted == sequence => shared,
                _ => 0,
            },
        });
        decision(&Moment {
            free: self.engine.free_cells(),
            queue: &queue,
            running: &running,
            cached: &cached.collect::<Vec<_>>(),
        })
    }

    fn count(&self, running: &Running) -> policy::Running {
        let computed = self.engine.tokens(running.sequence).len();
        policy::Running {
            rows: running.task.missing(computed).0.len(),
            decodes: running.task.decodes(computed),
            room: running.room,
        }
    }

    /// Cells to reserve beyond its tokens.
    fn ahead(&self, task: &Task) -> usize {
        task.ahead(self.engine.n_ctx()).min(self.reserve)
    }

    fn prospect(&self, task: &Task) -> Prospect<SequenceId> {
        let running = self.running.iter().map(|running| running.sequence);
        let sequences = running.chain(self.cached.iter().copied());
        let computed = sequences.map(|sequence| (sequence, self.computed(sequence)));
        let coming = self.running.iter().map(|running| running.task.prompt());
        Prospect::of(task.shareable(), task.any_role(), computed, coming)
    }

    /// Rows of a sequence that others may share.
    pub(super) fn computed(&self, sequence: SequenceId) -> Rows<'_> {
        let rows = Rows {
            tokens: self.engine.tokens(sequence),
            roles: self.engine.roles(sequence),
        };
        rows.first(self.engine.shareable(sequence))
    }
}

/// What the policy wants.
impl Scheduler {
    pub(super) fn carry_out(&mut self, action: Action) {
        let free = self.engine.free_cells();
        match action {
            // The caller's, who has the rows.
            Action::Step(_) => {}
            Action::Admit(index) => self.admit(index),
            Action::Refuse(index) => {
                if let Some(task) = self.queue.get_mut(index) {
                    task.outgrow(free);
                }
            }
            Action::End => {
                if let Some(running) = self.running.last_mut() {
                    running.task.outgrow(free);
                }
            }
            Action::Evict { cached, keep } => self.evict(cached, keep),
            Action::Preempt => self.preempt(),
        }
    }

    fn admit(&mut self, index: usize) {
        let mut task = self.queue.remove(index);
        match self.place(&mut task) {
            Ok((sequence, room)) => self.running.push(Running {
                task,
                sequence,
                room,
            }),
            Err(error) => {
                task.ending = Some(Err(error));
                self.queue.push(task);
            }
        }
    }

    /// Gives a task a sequence, which shares what can be shared, and cells for the rest.
    fn place(&mut self, task: &mut Task) -> Result<(SequenceId, usize), Error> {
        let sequence = match self.prospect(task).parent {
            Some((parent, shared)) => {
                self.touch(parent);
                self.engine.fork_sequence(parent, shared)?
            }
            None => self.engine.create_sequence(),
        };
        let shared = self.engine.tokens(sequence).len();
        let room = task.len() - shared + self.ahead(task);
        let room = room.min(self.engine.free_cells());
        if let Err(error) = self.engine.reserve(sequence, room) {
            release(&mut self.engine, sequence);
            return Err(error);
        }
        task.admit(self.engine.roles(sequence));
        self.statistics.shared_tokens += shared;
        Ok((sequence, room))
    }

    fn preempt(&mut self) {
        if let Some(Running { task, sequence, .. }) = self.running.pop() {
            release(&mut self.engine, sequence);
            self.queue.insert(0, task);
            self.statistics.preemptions += 1;
        }
    }
}
