//! Wrong magic, version or byte order.

use minfer_gguf::ErrorKind;

use crate::raw::RawFile;
use crate::{Case, case};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let other_files: [&[u8]; 8] = [
        b"",
        b"G",
        b"GGU",
        b"GGML\x01\0\0\0",
        b"tjgg\x03\0\0\0",
        b"PK\x03\x04",
        b"{\"model\": 1}",
        &[0; 64],
    ];
    for bytes in other_files {
        let what = format!("a file of {bytes:?}");
        case!(
            cases,
            what,
            bytes.to_vec(),
            "not a GGUF file",
            ErrorKind::NotGguf { .. }
        );
    }
    for byte in 0..4 {
        let mut file = RawFile::valid();
        file.magic[byte] ^= 0x20;
        let what = format!("byte {byte} of the magic in the other case");
        case!(
            cases,
            what,
            file.bytes(),
            "not a GGUF file",
            ErrorKind::NotGguf { .. }
        );
    }
    for version in [0, 1, 4, 5, 0x0000_0300, u32::MAX] {
        let mut file = RawFile::valid();
        file.version = version;
        let what = format!("version {version}");
        case!(
            cases,
            what,
            file.bytes(),
            version,
            ErrorKind::Version { .. }
        );
    }
    for version in [1u32, 2, 3] {
        let mut file = RawFile::valid();
        file.version = version.swap_bytes();
        let what = format!("big-endian version {version}");
        case!(
            cases,
            what,
            file.bytes(),
            "big-endian",
            ErrorKind::BigEndian
        );
    }
    let mut file = RawFile::valid();
    file.magic = *b"FUGG";
    case!(
        cases,
        "the magic as a big-endian word",
        file.bytes(),
        "big-endian",
        ErrorKind::BigEndian
    );
    cases
}
