//! The barriers of a source.

use std::collections::HashSet;

use minfer_metal::device::LibrarySource;
use serde::Serialize;

use super::text::Text;
use crate::front::FrontError;
use crate::front::lexer::first_of_name;
use crate::module::SourcePlace;
use crate::report::allowance;

/// A barrier that stands in a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Barrier {
    /// Where, as [`crate::SoftDevice::barriers`] and [`crate::Options::without_barrier`] have it.
    pub place: SourcePlace,
    /// Why it may stand though a run without it shows nothing: the text after `softmetal: allow(unneeded-barrier):`
    /// on its line.
    pub reason: Option<String>,
}

const FUNCTIONS: [&str; 2] = ["threadgroup_barrier", "simdgroup_barrier"];

/// The barriers of a source by place, whether a kernel reaches them or not. One in a macro is where the macro is
/// used.
pub fn barriers(source: &LibrarySource) -> Result<Vec<Barrier>, FrontError> {
    let text = Text::new(source)?;
    let names = names(&text);
    let mut found: Vec<_> = (0..text.tokens.len())
        .filter(|&at| names.contains(text.tokens[at].text))
        .map(|at| {
            let start = text.tokens[first_of_name(&text.tokens, at)].start;
            Barrier {
                place: text.place(start),
                reason: allowance(text.line(start), "unneeded-barrier").map(str::to_owned),
            }
        })
        .collect();
    found.sort_by(|a, b| a.place.cmp(&b.place));
    found.dedup();
    Ok(found)
}

/// The functions, and macros that call them.
fn names<'a>(text: &Text<'a>) -> HashSet<&'a str> {
    let mut names = HashSet::from(FUNCTIONS);
    loop {
        let known = names.len();
        for one in &text.macros {
            if one.body.iter().any(|token| names.contains(token.text)) {
                names.insert(one.name);
            }
        }
        if names.len() == known {
            return names;
        }
    }
}
