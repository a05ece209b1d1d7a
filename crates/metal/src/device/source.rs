//! Sources of a library.

use std::fmt::Write;

/// A named source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFile<'a> {
    /// Name that `#include "..."` uses.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// A source with its own includes in place, as one text.
///
/// A compiler at run time has no folder to look for headers in, so that every device gets the same text.
/// `#line` directives keep the places of the files it was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibrarySource {
    name: String,
    text: String,
}

/// An include without a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: no file `{include}` to include")]
pub struct SourceError {
    /// File with the include.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The file that was not found.
    pub include: String,
}

impl LibrarySource {
    /// Puts the text of `headers` in place of each `#include "name"` of `main`; each header once.
    /// Includes in angle brackets stay: they are the device's.
    pub fn new(main: SourceFile<'_>, headers: &[SourceFile<'_>]) -> Result<Self, SourceError> {
        let mut text = String::new();
        append(&mut text, main, headers, &mut Vec::new())?;
        Ok(LibrarySource {
            name: main.name.to_owned(),
            text,
        })
    }

    /// Name of the main file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn append<'a>(
    text: &mut String,
    file: SourceFile<'a>,
    headers: &[SourceFile<'a>],
    included: &mut Vec<&'a str>,
) -> Result<(), SourceError> {
    line_directive(text, 1, file.name);
    for (at, line) in file.text.lines().enumerate() {
        let Some(include) = included_file(line) else {
            // The file is in place once; the pragma would be about the whole text.
            let line = if line.trim() == "#pragma once" {
                ""
            } else {
                line
            };
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let header = headers.iter().find(|header| header.name == include);
        let header = header.ok_or_else(|| SourceError {
            file: file.name.to_owned(),
            line: at + 1,
            include: include.to_owned(),
        })?;
        if included.contains(&header.name) {
            text.push('\n');
            continue;
        }
        included.push(header.name);
        append(text, *header, headers, included)?;
        line_directive(text, at + 2, file.name);
    }
    Ok(())
}

fn line_directive(text: &mut String, line: usize, file: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "#line {line} \"{file}\"");
}

fn included_file(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("include")?.trim_start();
    let (name, _) = rest.strip_prefix('"')?.split_once('"')?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: SourceFile<'_> = SourceFile {
        name: "main.metal",
        text: "#include <metal_stdlib>\n#include \"a.h\"\nint two;\n#include \"b.h\"\nint four;\n",
    };

    fn header<'a>(name: &'a str, text: &'a str) -> SourceFile<'a> {
        SourceFile { name, text }
    }

    #[test]
    fn includes_are_put_in_place_once_and_lines_keep_their_numbers() {
        let headers = [
            header("a.h", "#pragma once\n#include \"b.h\"\nint a;\n"),
            header("b.h", "int b;\n"),
        ];
        let source = LibrarySource::new(MAIN, &headers).unwrap();
        let expected = "#line 1 \"main.metal\"\n#include <metal_stdlib>\n#line 1 \"a.h\"\n\n#line 1 \"b.h\"\nint b;\n\
                        #line 3 \"a.h\"\nint a;\n#line 3 \"main.metal\"\nint two;\n\nint four;\n";
        assert_eq!(source.text(), expected);
    }

    #[test]
    fn a_missing_header_is_named_with_its_place() {
        let error = LibrarySource::new(MAIN, &[header("a.h", "")]).unwrap_err();
        assert_eq!(error.to_string(), "main.metal:4: no file `b.h` to include");
    }
}
