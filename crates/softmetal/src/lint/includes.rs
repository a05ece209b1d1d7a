//! Headers of a source.

use super::finding::LintFinding;
use super::text::Text;

/// Only Metal's own headers are there for a compiler at run time. Those in quotes are in place already.
pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    for range in &text.directives {
        let line = text.slice(range.clone());
        let Some(rest) = line[1..].trim_start().strip_prefix("include") else {
            continue;
        };
        let name = rest
            .trim_start()
            .strip_prefix('<')
            .and_then(|rest| rest.split_once('>'));
        let is_metal = |name: &str| name.starts_with("metal_") || name == "simd/simd.h";
        if !name.is_some_and(|(name, _)| is_metal(name)) {
            found.push(text.finding(
                range.start,
                "include",
                format!(
                    "`{}`: kernels include <metal_stdlib> and its parts, and files of their own",
                    line.trim()
                ),
            ));
        }
    }
}
