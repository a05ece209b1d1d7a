//! Where inputs come from: a person at a terminal, or a pipe or file.

use std::io::{self, BufRead, IsTerminal, Read};

use anyhow::{Context, Result};

use super::command::{Entry, Mistake, parse};
use super::editor::{Edited, Editor};
use super::multiline::Lines;

/// The inputs of a chat, one after the other.
pub enum Input {
    Terminal(Box<Editor>),
    Pipe(Pipe),
}

/// Whether somebody types and reads on a terminal.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl Input {
    /// The next input that is not blank; none at the end.
    ///
    /// # Errors
    /// Standard input cannot be read.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        match self {
            Input::Terminal(editor) => loop {
                match editor.read()? {
                    Edited::Text(text) if text.trim().is_empty() => {}
                    Edited::Text(text) => return Ok(Some(parse(text.trim_end()))),
                    Edited::End => return Ok(None),
                }
            },
            Input::Pipe(pipe) => pipe.next(),
        }
    }
}

/// Standard input as it is.
pub struct Pipe {
    input: Box<dyn BufRead>,
    /// All of it is one message.
    whole: bool,
    lines: Lines,
    line: usize,
}

impl Pipe {
    /// Each line is an input, or `whole` is one message.
    pub fn new(input: Box<dyn BufRead>, whole: bool) -> Self {
        Self {
            input,
            whole,
            lines: Lines::default(),
            line: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Entry>> {
        if self.whole {
            return self.message();
        }
        loop {
            let Some(line) = self.read_line()? else {
                let rest = self.lines.finish().filter(|text| !text.trim().is_empty());
                return Ok(rest.map(|text| parse(text.trim_end())));
            };
            let Ok(line) = String::from_utf8(line) else {
                return Ok(Some(Entry::Mistake(Mistake::NotText { line: self.line })));
            };
            match self.lines.push(&line) {
                Some(text) if !text.trim().is_empty() => {
                    return Ok(Some(parse(text.trim_end())));
                }
                _ => {}
            }
        }
    }

    /// A line without its end.
    fn read_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = self.input.read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(None);
        }
        self.line += 1;
        for end in [b'\n', b'\r'] {
            line.pop_if(|byte| *byte == end);
        }
        Ok(Some(line))
    }

    fn message(&mut self) -> Result<Option<Entry>> {
        let mut bytes = Vec::new();
        self.input
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
        let text = String::from_utf8(bytes).context("standard input is not UTF-8 text")?;
        let text = text.trim_end();
        Ok((!text.is_empty()).then(|| Entry::Message(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::Command;
    use super::*;
    use std::io::Cursor;

    fn entries(input: &'static [u8], whole: bool) -> Vec<Entry> {
        let mut pipe = Pipe::new(Box::new(Cursor::new(input)), whole);
        std::iter::from_fn(|| pipe.next().unwrap()).collect()
    }

    fn message(text: &str) -> Entry {
        Entry::Message(text.to_owned())
    }

    #[test]
    fn lines_are_inputs_and_blank_ones_are_not() {
        let input = b"hello\r\n\n  \nbe\\\ncause\n/undo\nlast";
        let undo = Entry::Command(Command::Undo);
        assert_eq!(
            entries(input, false),
            [
                message("hello"),
                message("be\ncause"),
                undo,
                message("last")
            ]
        );
        assert_eq!(entries(b"", false), []);
        assert_eq!(entries(b"a\\\n", false), [message("a")]);
    }

    #[test]
    fn the_whole_input_is_a_message_and_no_command() {
        assert_eq!(entries(b"/exit\n\nnow\n", true), [message("/exit\n\nnow")]);
        assert_eq!(entries(b"\n \n", true), []);
    }

    #[test]
    fn a_line_that_is_no_text_is_named_and_the_next_ones_are_read() {
        let mistake = Entry::Mistake(Mistake::NotText { line: 2 });
        assert_eq!(
            entries(b"a\nb\xff\nc\n", false),
            [message("a"), mistake, message("c")]
        );
    }
}
