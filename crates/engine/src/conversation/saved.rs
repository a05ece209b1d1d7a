//! Conversations in session files.

use std::path::Path;

use minfer_graph::SequenceId;
use minfer_text::RenderTime;
use serde::{Deserialize, Serialize};

use super::Conversation;
use super::history::History;
use super::transcript::Transcript;
use crate::Error;
use crate::session_file::{SessionFileError, read_host};

/// What a session file holds of a conversation beside its rows.
#[derive(Serialize, Deserialize)]
struct Saved {
    history: History,
    transcript: Transcript,
    /// RFC 3339.
    now: String,
}

/// A conversation that was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSaved {
    /// Bytes of the file.
    pub bytes: u64,
    /// Tokens whose rows it holds.
    pub tokens: usize,
}

/// How much of a conversation came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// All: it goes on as if it had not been away.
    Exact {
        /// Tokens in the context.
        tokens: usize,
    },
    /// The messages; the next turn computes them again.
    History {
        /// Why.
        reason: String,
    },
}

impl Saved {
    fn parse(host: &[u8]) -> Result<Self, Error> {
        let refused = |reason| Error::SavedConversation { reason };
        let saved: Saved = serde_json::from_slice(host).map_err(|e| refused(e.to_string()))?;
        match saved.history.is_well_formed() {
            true => Ok(saved),
            false => Err(refused("its messages are not turns".to_owned())),
        }
    }
}

impl Conversation<'_> {
    /// Saves messages and context to a file, which is replaced as a whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written. A file that was there is as it was.
    pub fn save(&mut self, path: &Path) -> Result<SessionSaved, Error> {
        let state = &mut self.state;
        state.settle(&mut self.session);
        let saved = Saved {
            history: state.history.clone(),
            transcript: state.transcript.clone(),
            now: state.now.to_rfc3339()?,
        };
        let refused = |e: serde_json::Error| Error::SavedConversation {
            reason: e.to_string(),
        };
        let host = serde_json::to_vec(&saved).map_err(refused)?;
        let sequence = self.session.sequence();
        let bytes = self
            .session
            .engine_mut()
            .save_sequence(sequence, &host, path)?;
        let tokens = self.session.tokens().len();
        Ok(SessionSaved { bytes, tokens })
    }

    /// Takes up a saved conversation in place of this one. If only its context cannot be used here, its
    /// messages come back.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or holds no conversation. This one goes on then.
    pub fn resume(&mut self, path: &Path) -> Result<Resumed, Error> {
        match self.restore(path) {
            Ok((sequence, host)) => {
                let resumed = self.take_up(sequence, &host);
                if self.session.sequence() != sequence {
                    self.session.engine_mut().release_sequence(sequence)?;
                }
                resumed
            }
            Err(e) => {
                self.replace_messages(Saved::parse(&read_host(path)?)?)?;
                let reason = e.to_string();
                Ok(Resumed::History { reason })
            }
        }
    }

    fn restore(&mut self, path: &Path) -> Result<(SequenceId, Vec<u8>), SessionFileError> {
        match self.session.engine_mut().restore_sequence(path) {
            // The present context gives way. It can be computed again, should the file be of no use.
            Err(SessionFileError::NoCells { .. }) => {
                self.session.truncate(0);
                self.state.settle(&mut self.session);
                self.session.engine_mut().restore_sequence(path)
            }
            restored => restored,
        }
    }

    fn take_up(&mut self, sequence: SequenceId, host: &[u8]) -> Result<Resumed, Error> {
        let mut saved = Saved::parse(host)?;
        let transcript = std::mem::take(&mut saved.transcript);
        let tokens = self.session.engine().tokens(sequence);
        let is_of = transcript.is_of(tokens);
        let tokens = tokens.len();
        self.replace_messages(saved)?;
        if !is_of {
            let reason = "its text is not that of its tokens".to_owned();
            return Ok(Resumed::History { reason });
        }
        self.session.replace(sequence)?;
        self.state.transcript = transcript;
        Ok(Resumed::Exact { tokens })
    }

    fn replace_messages(&mut self, saved: Saved) -> Result<(), Error> {
        self.state.now = RenderTime::from_rfc3339(&saved.now)?;
        self.state.history = saved.history;
        Ok(())
    }
}
