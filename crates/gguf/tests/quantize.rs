//! Quantization gives llama.cpp's bytes.

use std::fs;

use minfer_gguf::quantize::{QuantizeError, dequantize, quantize};
use minfer_gguf::{Gguf, OpenOptions, TensorType};
use minfer_testdata::{fixture, tiny_model};
use sha2::{Digest, Sha256};

/// Every type but f32.
fn quantizers() -> impl Iterator<Item = TensorType> {
    let all = TensorType::WEIGHTS.into_iter();
    all.filter(|ty| *ty != TensorType::F32)
}

/// `quantized.sha256` has the digest of every matrix in the files that llama.cpp quantized.
#[test]
fn matrices_have_llama_cpps_bytes() {
    let source = Gguf::open(tiny_model("tiny-qwen2-f32"), OpenOptions::default()).unwrap();
    let list = fs::read_to_string(fixture("tiny/quantized.sha256")).unwrap();
    assert_eq!(list.lines().count(), 16 * quantizers().count());
    for line in list.lines() {
        let (expected, what) = line.split_once("  ").unwrap();
        let (ty, name) = what.split_once(' ').unwrap();
        let ty = quantizers().find(|t| t.name() == ty).unwrap();
        let tensor = source.tensor(name).unwrap();
        let mut values = vec![0.0; tensor.shape.iter().product()];
        dequantize(tensor.ty, &tensor.bytes, &mut values).unwrap();
        assert_eq!(sha256(&quantize(ty, &values).unwrap()), expected, "{what}");
    }
}

/// `quantize.gguf` has rows that random weights do not contain, as llama.cpp quantizes them.
#[test]
fn rows_of_special_values_have_llama_cpps_bytes() {
    let file = Gguf::open(fixture("tiny/quantize.gguf"), OpenOptions::default()).unwrap();
    let source = file.tensor("values").unwrap();
    let rows = source.shape[1];
    let source_bytes = source.bytes.len() / rows;
    let mut checked = 0;
    for ty in quantizers() {
        let Some(expected) = file.tensor(ty.name()) else {
            continue;
        };
        let row_bytes = expected.bytes.len() / rows;
        let sources = source.bytes.chunks(source_bytes);
        for (i, (source_row, expected)) in sources.zip(expected.bytes.chunks(row_bytes)).enumerate()
        {
            let mut values = [0.0; 256];
            dequantize(source.ty, source_row, &mut values).unwrap();
            assert_eq!(quantize(ty, &values).unwrap(), expected, "{ty}, row {i}");
            checked += 1;
        }
    }
    assert_eq!(checked, 12 * 18);
}

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Values that random weights do not have: zeros, ties, and a largest magnitude of either sign. The
/// expected bytes are worked out by hand from the formulas of the format.
#[test]
fn blocks_of_special_values() {
    let zeros = [0.0f32; 32];
    assert_eq!(quantize(TensorType::Q8_0, &zeros).unwrap(), [0; 34]);
    // d = 0 / -8 is a negative zero; every quant is 8.
    let mut q4_0 = vec![0x88; 18];
    q4_0[..2].copy_from_slice(&[0x00, 0x80]);
    assert_eq!(quantize(TensorType::Q4_0, &zeros).unwrap(), q4_0);

    // d = 127 / 127 = 1; ties round away from zero.
    let mut values = [0.0f32; 32];
    (values[0], values[1], values[2]) = (-127.0, 0.5, -2.5);
    let q8_0 = quantize(TensorType::Q8_0, &values).unwrap();
    assert_eq!(q8_0[..6], [0x00, 0x3c, 0x81, 1, 0xfd, 0]);

    // The extreme 8 gets the quant 0 and d = -1; -8 would be quant 16 and is clamped to 15.
    let mut values = [0.0f32; 32];
    (values[0], values[16]) = (8.0, -8.0);
    let q4_0 = quantize(TensorType::Q4_0, &values).unwrap();
    assert_eq!(q4_0[..4], [0x00, 0xbc, 0xf0, 0x88]);
}

#[test]
fn wrong_lengths_and_types_are_refused() {
    assert_eq!(
        quantize(TensorType::Q4_0, &[0.0; 33]),
        Err(QuantizeError::Length {
            ty: TensorType::Q4_0,
            len: 33
        })
    );
    assert_eq!(
        dequantize(TensorType::Q4_0, &[0; 17], &mut [0.0; 32]),
        Err(QuantizeError::Bytes {
            ty: TensorType::Q4_0,
            values: 32,
            expected: 18,
            found: 17
        })
    );
    assert_eq!(
        quantize(TensorType::IQ1_S, &[0.0; 256])
            .unwrap_err()
            .to_string(),
        "IQ1_S has no quantizer"
    );
}
