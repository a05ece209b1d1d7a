//! Vocabularies without a model: see `tests/fixtures/vocab/README.md`.

use std::fs::File;
use std::io::Read;

use minfer_gguf::Gguf;

use crate::fixture;

/// Names of the files in `vocab/vocabularies.zst`, in order, and their sizes in bytes.
const FILES: [(&str, usize); 4] = [
    ("gpt-2", 1_766_807),
    ("llama-spm", 723_869),
    ("llama-bpe", 7_818_140),
    ("qwen35", 5_928_682),
];

/// Names of all vocabularies.
pub const VOCABULARIES: [&str; 4] = [FILES[0].0, FILES[1].0, FILES[2].0, FILES[3].0];

/// One of [`VOCABULARIES`]. The whole archive up to it is decompressed at each call.
pub fn vocabulary(name: &str) -> Gguf {
    let file = File::open(fixture("vocab/vocabularies.zst")).expect("the archive");
    let mut archive = ruzstd::decoding::StreamingDecoder::new(file).expect("a zstd frame");
    for (file, size) in FILES {
        let mut bytes = vec![0; size];
        archive
            .read_exact(&mut bytes)
            .expect("as many bytes as listed");
        if file == name {
            return Gguf::parse_bytes(name, bytes).expect("a GGUF file");
        }
    }
    panic!("no vocabulary `{name}`")
}
