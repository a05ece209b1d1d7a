//! What is asked of the scheduler, and how far it has come.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Instant;

use super::prefix::Rows;
use crate::generate::Continuation;
use crate::{DraftMethod, Engine, Error, Event, FinishReason, GenerateOptions, Role};

/// A prompt to continue.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Tokens of the prompt.
    pub prompt: Vec<u32>,
    /// How to continue it, without drafts.
    pub options: GenerateOptions,
    /// Also shares rows that other requests computed as they generated, as the next turn of a chat has in
    /// its prompt. Decode arithmetic is not prefill arithmetic: the text may then differ from what the
    /// request gives alone. Without it every text is the same to the bit in any company.
    pub share_generated: bool,
}

/// Names a request of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.0)
    }
}

/// A request with its tokens so far. They outlive its sequence.
pub(super) struct Task {
    pub id: RequestId,
    tokens: Vec<u32>,
    /// Role that each token is computed in, however often.
    roles: Vec<Role>,
    prompt: usize,
    /// Whether roles matter for what it shares at its first admission.
    any_role: bool,
    continuation: Continuation,
    /// When it was admitted first.
    admitted: Option<Instant>,
    /// When its prompt was complete.
    prefilled: Option<Instant>,
    /// Why it leaves, once that is known.
    pub ending: Option<Result<FinishReason, Error>>,
    /// Whether its consumer does not want to hear more.
    deaf: bool,
}

impl Task {
    /// # Errors
    /// As [`Scheduler::submit`](super::Scheduler::submit).
    pub fn new(id: RequestId, request: Request, engine: &Engine) -> Result<Self, Error> {
        engine.check_tokens(&request.prompt)?;
        let draft = &request.options.draft;
        if draft.method != DraftMethod::None {
            return Err(Error::DraftScheduled {
                draft: draft.max_tokens,
            });
        }
        let prompt = request.prompt.len();
        let n_ctx = engine.n_ctx();
        if prompt > n_ctx {
            return Err(Error::PromptTooLong {
                prompt,
                used: 0,
                n_ctx,
            });
        }
        let tokenizer = engine.tokenizer().clone();
        let mut continuation = Continuation::new(tokenizer, request.options, n_ctx)?;
        continuation.accept(&request.prompt);
        Ok(Task {
            id,
            roles: vec![Role::Prompt; prompt],
            tokens: request.prompt,
            prompt,
            any_role: request.share_generated,
            continuation,
            admitted: None,
            prefilled: None,
            ending: None,
            deaf: false,
        })
    }

    /// The prompt and what was generated; the last one generated has no row yet.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    pub fn has_generated(&self) -> bool {
        self.len() > self.prompt
    }

    /// The rows that another sequence may have: all but the last, whose logits are needed.
    pub fn shareable(&self) -> Rows<'_> {
        self.rows().first(self.len() - 1)
    }

    pub fn prompt(&self) -> Rows<'_> {
        self.rows().first(self.prompt)
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            tokens: &self.tokens,
            roles: &self.roles,
        }
    }

    /// See [`Request::share_generated`].
    pub fn any_role(&self) -> bool {
        self.any_role && self.admitted.is_none()
    }

    /// Notes that it has a sequence, which starts with `shared` rows of these roles.
    pub fn admit(&mut self, shared: &[Role]) {
        if self.admitted.is_none() {
            self.admitted = Some(Instant::now());
            self.continuation.reused = shared.len();
            self.roles[..shared.len()].copy_from_slice(shared);
        }
    }

    /// Tokens after the `computed` ones, up to the end or to where the role changes.
    pub fn missing(&self, computed: usize) -> (&[u32], Role) {
        let role = self.roles[computed];
        let same = self.roles[computed..].iter().take_while(|&&r| r == role);
        (&self.tokens[computed..][..same.count()], role)
    }

    /// Whether the row after the `computed` ones is that of the token chosen last.
    pub fn decodes(&self, computed: usize) -> bool {
        self.has_generated() && computed + 1 == self.len()
    }

    /// Most tokens that can follow its last one.
    pub fn ahead(&self, n_ctx: usize) -> usize {
        let most = self.continuation.remaining();
        most.min(n_ctx.saturating_sub(self.len()))
    }

    /// Counts rows of the prompt that were computed.
    pub fn count_prefill(&mut self, rows: usize) {
        self.continuation.prefill.tokens += rows;
    }

    /// Goes on from the logits after its last token; notes if it ends.
    pub fn advance(&mut self, logits: &[f32], n_ctx: usize) {
        self.time();
        let chosen = match self.continuation.is_complete() {
            true => Ok(ControlFlow::Break(FinishReason::Length)),
            false => self.continuation.choose(logits, self.len()),
        };
        self.ending = match chosen {
            Err(error) => Some(Err(error)),
            Ok(ControlFlow::Break(reason)) => Some(Ok(reason)),
            Ok(ControlFlow::Continue(token)) => {
                self.tokens.push(token);
                self.roles.push(Role::Generated);
                let full = self.continuation.is_complete() || self.len() > n_ctx;
                full.then_some(Ok(FinishReason::Length))
            }
        };
    }

    fn time(&mut self) {
        let now = Instant::now();
        match (self.prefilled, self.admitted) {
            (Some(since), _) => {
                self.continuation.decode.tokens += 1;
                self.continuation.decode.time = now - since;
            }
            (None, admitted) => {
                self.prefilled = Some(now);
                self.continuation.prefill.time = now - admitted.unwrap_or(now);
            }
        }
    }

    /// Ends: not even alone it has cells for its next row, of `free` ones.
    pub fn outgrow(&mut self, free: usize) {
        let needed = self.len();
        self.ending = Some(match self.has_generated() {
            true => Ok(FinishReason::Length),
            false => Err(Error::CacheFull { needed, free }),
        });
    }

    /// Lets it end at the next occasion.
    pub fn cancel(&mut self) {
        self.ending.get_or_insert(Ok(FinishReason::Cancelled));
    }

    /// Whether it was cancelled from without.
    pub fn is_cancelled(&self) -> bool {
        self.deaf || self.continuation.is_cancelled()
    }

    /// Hands over the text that is new.
    pub fn show(&mut self, on_event: &mut impl EventSink) {
        if !self.deaf && !self.continuation.text().is_empty() {
            let event = Ok(Event::Text(self.continuation.text()));
            self.deaf = on_event(self.id, event).is_break();
        }
        self.continuation.clear_text();
    }

    /// Hands over what remains and the end.
    pub fn conclude(mut self, on_event: &mut impl EventSink) {
        let ending = self.ending.take();
        let end = match ending.unwrap_or(Ok(FinishReason::Cancelled)) {
            Ok(reason) => Ok(self.continuation.end(reason)),
            Err(error) => Err(error),
        };
        self.show(on_event);
        if !self.deaf {
            // There is nothing left to break off.
            let _ = match end {
                Ok(finish) => on_event(self.id, Ok(Event::Done(&finish))),
                Err(error) => on_event(self.id, Err(error)),
            };
        }
    }
}

/// Who receives the events of all requests.
pub(super) trait EventSink:
    FnMut(RequestId, Result<Event<'_>, Error>) -> ControlFlow<()>
{
}

impl<F: FnMut(RequestId, Result<Event<'_>, Error>) -> ControlFlow<()>> EventSink for F {}
