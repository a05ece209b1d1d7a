//! Wrong metadata: types, text, booleans, nesting, duplicates, alignment.

use minfer_gguf::ErrorKind;

use crate::raw::{ARRAY, BOOL, F32, I32, RawFile, STRING, U8, U32, U64, array, entry, string};
use crate::{Case, case};

const UNKNOWN_TYPES: [u32; 5] = [13, 14, 255, 0x0100_0000, u32::MAX];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    types(&mut cases);
    text(&mut cases);
    booleans(&mut cases);
    nesting(&mut cases);
    duplicates(&mut cases);
    alignment(&mut cases);
    cases
}

fn with(key: &str, ty: u32, value: impl Into<Vec<u8>>) -> Vec<u8> {
    RawFile::valid().with_entry(entry(key, ty, value)).bytes()
}

fn types(cases: &mut Vec<Case>) {
    for code in UNKNOWN_TYPES {
        let what = format!("value of type {code}");
        let file = with("odd", code, [0; 8]);
        case!(cases, what, file, "`odd`", ErrorKind::ValueType { .. });

        let what = format!("array of type {code}");
        let file = with("odd", ARRAY, array(code, 1, &[0; 8]));
        case!(cases, what, file, "`odd`", ErrorKind::ElementType { .. });

        let what = format!("empty array of type {code}");
        let file = with("odd", ARRAY, array(code, 0, &[]));
        case!(cases, what, file, "`odd`", ErrorKind::ElementType { .. });

        let what = format!("inner array of type {code}");
        let inner = array(code, 1, &[0; 8]);
        let file = with("odd", ARRAY, array(ARRAY, 1, &inner));
        case!(cases, what, file, "`odd`", ErrorKind::ElementType { .. });
    }
}

fn text(cases: &mut Vec<Case>) {
    // A lone continuation byte, an overlong slash, a surrogate, an unfinished character.
    let invalid: [&[u8]; 4] = [b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe4\xb8"];
    for bytes in invalid {
        let mut file = RawFile::valid();
        file.entries[3].key = bytes.to_vec();
        let what = format!("key {bytes:?}");
        case!(
            cases,
            what,
            file.bytes(),
            "key of metadata entry 3",
            ErrorKind::Utf8 { .. }
        );

        let mut file = RawFile::valid();
        file.tensors[2].name = bytes.to_vec();
        let what = format!("tensor name {bytes:?}");
        case!(
            cases,
            what,
            file.bytes(),
            "name of tensor 2",
            ErrorKind::Utf8 { .. }
        );

        let what = format!("string {bytes:?}");
        let file = with("bad", STRING, string(bytes));
        case!(cases, what, file, "`bad`", ErrorKind::Utf8 { .. });

        let what = format!("string {bytes:?} in an array");
        let file = with("bad", ARRAY, array(STRING, 1, &string(bytes)));
        case!(cases, what, file, "`bad`", ErrorKind::Utf8 { .. });
    }
}

fn booleans(cases: &mut Vec<Case>) {
    for byte in [2, 128, 255] {
        let what = format!("boolean {byte}");
        case!(
            cases,
            what,
            with("flag", BOOL, [byte]),
            "`flag`",
            ErrorKind::Bool { .. }
        );

        let what = format!("boolean {byte} in an array");
        let file = with("flag", ARRAY, array(BOOL, 3, &[0, 1, byte]));
        case!(cases, what, file, "`flag`", ErrorKind::Bool { .. });
    }
}

fn nesting(cases: &mut Vec<Case>) {
    for depth in [9, 10, 100, 10_000] {
        let mut value = array(U8, 1, &[7]);
        for _ in 1..depth {
            value = array(ARRAY, 1, &value);
        }
        let what = format!("arrays nested {depth} deep");
        case!(
            cases,
            what,
            with("deep", ARRAY, value),
            "`deep`",
            ErrorKind::ArrayDepth { .. }
        );
    }
}

fn duplicates(cases: &mut Vec<Case>) {
    for key in ["scalar.0", "string", "nested"] {
        let what = format!("a second key `{key}`");
        let named = format!("`{key}`");
        case!(
            cases,
            what,
            with(key, U32, [0; 4]),
            named,
            ErrorKind::DuplicateKey { .. }
        );
    }
}

fn alignment(cases: &mut Vec<Case>) {
    let key = "general.alignment";
    for value in [0u32, 3, 5, 24, 31, 33, 1000, 0x8000_0001, u32::MAX] {
        let what = format!("alignment {value}");
        let file = with(key, U32, value.to_le_bytes());
        case!(cases, what, file, key, ErrorKind::Alignment { .. });
    }
    let wrong_types = [
        (F32, 32f32.to_le_bytes().to_vec()),
        (BOOL, vec![1]),
        (STRING, string(b"32")),
        (ARRAY, array(U32, 1, &32u32.to_le_bytes())),
    ];
    for (ty, value) in wrong_types {
        let what = format!("alignment of type {ty}");
        case!(
            cases,
            what,
            with(key, ty, value),
            key,
            ErrorKind::WrongType { .. }
        );
    }
    let file = with(key, I32, (-32i32).to_le_bytes());
    case!(
        cases,
        "alignment -32",
        file,
        key,
        ErrorKind::OutOfRange { .. }
    );
    let file = with(key, U64, (1u64 << 32).to_le_bytes());
    case!(
        cases,
        "alignment 2^32",
        file,
        key,
        ErrorKind::OutOfRange { .. }
    );
}
