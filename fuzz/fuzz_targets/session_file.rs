//! Arbitrary bytes as a session file: verifying them must not panic, nor allocate more than they are.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use minfer_engine::session_file::host_of;

fuzz_target!(|bytes: &[u8]| {
    let _ = host_of(Cursor::new(bytes));
    // The same content with the start, the length and the checksum of a session file, so that the fields
    // behind them are reached.
    let len = bytes.len() as u64 + 32;
    let mut file = [bytes, &[0; 32]].concat();
    let Some((content, checksum)) = file.split_last_chunk_mut::<32>() else {
        return;
    };
    if content.len() < 24 {
        return;
    }
    content[..12].copy_from_slice(b"MFSESS\x1a\n\x01\0\0\0");
    content[16..24].copy_from_slice(&len.to_le_bytes());
    *checksum = *blake3::hash(content).as_bytes();
    if let Ok(host) = host_of(Cursor::new(&file)) {
        assert!(host.len() < file.len());
    }
});
