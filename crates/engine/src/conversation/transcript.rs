//! The text that a session's tokens stand for.

use std::cmp::Ordering;
use std::ops::Range;

use minfer_text::{ChatText, Detokenizer, SpecialToken, TokenType, Tokenizer};
use serde::{Deserialize, Serialize};

/// A text, and where in a session its special tokens are. An answer stands in it with the tokens that the model
/// chose, which need not be those that encoding would give.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transcript {
    text: ChatText,
    /// Index among the session's tokens of each special token.
    special: Vec<usize>,
    /// Tokens in all.
    tokens: usize,
    /// Byte and token at which the last prompt goes on from what was there.
    joint: (usize, usize),
}

/// How a session comes to hold a prompt: it keeps some tokens at its beginning, drops some of these, and
/// computes the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tokens that the session keeps.
    pub kept: usize,
    /// Those of them that are then removed, not empty.
    pub removed: Option<Range<usize>>,
    /// Tokens to compute.
    pub rest: Vec<u32>,
    /// What the session holds in the end.
    pub prompt: Transcript,
}

impl Plan {
    /// All of a prompt that a session holds.
    pub fn keeping(prompt: Transcript) -> Self {
        Plan {
            kept: prompt.tokens,
            removed: None,
            rest: Vec::new(),
            prompt,
        }
    }

    /// Tokens that need not be computed.
    pub fn reused(&self) -> usize {
        self.kept - self.removed.as_ref().map_or(0, ExactSizeIterator::len)
    }

    /// Keeps `kept` tokens, the special ones at `special`, and computes `text` from byte `start` on.
    fn at(
        start: usize,
        kept: usize,
        special: &[usize],
        text: ChatText,
        tokenizer: &Tokenizer,
    ) -> Self {
        let rest = text.encode_from(tokenizer, start);
        let computed = rest.special.iter().map(|&at| kept + at);
        let prompt = Transcript {
            text,
            special: special.iter().copied().chain(computed).collect(),
            tokens: kept + rest.ids.len(),
            joint: (start, kept),
        };
        Plan {
            kept,
            removed: None,
            rest: rest.ids,
            prompt,
        }
    }

    /// The same prompt without its oldest turns, of which `text` is the rendering: its rows stay, shifted. `None`
    /// where the rendering without those turns is not this one without a part of it that starts and ends at
    /// special tokens.
    pub fn without(&self, text: &ChatText) -> Option<Plan> {
        let removed = self.prompt.difference(text)?;
        if removed.end > self.kept {
            return None;
        }
        let is_end = removed.end == self.kept;
        Some(Plan {
            kept: if is_end { removed.start } else { self.kept },
            prompt: self.prompt.without(removed.clone(), text.clone()),
            removed: Some(removed).filter(|_| !is_end),
            rest: self.rest.clone(),
        })
    }
}

impl Transcript {
    /// Tokens in all.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Whether this can be the transcript of `tokens`; what was read from a file may not be.
    pub fn is_of(&self, tokens: &[u32]) -> bool {
        let special = self.text.special();
        let stand_there =
            |(token, &index): (&SpecialToken, &usize)| tokens.get(index) == Some(&token.id);
        self.tokens == tokens.len()
            && self.text.is_well_formed()
            && self.joint.1 <= self.tokens
            && self.text.text().is_char_boundary(self.joint.0)
            && self.special.len() == special.len()
            && self.special.is_sorted_by(|a, b| a < b)
            && special.iter().zip(&self.special).all(stand_there)
            && self.is_joined()
    }

    /// Whether the same special tokens are before the joint in the text and among the tokens.
    fn is_joined(&self) -> bool {
        let (byte, token) = self.joint;
        let mut special = self.text.special().iter().zip(&self.special);
        special.all(|(special, index)| match index.cmp(&token) {
            Ordering::Less => special.end <= byte,
            Ordering::Equal => special.start == byte,
            Ordering::Greater => special.start >= byte,
        })
    }

    /// Brings a session that holds `held`, whose transcript this is, to the prompt `text`. If the prompt goes on
    /// where the transcript ends, all of it stays; otherwise what both begin with.
    pub fn plan(&self, held: &[u32], text: ChatText, tokenizer: &Tokenizer) -> Plan {
        let common = self.text.common_prefix(&text);
        if common == self.text.text().len() && common < text.text().len() {
            return Plan::at(common, self.tokens, &self.special, text, tokenizer);
        }
        // Both have the special tokens before the end of the common prefix, and may have one there.
        let shared = self.text.special().iter().zip(text.special());
        let shared = shared.take_while(|(a, b)| a == b && a.start <= common);
        let last = shared.count().checked_sub(1);
        let (special, start, first) = match last {
            Some(last) => (
                &self.special[..last],
                text.special()[last].start,
                self.special[last],
            ),
            None => (&[][..], 0, 0),
        };
        let mut plan = Plan::at(start, first, special, text, tokenizer);
        // Of equal tokens all stay but one, after which there are no logits without computing it.
        let held = held.get(first..self.tokens).unwrap_or_default();
        let same = held.iter().zip(&plan.rest).take_while(|(a, b)| a == b);
        let same = same.count().min(plan.rest.len().saturating_sub(1));
        plan.rest.drain(..same);
        plan.kept += same;
        plan
    }

