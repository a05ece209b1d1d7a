//! Files that end inside the header.

use minfer_gguf::ErrorKind;

use crate::raw::{Field, RawFile, STRING, entry, string};
use crate::{Case, case};

/// The valid file cut off at the start of each header field, after its first byte, and before its last.
///
/// The counts come first and need room for 4 tensor entries of 32 bytes and 26 metadata entries of 13, so
/// shorter files are refused because of them. A long first string makes that end before the other fields.
pub fn cases() -> Vec<Case> {
    let mut valid = RawFile::valid();
    let long = entry("long", STRING, string(&[b'x'; 400]));
    valid.entries.insert(0, long);
    let (bytes, fields) = valid.encode();
    let data_start = bytes.len() - valid.data_len;
    let ends = fields.iter().map(|field| field.0).skip(1);
    let mut cases = Vec::new();
    for (&(start, field), end) in fields.iter().zip(ends.chain([data_start])) {
        let mut cuts = vec![start, start + 1, end - 1];
        cuts.dedup();
        cuts.retain(|cut| (start..end).contains(cut));
        for cut in cuts {
            cases.push(cut_off(&bytes, cut, field));
        }
    }
    cases
}

fn cut_off(bytes: &[u8], cut: usize, field: Field) -> Case {
    let what = format!("only {cut} bytes, ending in {field:?}");
    let file = bytes[..cut].to_vec();
    let mut cases = Vec::new();
    match field {
        Field::Magic => case!(
            cases,
            what,
            file,
            "not a GGUF file",
            ErrorKind::NotGguf { .. }
        ),
        _ if (16..16 + 4 * 32).contains(&cut) => {
            case!(
                cases,
                what,
                file,
                "the tensor count",
                ErrorKind::Count { .. }
            )
        }
        _ if (24..24 + 26 * 13).contains(&cut) => {
            case!(
                cases,
                what,
                file,
                "the metadata count",
                ErrorKind::Count { .. }
            )
        }
        Field::Fixed => case!(
            cases,
            what,
            file,
            "ends inside",
            ErrorKind::Truncated { .. }
        ),
        Field::Text => case!(
            cases,
            what,
            file,
            "is a string of",
            ErrorKind::StringLength { .. }
        ),
        Field::Padding => {
            case!(
                cases,
                what,
                file,
                "tensor `vector`",
                ErrorKind::OutsideFile { .. }
            )
        }
        Field::Elements => case!(
            cases,
            what,
            file,
            "of key `",
            ErrorKind::Count { .. } | ErrorKind::StringLength { .. }
        ),
    }
    cases.remove(0)
}
