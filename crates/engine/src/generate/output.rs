//! From tokens to the text that may be shown.

use std::sync::Arc;

use minfer_text::{Detokenizer, StopMatcher, StopStrings, Tokenizer};

/// Text of the tokens so far: whole characters only, nothing of a stop string.
pub(crate) struct Output {
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    stops: Vec<String>,
    matcher: StopMatcher,
    text: String,
}

impl Output {
    pub fn new(tokenizer: Arc<Tokenizer>, stops: Vec<String>) -> Self {
        Output {
            detokenizer: Detokenizer::continuing(tokenizer),
            matcher: StopStrings::new(&stops).matcher(),
            stops,
            text: String::new(),
        }
    }

    /// Text since the last [`Output::clear`].
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Forgets the text, which was shown.
    pub fn clear(&mut self) {
        self.text.clear();
    }

    /// Appends the text that a token completes; the stop string, if it completes one.
    pub fn push(&mut self, token: u32) -> Option<&str> {
        let found = self.matcher.push(self.detokenizer.push(token));
        self.text.push_str(found.text);
        self.stops.get(found.stopped?).map(String::as_str)
    }

    /// Appends what was held back. Left-over bytes cannot complete a stop string that their character
    /// did not.
    pub fn flush(&mut self) {
        let rest = self.matcher.push(self.detokenizer.finish());
        self.text.push_str(rest.text);
        self.text.push_str(self.matcher.finish());
    }
}
