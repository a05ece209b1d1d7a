//! Arbitrary bytes as a session file: verifying them must not panic, nor allocate more than they are.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use minfer_engine::session_file::host_of;

fuzz_target!(|bytes: &[u8]| {
    let _ = host_of(Cursor::new(bytes));
    // The same content with the start and the checksum of what precedes the rows, so that the fields behind
    // them are reached.
    if bytes.len() < 256 {
        return;
    }
    let mut file = bytes.to_vec();
    file[..12].copy_from_slice(b"MFSESS\x1a\n\x01\0\0\0");
    // Few enough tokens and bytes of host state to fit.
    let (tokens, host) = (file[80], file[96]);
    file[80..88].copy_from_slice(&u64::from(tokens).to_le_bytes());
    file[96..104].copy_from_slice(&u64::from(host).to_le_bytes());
    let end = 256 + 5 * usize::from(tokens) + usize::from(host);
    let Some((content, rest)) = file.split_at_mut_checked(end) else {
        return;
    };
    if let Some(checksum) = rest.first_chunk_mut::<32>() {
        *checksum = *blake3::hash(content).as_bytes();
    }
    if let Ok(found) = host_of(Cursor::new(&file)) {
        assert_eq!(found.len(), usize::from(host));
    }
});
