//! Counts and lengths that the file has no room for.

use minfer_gguf::ErrorKind;

use crate::raw::{ARRAY, RawFile, SCALARS, STRING, array, entry, string_of_len};
use crate::{Case, case};

/// Counts that no file has room for; some overflow when multiplied by an element size.
const HUGE: [u64; 6] = [
    1 << 32,
    1 << 60,
    (1 << 61) + 1,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    header_counts(&mut cases);
    string_lengths(&mut cases);
    array_lengths(&mut cases);
    cases
}

fn header_counts(cases: &mut Vec<Case>) {
    // 1000 tensor entries take at least 32,000 bytes, 1000 metadata entries at least 13,000.
    for count in HUGE.into_iter().chain([1000]) {
        let mut file = RawFile::valid();
        file.tensor_count = Some(count);
        let what = format!("{count} tensors");
        case!(
            cases,
            what,
            file.bytes(),
            "the tensor count",
            ErrorKind::Count { .. }
        );

        let mut file = RawFile::valid();
        file.entry_count = Some(count);
        let what = format!("{count} metadata entries");
        case!(
            cases,
            what,
            file.bytes(),
            "the metadata count",
            ErrorKind::Count { .. }
        );
    }
}

fn string_lengths(cases: &mut Vec<Case>) {
    let whole_file = RawFile::valid().bytes().len() as u64;
    for len in HUGE.into_iter().chain([whole_file]) {
        for i in [0, 5, 24] {
            let mut file = RawFile::valid();
            file.entries[i].key_len = Some(len);
            let what = format!("key {i} of {len} bytes");
            let named = format!("key of metadata entry {i}");
            case!(
                cases,
                what,
                file.bytes(),
                named,
                ErrorKind::StringLength { .. }
            );
        }
        for i in [0, 3] {
            let mut file = RawFile::valid();
            file.tensors[i].name_len = Some(len);
            let what = format!("tensor name {i} of {len} bytes");
            let named = format!("name of tensor {i}");
            case!(
                cases,
                what,
                file.bytes(),
                named,
                ErrorKind::StringLength { .. }
            );
        }
        let text = string_of_len(len, b"text");
        let file = RawFile::valid().with_entry(entry("long", STRING, text.clone()));
        let what = format!("string of {len} bytes");
        case!(
            cases,
            what,
            file.bytes(),
            "`long`",
            ErrorKind::StringLength { .. }
        );

        let strings = array(STRING, 1, &text);
        let file = RawFile::valid().with_entry(entry("longs", ARRAY, strings));
        let what = format!("string of {len} bytes in an array");
        case!(
            cases,
            what,
            file.bytes(),
            "`longs`",
            ErrorKind::StringLength { .. }
        );
    }
}

fn array_lengths(cases: &mut Vec<Case>) {
    // A string takes at least 8 bytes, an inner array at least 12.
    let elements = SCALARS.into_iter().chain([(STRING, 8), (ARRAY, 12)]);
    for (element, size) in elements {
        let after_array = RawFile::valid().bytes().len();
        let too_many = (after_array / size) as u64;
        for len in HUGE.into_iter().chain([too_many]) {
            let value = array(element, len, &vec![0; 3 * size]);
            let file = RawFile::valid().with_entry(entry("many", ARRAY, value));
            let what = format!("array of {len} elements of type {element}");
            case!(cases, what, file.bytes(), "`many`", ErrorKind::Count { .. });
        }
    }
    for len in HUGE {
        let inner = array(0, len, &[]);
        let file = RawFile::valid().with_entry(entry("inner", ARRAY, array(ARRAY, 1, &inner)));
        let what = format!("inner array of {len} elements");
        case!(
            cases,
            what,
            file.bytes(),
            "`inner`",
            ErrorKind::Count { .. }
        );
    }
}
