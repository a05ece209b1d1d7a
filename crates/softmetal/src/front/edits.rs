//! A source with parts replaced, whose lines stay where they are.

use super::declarations::Edit;

/// An edited source, and where its parts came from.
pub(super) struct Edited {
    pub(super) text: String,
    /// Pairs of offsets, in the text and in the source, from which both go on alike.
    anchors: Vec<(usize, usize)>,
}

impl Edited {
    /// Applies edits that do not overlap. Line ends inside an edited range stay.
    pub(super) fn new(source: &str, edits: &[Edit]) -> Self {
        let mut sorted: Vec<_> = edits.iter().collect();
        sorted.sort_by_key(|edit| edit.range.start);
        let mut text = String::with_capacity(source.len());
        let mut anchors = vec![(0, 0)];
        let mut at = 0;
        for edit in sorted {
            text.push_str(&source[at..edit.range.start]);
            anchors.push((text.len(), edit.range.start));
            text.push_str(&edit.text.replace('\n', " "));
            let lines = source[edit.range.clone()].matches('\n').count();
            text.extend(std::iter::repeat_n('\n', lines));
            at = edit.range.end;
            anchors.push((text.len(), at));
        }
        text.push_str(&source[at..]);
        Edited { text, anchors }
    }

    /// The byte of the source that a byte of the text stands for, or the start of what it took the place of.
    pub(super) fn origin(&self, offset: usize) -> usize {
        let next = self.anchors.partition_point(|(text, _)| *text <= offset);
        let (text, source) = self.anchors[next.saturating_sub(1)];
        let end = self.anchors.get(next).map_or(usize::MAX, |anchor| anchor.1);
        (source + offset - text).min(end)
    }
}
