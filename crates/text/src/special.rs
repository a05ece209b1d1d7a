//! Finding tokens that are taken whole, before any splitting.

use aho_corasick::{AhoCorasick, Input, MatchKind};

use crate::Error;

/// A stretch of text, or a token that was spelled in it.
#[derive(Debug, PartialEq, Eq)]
pub enum Fragment<'t> {
    /// Text to be split.
    Text(&'t str),
    /// A token, and how it was spelled.
    Token(u32, &'t str),
}

/// A set of spellings, found leftmost first and the longest where several start at the same place.
///
/// llama.cpp looks for the longest spelling in the whole text first. The two agree unless the end of one
/// spelling is the beginning of another, which real vocabularies have for runs of one character only, and
/// there they agree too.
pub struct Spellings {
    automaton: Option<AhoCorasick>,
    ids: Vec<u32>,
}

impl Spellings {
    /// Compiles `(spelling, id)` pairs. Empty spellings never match.
    pub fn new<'a>(tokens: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Self, Error> {
        let (texts, ids): (Vec<&str>, Vec<u32>) = tokens
            .into_iter()
            .filter(|(text, _)| !text.is_empty())
            .unzip();
        let automaton = if texts.is_empty() {
            None
        } else {
            let built = AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(texts);
            Some(built.map_err(|e| Error::SpecialTokens {
                reason: e.to_string(),
            })?)
        };
        Ok(Spellings { automaton, ids })
    }

    /// Calls `emit` with each piece of `text` in order; text pieces are never empty. A spelling that is
    /// followed by `marker` is text.
    pub fn partition<'t>(
        &self,
        text: &'t str,
        marker: Option<char>,
        mut emit: impl FnMut(Fragment<'t>),
    ) {
        let mut end = 0;
        for (start, stop, id) in self.matches(text) {
            if marker.is_some_and(|marker| text[stop..].starts_with(marker)) {
                continue;
            }
            if end < start {
                emit(Fragment::Text(&text[end..start]));
            }
            emit(Fragment::Token(id, &text[start..stop]));
            end = stop;
        }
        if end < text.len() {
            emit(Fragment::Text(&text[end..]));
        }
    }

    /// Start, end and id of each spelling in `text`.
    pub fn matches(&self, text: &str) -> impl Iterator<Item = (usize, usize, u32)> {
        let found = self.automaton.iter().flat_map(move |a| a.find_iter(text));
        found.map(|m| (m.start(), m.end(), self.ids[m.pattern().as_usize()]))
    }

    /// Where the first spelling in `text` starts, at `from` or after it.
    pub fn find_from(&self, text: &str, from: usize) -> Option<usize> {
        let input = Input::new(text).span(from..text.len());
        Some(self.automaton.as_ref()?.find(input)?.start())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition<'t>(spellings: &Spellings, text: &'t str) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        spellings.partition(text, None, |f| fragments.push(f));
        fragments
    }

    #[test]
    fn spellings_are_cut_out_and_the_longest_wins() {
        let spellings =
            Spellings::new([("<a>", 7), ("<a><b>", 9), ("\n", 1), ("\n\n", 2)]).unwrap();
        assert_eq!(
            partition(&spellings, "x<a>y<a><b>\n\n\n<a"),
            [
                Fragment::Text("x"),
                Fragment::Token(7, "<a>"),
                Fragment::Text("y"),
                Fragment::Token(9, "<a><b>"),
                Fragment::Token(2, "\n\n"),
                Fragment::Token(1, "\n"),
                Fragment::Text("<a"),
            ]
        );
    }

    #[test]
    fn no_spelling_leaves_the_text_whole() {
        let spellings = Spellings::new([("", 3)]).unwrap();
        assert_eq!(partition(&spellings, "abc"), [Fragment::Text("abc")]);
        assert_eq!(partition(&spellings, ""), []);
    }
}
