//! Ending a stream of text at a stop string.

use std::sync::Arc;

/// A set of stop strings, compiled once and shared by the streams that watch for them.
///
/// The stream ends at the stop string that is completed first; of several completed by the same character,
/// the longest counts. That rule needs no look-ahead, so it does not depend on how the text arrives.
#[derive(Clone, Debug)]
pub struct StopStrings {
    automaton: Arc<[State]>,
}

/// A state of an Aho-Corasick automaton: the longest suffix of the text so far that begins a stop string.
#[derive(Debug, Default)]
struct State {
    /// Bytes of that suffix.
    depth: usize,
    next: Vec<(u8, usize)>,
    /// The state for the next shorter suffix.
    shorter: usize,
    /// Index and length of the longest stop string that ends here.
    complete: Option<(usize, usize)>,
}

const ROOT: usize = 0;

impl StopStrings {
    /// Compiles `stops`. Empty strings never match.
    pub fn new<S: AsRef<str>>(stops: impl IntoIterator<Item = S>) -> Self {
        let mut states = vec![State::default()];
        for (index, stop) in stops.into_iter().enumerate() {
            let stop = stop.as_ref();
            let end = stop
                .bytes()
                .fold(ROOT, |state, byte| child(&mut states, state, byte));
            if end != ROOT && states[end].complete.is_none() {
                states[end].complete = Some((index, stop.len()));
            }
        }
        link(&mut states);
        StopStrings {
            automaton: states.into(),
        }
    }

    /// Whether there is nothing to stop at.
    pub fn is_empty(&self) -> bool {
        self.automaton.len() == 1
    }

    /// Starts watching a stream.
    pub fn matcher(&self) -> StopMatcher {
        StopMatcher {
            automaton: Arc::clone(&self.automaton),
            state: ROOT,
            held: String::new(),
            text: String::new(),
            stopped: None,
        }
    }
}

/// The state after the edge `byte` of `state`, made if there is none.
fn child(states: &mut Vec<State>, state: usize, byte: u8) -> usize {
    if let Some(next) = edge(&states[state], byte) {
        return next;
    }
    let new = states.len();
    let depth = states[state].depth + 1;
    states[state].next.push((byte, new));
    states.push(State {
        depth,
        ..State::default()
    });
    new
}

fn edge(state: &State, byte: u8) -> Option<usize> {
    state
        .next
        .iter()
        .find(|(b, _)| *b == byte)
        .map(|&(_, next)| next)
}

/// Fills in `shorter`, and `complete` where only a shorter suffix is a stop string, breadth first.
fn link(states: &mut [State]) {
    let mut order = vec![ROOT];
    let mut at = 0;
    while let Some(&state) = order.get(at) {
        at += 1;
        for (byte, next) in states[state].next.clone() {
            let shorter = if state == ROOT {
                ROOT
            } else {
                step(states, states[state].shorter, byte)
            };
            states[next].shorter = shorter;
            states[next].complete = states[next].complete.or(states[shorter].complete);
            order.push(next);
        }
    }
}

/// The state after `byte`.
fn step(states: &[State], mut state: usize, byte: u8) -> usize {
    loop {
        match edge(&states[state], byte) {
            Some(next) => return next,
            None if state == ROOT => return ROOT,
            None => state = states[state].shorter,
        }
    }
}

/// Watches one stream.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    automaton: Arc<[State]>,
    state: usize,
    /// Text that may be the beginning of a stop string.
    held: String,
    text: String,
    stopped: Option<usize>,
}

/// What became certain with a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopText<'a> {
    /// Text that belongs to the answer.
    pub text: &'a str,
    /// Index of the stop string that ended the stream.
    pub stopped: Option<usize>,
}

impl StopMatcher {
    /// Takes a piece of the stream and returns the text that can no longer be part of a stop string. Once a
    /// stop string is complete nothing more comes: neither the stop string nor what follows it.
    pub fn push(&mut self, piece: &str) -> StopText<'_> {
        self.text.clear();
        if self.stopped.is_none() {
            let start = self.held.len();
            self.held.push_str(piece);
            for (i, byte) in piece.bytes().enumerate() {
                self.state = step(&self.automaton, self.state, byte);
                if let Some((index, len)) = self.automaton[self.state].complete {
                    self.stopped = Some(index);
                    self.held.truncate(start + i + 1 - len);
                    self.state = ROOT;
                    break;
                }
            }
            // A stop string starts at a character boundary, hence so does what is held.
            let free = self.held.len() - self.automaton[self.state].depth;
            self.text.extend(self.held.drain(..free));
        }
        StopText {
            text: &self.text,
            stopped: self.stopped,
        }
    }

    /// The text held back, which the end of the stream makes part of the answer.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        self.text.push_str(&self.held);
        self.held.clear();
        self.state = ROOT;
        &self.text
    }
}

#[cfg(test)]
mod tests;
