//! Inputs of several lines: a backslash at the end of a line continues it, and `"""` encloses text as it is.

const FENCE: &str = "\"\"\"";

/// Whether the text begins a block that it does not end.
pub fn is_open_block(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix(FENCE);
    inside.is_some_and(|inside| !inside.trim_end().ends_with(FENCE))
}

/// The content of a block, without the line ends beside its fences. An open block lasts to the end.
pub fn block(text: &str) -> Option<&str> {
    let inside = text.trim_start().strip_prefix(FENCE)?;
    let inside = match inside.trim_end().strip_suffix(FENCE) {
        Some(closed) => closed.strip_suffix('\n').unwrap_or(closed),
        None => inside,
    };
    Some(inside.strip_prefix('\n').unwrap_or(inside))
}

/// Puts lines together to inputs.
#[derive(Debug, Default)]
pub struct Lines {
    unfinished: Option<String>,
}

impl Lines {
    /// The input that one more line completes, if it does.
    pub fn push(&mut self, line: &str) -> Option<String> {
        let mut text = match self.unfinished.take() {
            Some(text) => text + "\n" + line,
            None => line.to_owned(),
        };
        if is_open_block(&text) {
            self.unfinished = Some(text);
            return None;
        }
        if block(&text).is_none() && text.ends_with('\\') {
            text.pop();
            self.unfinished = Some(text);
            return None;
        }
        Some(text)
    }

    /// Whether the next line continues the last one.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// What the last line left unfinished.
    pub fn finish(&mut self) -> Option<String> {
        self.unfinished.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(lines: &[&str]) -> Vec<String> {
        let mut open = Lines::default();
        let mut inputs: Vec<String> = lines.iter().filter_map(|line| open.push(line)).collect();
        inputs.extend(open.finish());
        inputs
    }

    #[test]
    fn a_line_is_an_input_unless_a_backslash_continues_it() {
        assert_eq!(
            inputs(&["a", "", "b\\", "c \\", "d", "e"]),
            ["a", "", "b\nc \nd", "e"]
        );
        assert_eq!(inputs(&["a\\"]), ["a"]);
    }

    #[test]
    fn a_block_lasts_until_a_line_ends_with_its_fence() {
        let texts = inputs(&["\"\"\"", "a\\", "", "b\"\"\" c", "\"\"\" ", "d"]);
        assert_eq!(texts, ["\"\"\"\na\\\n\nb\"\"\" c\n\"\"\" ", "d"]);
        assert_eq!(block(&texts[0]), Some("a\\\n\nb\"\"\" c"));
    }

    #[test]
    fn a_block_may_be_one_line_or_unfinished_and_text_is_none() {
        assert_eq!(block("\"\"\"/exit\"\"\""), Some("/exit"));
        assert_eq!(block("  \"\"\"a\n b"), Some("a\n b"));
        assert_eq!(block("\"\"\"\"\"\""), Some(""));
        assert_eq!(block("say \"\"\"a\"\"\""), None);
        assert!(is_open_block("\"\"\""));
        assert!(is_open_block("\"\"\"\""));
        assert!(!is_open_block("\"\"\" \"\"\"\n"));
        assert!(!is_open_block("a"));
    }
}
