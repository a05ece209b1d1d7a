//! Reference dequantization agrees with an independent implementation, the `gguf` package on PyPI.

use minfer_gguf::quantize::dequantize;
use minfer_gguf::{Gguf, OpenOptions, TensorType};
use minfer_testdata::fixture;

#[test]
fn every_type_has_the_recorded_values() {
    let file = Gguf::open(fixture("tiny/dequantize.gguf"), OpenOptions::default()).unwrap();
    for ty in TensorType::WEIGHTS {
        let blocks = file.tensor(ty.name()).unwrap();
        assert_eq!(blocks.ty, ty);
        let expected = file.tensor(&format!("{ty}.values")).unwrap();
        let expected: Vec<f32> = expected
            .bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect();
        assert_eq!(blocks.shape, [256, 3], "{ty}");

        let mut values = vec![f32::NAN; expected.len()];
        dequantize(ty, &blocks.bytes, &mut values).unwrap();
        for (i, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value.to_bits(), expected.to_bits(), "{ty}, value {i}");
        }

        // Rows are whole blocks, so a row can be converted alone.
        let row_bytes = blocks.bytes.len() / 3;
        let mut row = [f32::NAN; 256];
        dequantize(ty, &blocks.bytes[2 * row_bytes..], &mut row).unwrap();
        assert_eq!(row, expected[512..], "{ty}");
    }
}
