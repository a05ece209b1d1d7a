//! What can be said of a source without running it.

mod address_spaces;
mod barriers;
mod calls;
mod constants;
mod declarations;
mod finding;
mod includes;
mod overloads;
mod parameters;
mod pointers;
mod rules;
mod scopes;
mod signature;
mod text;
mod types;
mod words;
mod writes;

use std::path::Path;

use minfer_metal::device::LibrarySource;

pub use crate::front::FrontError;
pub use address_spaces::parse_address_spaces;
pub use barriers::{Barrier, barriers};
pub use finding::{LintError, LintFinding};
pub use rules::{RULES, Rule};
use text::Text;

use crate::report::allowance;

/// Everything that is wrong with a source, by place: breaches of [`rules`], and what [`parse_address_spaces`] finds.
/// A line may allow a rule with its reason, `softmetal: allow(RULE): REASON`.
///
/// `compiler` is clang 19, as in [`crate::Options::compiler`].
///
/// # Errors
///
/// If the compiler does not run.
pub fn check(source: &LibrarySource, compiler: &Path) -> Result<Vec<LintFinding>, LintError> {
    let mut found = rules(source);
    found.extend(parse_address_spaces(source, compiler)?);
    let lines = crate::front::lines(source.text());
    found.retain(|finding| {
        let lines = lines.get(&finding.place.file);
        let at = (finding.place.line as usize).checked_sub(1);
        let line = lines.zip(at).and_then(|(lines, at)| lines.get(at));
        line.is_none_or(|line| allowance(line, finding.rule).is_none())
    });
    found.sort_by(|a, b| (&a.place, a.rule).cmp(&(&b.place, b.rule)));
    found.dedup();
    Ok(found)
}

/// The rules, by family.
const FAMILIES: [fn(&Text<'_>, &mut Vec<LintFinding>); 9] = [
    calls::check,
    constants::check,
    includes::check,
    overloads::check,
    parameters::check,
    pointers::check,
    scopes::check,
    words::check,
    writes::check,
];

/// Breaches of the rules for kernels that the source's text shows.
pub fn rules(source: &LibrarySource) -> Vec<LintFinding> {
    let text = match Text::new(source) {
        Ok(text) => text,
        Err(error) => return vec![address_spaces::syntax(error)],
    };
    let mut found = Vec::new();
    for family in FAMILIES {
        family(&text, &mut found);
    }
    found
}