    /// The tokens of this transcript that are not in `shorter`, where that is the same text without them, and
    /// they start at a special token and end before one.
    pub fn difference(&self, shorter: &ChatText) -> Option<Range<usize>> {
        let removed = self.text.text().len().checked_sub(shorter.text().len())?;
        let common = self.text.common_prefix(shorter);
        let shared = self.text.special().iter().zip(shorter.special());
        // The later the cut, the less has to be the same after it.
        let first = shared.take_while(|(a, b)| a.start <= common && a.start == b.start);
        let first = first.count().checked_sub(1)?;
        let start = shorter.special()[first].start;
        let ends_alike = self.text.same_from(start + removed, shorter, start);
        let all = self.text.special();
        let after = all.iter().position(|token| token.start == start + removed);
        let after = after.filter(|_| ends_alike && removed > 0)?;
        Some(self.special[first]..self.special[after])
    }

    /// What is left, rendered as `text`, without the tokens of [`Transcript::difference`].
    pub fn without(&self, removed: Range<usize>, text: ChatText) -> Transcript {
        let kept = self.special.iter().filter(|at| !removed.contains(at));
        let moved = kept.map(|&at| match at < removed.start {
            true => at,
            false => at - removed.len(),
        });
        let (byte, token) = self.joint;
        let removed_bytes = self.text.text().len() - text.text().len();
        let joint = match token {
            _ if token <= removed.start => (byte, token),
            _ if token < removed.end => (0, 0),
            _ => (byte - removed_bytes, token - removed.len()),
        };
        Transcript {
            special: moved.collect(),
            tokens: self.tokens - removed.len(),
            joint,
            text,
        }
    }

    /// Drops what does not end within the first `tokens` tokens, back to where text and tokens can be cut.
    pub fn truncate(&mut self, tokens: usize) {
        if tokens >= self.tokens {
            return;
        }
        let starts = self.text.special().iter().map(|token| token.start);
        let cuts = starts.zip(self.special.iter().copied());
        let cuts = cuts
            .chain([self.joint])
            .filter(|&(_, token)| token <= tokens);
        let (start, tokens) = cuts.max_by_key(|&(_, token)| token).unwrap_or_default();
        self.text.truncate(start);
        self.special.retain(|&at| at < tokens);
        self.tokens = tokens;
        if self.joint.1 > tokens {
            self.joint = (0, 0);
        }
    }

    /// Becomes the transcript of the first of the `held` tokens, of as many as can be: those of a prompt that was
    /// broken off, or of a prompt and an answer with the text `answer`.
    pub fn settle(&mut self, held: &[u32], answer: &str, tokenizer: &Tokenizer) {
        match held.get(self.tokens..) {
            Some(generated) => self.push_answer(generated, answer, tokenizer),
            // After the cut there may be tokens of the prompt, but none of the answer.
            None => self.truncate(held.len()),
        }
    }

    /// Appends generated tokens for as long as their text is that of `answer`, and cuts no character or token:
    /// it stops before a stop string, and before tokens of an answer that was broken off.
    fn push_answer(&mut self, generated: &[u32], answer: &str, tokenizer: &Tokenizer) {
        let mut detokenizer = Detokenizer::continuing(tokenizer);
        let mut rest = answer;
        let mut held = String::new();
        let mut n_held = 0;
        for &token in generated {
            let is_whole = detokenizer.is_at_boundary()
                && tokenizer.token_type(token) == Some(TokenType::UserDefined);
            let text = detokenizer.push(token);
            let after = rest.strip_prefix(text);
            let Some(after) = after.filter(|_| !tokenizer.is_end_of_generation(token)) else {
                break;
            };
            rest = after;
            if is_whole {
                self.special.push(self.tokens);
                self.text.push_token(token, text);
                self.tokens += 1;
                continue;
            }
            held.push_str(text);
            n_held += 1;
            if detokenizer.is_at_boundary() {
                self.text.push_text(&held);
                self.tokens += n_held;
                held.clear();
                n_held = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests;
