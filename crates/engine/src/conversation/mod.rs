//! Conversations: turns of which each computes only what is new.
//!
//! The messages are rendered whole at every turn, as chat templates want it. If the rendering begins with the
//! text that the session's tokens stand for ([`transcript`]), only the rest is encoded and computed; if not,
//! because the template takes reasoning out of earlier answers or the messages were changed, what comes after
//! the beginning that both have. When the context is full the oldest turns leave it ([`turn`]).

mod answer;
mod history;
mod saved;
mod transcript;
mod turn;

use minfer_text::RenderTime;

pub use answer::{Answer, TurnReport};
pub use history::{Message, MessageRole};
pub use saved::{Resumed, SessionSaved};

use crate::{Engine, Error, GenerateOptions, Session};
use history::History;
use transcript::Transcript;

/// How a conversation is set up.
#[derive(Clone, Debug)]
pub struct ConversationOptions {
    /// The system message.
    pub system: Option<String>,
    /// Whether the oldest turns leave a full context. Otherwise answers end there with
    /// [`FinishReason::Length`](crate::FinishReason::Length), and a message that does not fit is an error.
    pub shift: bool,
    /// What a template takes for the present. It stays the same, so that a date in a prompt does.
    pub now: RenderTime,
}

impl Default for ConversationOptions {
    fn default() -> Self {
        ConversationOptions {
            system: None,
            shift: true,
            now: RenderTime::now(),
        }
    }
}

/// How a conversation went so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationStats {
    /// Turns, those that left the context included.
    pub turns: usize,
    /// Turns that left the context.
    pub dropped_turns: usize,
    /// Tokens in the context.
    pub tokens: usize,
    /// Most tokens that the context holds.
    pub n_ctx: usize,
    /// Prompt tokens computed in all turns.
    pub prefilled: usize,
    /// Tokens generated in all turns.
    pub generated: usize,
    /// Times that the oldest turns left a full context.
    pub shifts: usize,
}

/// A conversation. It has its engine to itself.
pub struct Conversation<'e> {
    session: Session<'e>,
    state: State,
}

/// A conversation but for its session.
struct State {
    history: History,
    /// What the session's tokens stand for; while an answer is generated, those before it.
    transcript: Transcript,
    shift: bool,
    now: RenderTime,
    prefilled: usize,
    generated: usize,
    shifts: usize,
}

impl Engine {
    /// A new conversation, laid out by the model's chat template.
    pub fn conversation(&mut self, options: ConversationOptions) -> Conversation<'_> {
        let mut history = History::default();
        history.set_system(options.system);
        Conversation {
            session: self.session(),
            state: State {
                history,
                transcript: Transcript::default(),
                shift: options.shift,
                now: options.now,
                prefilled: 0,
                generated: 0,
                shifts: 0,
            },
        }
    }
}

impl<'e> Conversation<'e> {
    /// Perhaps a system message, then users' and answers in turn. An answer that was broken off is as far as
    /// it came.
    pub fn messages(&self) -> &[Message] {
        self.state.history.messages()
    }

    /// The session that holds the context.
    pub fn session(&self) -> &Session<'e> {
        &self.session
    }

    /// Numbers so far.
    pub fn stats(&self) -> ConversationStats {
        ConversationStats {
            turns: self.state.history.turns(),
            dropped_turns: self.state.history.dropped(),
            tokens: self.session.tokens().len(),
            n_ctx: self.session.engine().n_ctx(),
            prefilled: self.state.prefilled,
            generated: self.state.generated,
            shifts: self.state.shifts,
        }
    }

    /// Sets the system message, or takes it away. The next turn computes its whole prompt.
    pub fn set_system(&mut self, text: Option<String>) {
        self.state.history.set_system(text);
    }

    /// Forgets all turns, but not the system message.
    pub fn clear(&mut self) {
        self.state.history.clear();
    }

    /// Forgets the last turn; what the user wrote in it.
    pub fn undo(&mut self) -> Option<String> {
        self.state.history.pop_answer()?;
        self.state.history.pop_question()
    }

    /// Begins a turn. Only what the context does not hold yet will be computed, and not before the first event
    /// is asked for.
    ///
    /// # Errors
    /// An option out of range, a template that refuses the conversation, or a message that is longer than the
    /// context ([`Error::PromptTooLong`]). The conversation has not changed then.
    pub fn ask(&mut self, text: &str, options: GenerateOptions) -> Result<Answer<'_, 'e>, Error> {
        self.state.history.ask(text);
        self.answer(options, None)
    }

    /// Begins the last turn again; `None` if there is none.
    ///
    /// # Errors
    /// As [`Conversation::ask`].
    pub fn regenerate(
        &mut self,
        options: GenerateOptions,
    ) -> Result<Option<Answer<'_, 'e>>, Error> {
        match self.state.history.pop_answer() {
            Some(former) => self.answer(options, Some(former)).map(Some),
            None => Ok(None),
        }
    }

    /// Answers the question that has no answer, or takes it back on an error. `former` is the answer that it
    /// had before.
    fn answer(
        &mut self,
        options: GenerateOptions,
        former: Option<String>,
    ) -> Result<Answer<'_, 'e>, Error> {
        self.state.settle(&mut self.session);
        match self.state.begin_turn(&mut self.session, &options) {
            Ok(begun) => Answer::new(&mut self.session, &mut self.state, begun, options, former),
            Err(e) => {
                self.state.history.take_back(former);
                Err(e)
            }
        }
    }
}
