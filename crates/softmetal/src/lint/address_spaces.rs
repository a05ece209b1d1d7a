//! Parses a source with its address spaces, as C++ for OpenCL.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use minfer_metal::device::LibrarySource;

use super::finding::{LintError, LintFinding};
use crate::front::{FrontError, Strict};
use crate::module::SourcePlace;

const RULE: &str = "address-spaces";

const OPTIONS: &[&str] = &[
    "-x",
    "clcpp",
    "-cl-std=clc++2021",
    "--target=x86_64-linux-gnu",
    "-fsyntax-only",
    // Neither OpenCL's library nor the rest of what Metal does not have.
    "-cl-no-stdinc",
    "-Xclang",
    "-cl-ext=-__opencl_c_device_enqueue,-__opencl_c_pipes",
    // Metal has no double: literals are float.
    "-cl-single-precision-constant",
    "-w",
    "-ferror-limit=0",
    "-ftemplate-backtrace-limit=0",
    "-fno-caret-diagnostics",
    "-fno-color-diagnostics",
    "-",
];

/// Every use of a pointer or reference that its address space does not allow, in functions and in the templates that
/// the source instantiates.
///
/// `compiler` is clang 19. A pointer without an address space may point anywhere here: [`super::rules`] finds those.
///
/// # Errors
///
/// If the compiler does not run, or fails without a message about the source.
pub fn parse_address_spaces(
    source: &LibrarySource,
    compiler: &Path,
) -> Result<Vec<LintFinding>, LintError> {
    let strict = match Strict::new(source) {
        Ok(strict) => strict,
        Err(error) => return Ok(vec![syntax(error)]),
    };
    let failed = |error| LintError::Compiler {
        program: compiler.to_owned(),
        error,
    };
    let output = run(compiler, &strict.unit).map_err(failed)?;
    let diagnostics = diagnostics(&output.messages);
    if !output.success && diagnostics.is_empty() {
        return Err(LintError::Failed {
            program: compiler.to_owned(),
            message: output.messages,
        });
    }
    let counted = diagnostics.iter().filter(|diagnostic| {
        !diagnostic.is_copy() && !diagnostic.is_value() && !diagnostic.is_own_memory()
    });
    Ok(counted
        .map(|diagnostic| diagnostic.finding(source.name(), &strict))
        .collect())
}

/// A source that the front end does not read, as a finding.
pub(super) fn syntax(error: FrontError) -> LintFinding {
    LintFinding {
        place: SourcePlace {
            file: error.file,
            line: error.line as u32,
            column: 0,
        },
        rule: "syntax",
        message: error.message,
    }
}

struct Output {
    success: bool,
    messages: String,
}

fn run(compiler: &Path, unit: &str) -> io::Result<Output> {
    let mut child = Command::new(compiler)
        .args(OPTIONS)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    // It reads everything before it says anything about it. One that ends early says why.
    let written = child
        .stdin
        .take()
        .map(|mut pipe| pipe.write_all(unit.as_bytes()));
    let output = child.wait_with_output()?;
    match written {
        Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    Ok(Output {
        success: output.status.success(),
        messages: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// An error with its notes.
struct Diagnostic<'a> {
    error: Line<'a>,
    notes: Vec<Line<'a>>,
}

/// `<stdin>:LINE:COLUMN: KIND: TEXT`
struct Line<'a> {
    line: usize,
    column: usize,
    kind: &'a str,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Option<Self> {
        let mut parts = line.strip_prefix("<stdin>:")?.splitn(4, ':');
        Some(Line {
            line: parts.next()?.parse().ok()?,
            column: parts.next()?.parse().ok()?,
            kind: parts.next()?.trim(),
            text: parts.next()?.trim(),
        })
    }
}

fn diagnostics(messages: &str) -> Vec<Diagnostic<'_>> {
    let mut found: Vec<Diagnostic<'_>> = Vec::new();
    for line in messages.lines().filter_map(Line::new) {
        if line.kind.ends_with("error") {
            found.push(Diagnostic {
                error: line,
                notes: Vec::new(),
            });
        } else if let Some(last) = found.last_mut() {
            last.notes.push(line);
        }
    }
    found
}

impl Diagnostic<'_> {
    /// Whether it is about the copy of a struct out of constant memory, which Metal allows.
    fn is_copy(&self) -> bool {
        const WHY: &str = ") not viable: cannot bind reference in address space '__constant' to object in address space";
        let is_copy = ["no matching constructor", "no viable overloaded '='"]
            .iter()
            .any(|start| self.error.text.starts_with(start));
        is_copy
            && self.notes.iter().any(|note| {
                note.text.starts_with("candidate")
                    && note.text.contains("(the implicit copy")
                    && note.text.contains(WHY)
            })
    }

    /// Whether it is about values: those of vectors that OpenCL does not convert and Metal does, and assertions,
    /// which the software device's compiler checks with the layout of types.
    fn is_value(&self) -> bool {
        let starts = [
            "scalar operand type has greater rank than the type of the vector element",
            "too few elements in vector initialization",
            "excess elements in scalar initializer",
            "excess elements in vector initializer",
            "static assertion failed",
            // A constructor of a vector.
            "no matching function for call to 'make'",
        ];
        starts
            .iter()
            .any(|start| self.error.text.starts_with(start))
    }

    /// Whether it is about members of a method's object or about temporaries, used as a thread's memory. Metal has
    /// both there; OpenCL does not know where the object is, and has temporaries nowhere.
    fn is_own_memory(&self) -> bool {
        let others = ["__global", "__local", "__constant"];
        let texts = || {
            std::iter::once(&self.error)
                .chain(&self.notes)
                .map(|line| line.text)
        };
        let is_own = |text: &str| {
            text.contains("'__generic")
                || text
                    .contains("cannot bind to a temporary object because of address space mismatch")
        };
        let is_thread = |text: &str| text.contains("__private");
        texts().any(|text| is_own(text) && is_thread(text))
            && !texts().any(|text| others.iter().any(|space| text.contains(space)))
    }

    /// The finding, at the first place in the source that it names.
    fn finding(&self, source: &str, strict: &Strict<'_>) -> LintFinding {
        let mut lines = std::iter::once(&self.error).chain(&self.notes);
        let place = lines
            .find_map(|line| strict.place(line.line, line.column))
            .unwrap_or_else(|| SourcePlace {
                file: source.to_owned(),
                line: 0,
                column: 0,
            });
        let why = self
            .notes
            .iter()
            .find(|note| note.text.starts_with("candidate "));
        let mut message = metal_words(self.error.text);
        if let Some(why) = why {
            message = format!("{message}: {}", metal_words(why.text));
        }
        LintFinding {
            place,
            rule: RULE,
            message,
        }
    }
}

/// A message in Metal's words. Variables are always in a thread's memory: that is left out.
fn metal_words(text: &str) -> String {
    let mut text = text.replace("*__private", "*").replace("&__private", "&");
    for (opencl, metal) in [
        ("__global", "device"),
        ("__local", "threadgroup"),
        ("__constant", "constant"),
        ("__private", "thread"),
        ("__generic ", ""),
    ] {
        text = text.replace(opencl, metal);
    }
    text
}
