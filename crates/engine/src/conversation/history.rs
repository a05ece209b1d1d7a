//! The messages of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::json;

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// Whoever set the conversation up.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub role: MessageRole,
    /// What it says; of the model's messages also what its chat template takes out again.
    pub content: String,
}

impl Message {
    fn new(role: MessageRole, content: impl Into<String>) -> Self {
        Message {
            role,
            content: content.into(),
        }
    }
}

/// Perhaps a system message, then turns: a user's message and the model's. Only while a turn begins its
/// answer is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    messages: Vec<Message>,
    /// Oldest turns that are no longer in the context.
    dropped: usize,
}

impl History {
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the messages are as described; what was read from a file may not be.
    pub fn is_well_formed(&self) -> bool {
        let turns = &self.messages[self.first_turn()..];
        let alternates = turns.chunks(2).all(|turn| {
            matches!(turn, [user, answer] if user.role == MessageRole::User
                && answer.role == MessageRole::Assistant)
        });
        // The last turn never leaves.
        alternates && (self.dropped == 0 || self.dropped < self.turns())
    }

    /// Turns, the one that begins included.
    pub fn turns(&self) -> usize {
        (self.messages.len() - self.first_turn()).div_ceil(2)
    }

    pub fn dropped(&self) -> usize {
        self.dropped
    }

    pub fn set_dropped(&mut self, turns: usize) {
        self.dropped = turns;
    }

    pub fn set_system(&mut self, text: Option<String>) {
        let message = text.map(|text| Message::new(MessageRole::System, text));
        self.messages.splice(..self.first_turn(), message);
    }

    pub fn clear(&mut self) {
        self.messages.truncate(self.first_turn());
        self.dropped = 0;
    }

    /// Begins a turn.
    pub fn ask(&mut self, text: &str) {
        self.messages.push(Message::new(MessageRole::User, text));
    }

    /// Begins the answer of the turn that lacks one.
    pub fn begin_answer(&mut self, text: String) {
        self.messages
            .push(Message::new(MessageRole::Assistant, text));
    }

    /// The text of the last answer.
    pub fn answer(&self) -> Option<&str> {
        let last = self.messages.last();
        last.filter(|message| message.role == MessageRole::Assistant)
            .map(|message| message.content.as_str())
    }

    pub fn extend_answer(&mut self, text: &str) {
        if let Some(message) = self.messages.last_mut() {
            message.content.push_str(text);
        }
    }

    /// Takes the last answer back, and leaves its turn begun.
    pub fn pop_answer(&mut self) -> Option<String> {
        self.pop(MessageRole::Assistant)
    }

    /// Takes the question of a turn without an answer back. Once no turn is left that the context holds, those
    /// dropped before count as in the context again: there is room for them.
    pub fn pop_question(&mut self) -> Option<String> {
        let text = self.pop(MessageRole::User);
        if self.dropped >= self.turns() {
            self.dropped = 0;
        }
        text
    }

    /// Takes back a turn that could not begin: its question, or only its new answer if it had `former` before.
    pub fn take_back(&mut self, former: Option<String>) {
        self.pop_answer();
        match former {
            Some(answer) => self.begin_answer(answer),
            None => drop(self.pop_question()),
        }
    }

    fn pop(&mut self, role: MessageRole) -> Option<String> {
        let last = self.messages.pop_if(|message| message.role == role);
        last.map(|message| message.content)
    }

    /// What a chat template reads, without the `dropped` oldest turns and without the last answer, which is to
    /// follow.
    pub fn prompt(&self, dropped: usize) -> serde_json::Value {
        let (system, turns) = self.messages.split_at(self.first_turn());
        let asked = match turns.last() {
            Some(last) if last.role == MessageRole::Assistant => turns.len() - 1,
            _ => turns.len(),
        };
        let kept = turns.get(2 * dropped..asked).unwrap_or_default();
        let messages: Vec<&Message> = system.iter().chain(kept).collect();
        json!({ "messages": messages, "add_generation_prompt": true })
    }

    fn first_turn(&self) -> usize {
        let first = self.messages.first();
        usize::from(first.is_some_and(|message| message.role == MessageRole::System))
    }
}
