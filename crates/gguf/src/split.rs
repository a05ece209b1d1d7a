//! Names and consistency of the parts of a split model.
//!
//! Part `i` of `n` (from 1) is `<prefix>-<i>-of-<n>.gguf`, both numbers with five digits. Every part has
//! the keys `split.no` (from 0) and `split.count`; the first one has the metadata of the model.
//! Source: the gguf-split tool of llama.cpp.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Metadata};

/// Index of a part, from 0.
pub(crate) const INDEX_KEY: &str = "split.no";
/// Number of parts.
pub(crate) const COUNT_KEY: &str = "split.count";
/// Number of tensors in all parts.
pub(crate) const TENSORS_KEY: &str = "split.tensors.count";

/// All keys that describe a file as a part.
pub(crate) const KEYS: [&str; 3] = [INDEX_KEY, COUNT_KEY, TENSORS_KEY];

/// File name of part `index` (from 0) of `count`.
pub(crate) fn part_name(prefix: &str, index: usize, count: usize) -> String {
    format!("{prefix}-{:05}-of-{count:05}.gguf", index + 1)
}

/// The prefix and the number of parts in the file name of a part.
fn parse_name(name: &str) -> Option<(&str, usize)> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let five_digits = |s: &str| -> Option<usize> {
        (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit()))
            .then(|| s.parse().ok())
            .flatten()
    };
    let (number, count) = (five_digits(number)?, five_digits(count)?);
    (1..=count).contains(&number).then_some((prefix, count))
}

/// The files of the model that `path` is a part of, in order. All of them exist, except that a `path`
/// which does not look like a part is returned as it is.
pub(crate) fn find_parts(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some((prefix, count)) = name.and_then(parse_name) else {
        return Ok(vec![path.to_owned()]);
    };
    let names = (0..count).map(|index| part_name(prefix, index, count));
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        let part = path.with_file_name(&name);
        if part.is_file() {
            parts.push(part);
        } else {
            missing.push(name);
        }
    }
    if missing.is_empty() {
        Ok(parts)
    } else {
        Err(Error::new(path, ErrorKind::MissingParts { count, missing }))
    }
}

/// Checks the split keys of part `index` of `count`.
pub(crate) fn check_part(metadata: &Metadata, index: usize, count: usize) -> Result<(), Error> {
    let found = metadata.get_u64(COUNT_KEY)?;
    if count == 1 {
        return match found {
            Some(count) if count > 1 => Err(metadata.error(ErrorKind::SplitName { count })),
            _ => Ok(()),
        };
    }
    if found != Some(count as u64) {
        let expected = count;
        return Err(metadata.error(ErrorKind::SplitCount { expected, found }));
    }
    let found = metadata.get_u64(INDEX_KEY)?;
    if found != Some(index as u64) {
        let expected = index;
        return Err(metadata.error(ErrorKind::SplitIndex { expected, found }));
    }
    Ok(())
}

/// Checks the number of tensors in all parts.
pub(crate) fn check_tensors(metadata: &Metadata, found: usize) -> Result<(), Error> {
    match metadata.get_u64(TENSORS_KEY)? {
        Some(expected) if expected != found as u64 => {
            Err(metadata.error(ErrorKind::SplitTensors { expected, found }))
        }
        _ => Ok(()),
    }
}
