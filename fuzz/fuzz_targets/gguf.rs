//! Arbitrary bytes as a GGUF file: parsing and reading every tensor must not panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use minfer_gguf::{Gguf, quantize};

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::parse_bytes("fuzz.gguf", bytes.to_vec()) else {
        return;
    };
    for (key, value) in file.metadata().iter() {
        assert_eq!(file.metadata().get(key).map(|v| v.ty()), Some(value.ty()));
    }
    for info in file.tensors() {
        let tensor = file.tensor(&info.name).expect("a tensor that is listed");
        let mut row = vec![0.0; info.shape[0].min(1 << 20)];
        let row_bytes = tensor.ty.row_bytes(row.len()).unwrap_or(tensor.bytes.len());
        let bytes = tensor.bytes.get(..row_bytes).unwrap_or_default();
        let _ = quantize::dequantize(tensor.ty, bytes, &mut row);
    }
});
