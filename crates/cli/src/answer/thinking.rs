//! Dims what a model thinks before it answers, `<think>…</think>`, in text that comes in pieces.

use minfer_text::{ChatTemplate, RenderTime};
use serde_json::json;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// "Faint" and "neither bold nor faint" of ECMA-48's SGR.
const DIM: &str = "\x1b[2m";
pub const UNDIM: &str = "\x1b[22m";

/// Whether a prompt by this template ends within a thought, so that the answer begins in one.
pub fn begins_in(template: &ChatTemplate) -> bool {
    let context = json!({
        "messages": [{"role": "user", "content": "hi"}],
        "add_generation_prompt": true,
    });
    let rendered = template.render(context, &RenderTime::now());
    rendered.is_ok_and(|prompt| prompt.trim_end().ends_with(OPEN))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but spaces since the line began: an opening tag counts. Elsewhere the text only mentions it.
    LineStart,
    InLine,
    Thought,
}

/// Inserts the control sequences. A tag is dimmed with its thought.
#[derive(Debug)]
pub struct ThinkingDimmer {
    place: Place,
    is_dim: bool,
    /// The beginning of what may become a tag.
    held: String,
    ready: String,
}

impl ThinkingDimmer {
    /// For text that begins inside a thought, or not.
    pub fn new(starts_thinking: bool) -> Self {
        Self {
            place: match starts_thinking {
                true => Place::Thought,
                false => Place::LineStart,
            },
            is_dim: false,
            held: String::new(),
            ready: String::new(),
        }
    }

    /// What can be shown after one more piece.
    pub fn push(&mut self, piece: &str) -> &str {
        self.ready.clear();
        if self.place == Place::Thought && !self.is_dim && !piece.is_empty() {
            self.dim();
        }
        let text = std::mem::take(&mut self.held) + piece;
        let mut rest = text.as_str();
        while let Some(c) = rest.chars().next() {
            let tag = match self.place {
                Place::LineStart => Some(OPEN),
                Place::InLine => None,
                Place::Thought => Some(CLOSE),
            };
            match tag {
                Some(tag) if rest.starts_with(tag) => {
                    self.turn(tag);
                    rest = &rest[tag.len()..];
                }
                Some(tag) if tag.starts_with(rest) => {
                    self.held.push_str(rest);
                    break;
                }
                _ => {
                    self.ready.push(c);
                    self.pass(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        &self.ready
    }

    /// What is left to show at the end.
    pub fn finish(mut self) -> String {
        if self.is_dim {
            self.held.push_str(UNDIM);
        }
        self.held
    }

    fn dim(&mut self) {
        self.ready.push_str(DIM);
        self.is_dim = true;
    }

    /// Shows a tag and changes sides.
    fn turn(&mut self, tag: &str) {
        if self.place == Place::Thought {
            self.ready.push_str(tag);
            self.ready.push_str(UNDIM);
            self.is_dim = false;
            self.place = Place::InLine;
        } else {
            self.dim();
            self.ready.push_str(tag);
            self.place = Place::Thought;
        }
    }

    fn pass(&mut self, c: char) {
        self.place = match self.place {
            Place::Thought => Place::Thought,
            _ if c == '\n' => Place::LineStart,
            Place::LineStart if c.is_whitespace() => Place::LineStart,
            _ => Place::InLine,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str], starts_thinking: bool) -> String {
        let mut dimmer = ThinkingDimmer::new(starts_thinking);
        let mut shown: String = pieces
            .iter()
            .map(|piece| dimmer.push(piece).to_owned())
            .collect();
        shown.push_str(&dimmer.finish());
        shown
    }

    /// Splits the text in two and in three at all places, and into its characters.
    fn assert_dimmed(text: &str, starts_thinking: bool, expected: &str) {
        let cuts: Vec<usize> = (0..=text.len())
            .filter(|&i| text.is_char_boundary(i))
            .collect();
        for &a in &cuts {
            for &b in cuts.iter().filter(|&&b| b >= a) {
                let pieces = [&text[..a], &text[a..b], &text[b..]];
                assert_eq!(shown(&pieces, starts_thinking), expected, "{pieces:?}");
            }
        }
        let characters: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        assert_eq!(shown(&characters, starts_thinking), expected);
    }

    #[test]
    fn a_thought_is_dimmed_with_its_tags_wherever_the_text_is_split() {
        assert_dimmed(
            "\n<think>äh, </thin</think>\n\nYes.",
            false,
            "\n\x1b[2m<think>äh, </thin</think>\x1b[22m\n\nYes.",
        );
    }

    #[test]
    fn a_thought_that_the_prompt_began_is_dimmed_from_the_start() {
        assert_dimmed("hm</think>Yes", true, "\x1b[2mhm</think>\x1b[22mYes");
    }

    #[test]
    fn every_line_may_begin_a_thought() {
        assert_dimmed(
            "<think>a</think>b\n <think>c</think>",
            false,
            "\x1b[2m<think>a</think>\x1b[22mb\n \x1b[2m<think>c</think>\x1b[22m",
        );
    }

    #[test]
    fn a_tag_that_is_only_mentioned_changes_nothing() {
        let text = "Write <think> and </think> around it.";
        assert_dimmed(text, false, text);
    }

    #[test]
    fn an_unfinished_tag_or_thought_is_shown_and_ends_dimming() {
        assert_dimmed("<thi", false, "<thi");
        assert_dimmed("<think>so <", false, "\x1b[2m<think>so <\x1b[22m");
        assert_dimmed("", true, "");
    }

    #[test]
    fn text_is_held_back_only_while_it_may_be_a_tag() {
        let mut dimmer = ThinkingDimmer::new(false);
        assert_eq!(dimmer.push("<th"), "");
        assert_eq!(dimmer.push("e>"), "<the>");
        assert_eq!(dimmer.push(" <"), " <");
    }

    #[test]
    fn a_template_may_begin_a_thought() {
        let begins = |source: &str| begins_in(&ChatTemplate::compile(source).unwrap());
        let turn = "{{ messages[0].content }}{% if add_generation_prompt %}<|assistant|>";
        assert!(begins(&format!("{turn}<think>\n{{% endif %}}")));
        assert!(!begins(&format!("{turn}{{% endif %}}")));
        assert!(!begins(&format!("{turn}<think>\n</think>{{% endif %}}")));
        assert!(!begins("{{ raise_exception('no') }}<think>"));
    }
}
