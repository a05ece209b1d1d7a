//! No input makes the parser or a quantizer panic, and everything written is read back.

use minfer_gguf::{Array, Gguf, Tensor, TensorBytes, TensorType, Value, Writer, quantize};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Parses, and touches everything that a file which is accepted offers.
fn exercise(bytes: Vec<u8>) {
    let Ok(file) = Gguf::parse_bytes("input.gguf", bytes) else {
        return;
    };
    for (key, value) in file.metadata().iter() {
        assert_eq!(file.metadata().get(key).map(Value::ty), Some(value.ty()));
    }
    for info in file.tensors() {
        let tensor = file.tensor(&info.name).expect("a tensor that is listed");
        assert_eq!(tensor.bytes.len(), info.len);
        let mut row = vec![0.0; info.shape[0].min(1 << 20)];
        let row_bytes = tensor.ty.row_bytes(row.len()).unwrap_or(tensor.bytes.len());
        let bytes = tensor.bytes.get(..row_bytes).unwrap_or_default();
        let _ = quantize::dequantize(tensor.ty, bytes, &mut row);
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        text().prop_map(Value::Str),
    ]
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..8).prop_map(String::from_iter)
}

fn array() -> impl Strategy<Value = Array> {
    let flat = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(Array::U8),
        vec(any::<i8>(), 0..9).prop_map(Array::I8),
        vec(any::<u16>(), 0..9).prop_map(Array::U16),
        vec(any::<i16>(), 0..9).prop_map(Array::I16),
        vec(any::<u32>(), 0..9).prop_map(Array::U32),
        vec(any::<i32>(), 0..9).prop_map(Array::I32),
        vec(any::<u64>(), 0..9).prop_map(Array::U64),
        vec(any::<i64>(), 0..9).prop_map(Array::I64),
        vec(any::<f32>(), 0..9).prop_map(Array::F32),
        vec(any::<f64>(), 0..9).prop_map(Array::F64),
        vec(any::<bool>(), 0..9).prop_map(Array::Bool),
        vec(text(), 0..5).prop_map(Array::Str),
    ];
    flat.prop_recursive(4, 16, 4, |inner| vec(inner, 0..4).prop_map(Array::Array))
}

fn metadata() -> impl Strategy<Value = Vec<(String, Value)>> {
    let value = prop_oneof![scalar(), array().prop_map(Value::Array)];
    vec((text(), value), 0..8).prop_map(|entries| {
        let number = |(i, (key, value))| (format!("{i}{key}"), value);
        entries.into_iter().enumerate().map(number).collect()
    })
}

fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let types: Vec<_> = (0..64).filter_map(TensorType::from_code).collect();
    let tensor = (select(types), 1..4usize, vec(1..4usize, 0..4), any::<u8>());
    vec((text(), tensor), 0..6).prop_map(|tensors| {
        let make = |(i, (name, (ty, blocks, outer, fill)))| {
            let mut shape: Vec<usize> = vec![blocks * TensorType::block_len(ty)];
            shape.extend::<Vec<usize>>(outer);
            let len = ty.row_bytes(shape.iter().product()).expect("whole blocks");
            Tensor {
                name: format!("{i}{name}"),
                ty,
                shape,
                bytes: TensorBytes::from_vec(vec![fill; len]),
            }
        };
        tensors.into_iter().enumerate().map(make).collect()
    })
}

fn writer() -> impl Strategy<Value = Writer> {
    (metadata(), tensors(), select(vec![1u32, 8, 32, 256])).prop_map(
        |(metadata, tensors, alignment)| {
            let mut writer = Writer::new();
            for (key, value) in metadata {
                writer.set(key, value);
            }
            writer.set("general.alignment", alignment);
            for tensor in tensors {
                writer.add(tensor);
            }
            writer
        },
    )
}

/// A change of a file: of one byte, of an aligned or unaligned number, or of its length.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Number(Index, u64),
    Cut(Index),
    Repeat(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let edges = [
        0,
        1,
        2,
        7,
        1 << 31,
        1 << 32,
        1 << 61,
        1 << 63,
        u64::MAX - 31,
        u64::MAX,
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), select(edges.to_vec())).prop_map(|(at, n)| Change::Number(at, n)),
        any::<Index>().prop_map(Change::Cut),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Change::Repeat(a, b)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: Change) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match change {
        Change::Byte(at, byte) => bytes[at.index(len)] = byte,
        Change::Number(at, number) => {
            let at = at.index(len);
            let end = (at + 8).min(len);
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
        }
        Change::Cut(at) => bytes.truncate(at.index(len)),
        Change::Repeat(a, b) => {
            let (a, b) = (a.index(len), b.index(len));
            bytes.extend_from_within(a.min(b)..a.max(b));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(mut bytes in vec(any::<u8>(), 0..256), header in any::<bool>()) {
        if header {
            bytes.splice(0..0, *b"GGUF\x03\0\0\0");
        }
        exercise(bytes);
    }

    #[test]
    fn changed_files_do_not_panic(writer in writer(), changes in vec(change(), 1..8)) {
        let mut bytes = writer.to_bytes().expect("a valid file");
        for change in changes {
            apply(&mut bytes, change);
        }
        exercise(bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn quantizers_take_any_values(bits in vec(any::<u32>(), 256)) {
        let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
        for ty in (0..64).filter_map(TensorType::from_code) {
            if let Ok(bytes) = quantize::quantize(ty, &values) {
                let mut read = [0.0; 256];
                quantize::dequantize(ty, &bytes, &mut read).expect("whole blocks");
            }
        }
    }

    #[test]
    fn written_files_are_read_back(metadata in metadata(), tensors in tensors()) {
        let mut writer = Writer::new();
        for (key, value) in &metadata {
            writer.set(key, value.clone());
        }
        for tensor in &tensors {
            writer.add(tensor.clone());
        }
        let file = Gguf::parse_bytes("written.gguf", writer.to_bytes().unwrap()).unwrap();
        let read: Vec<_> = file.metadata().iter().map(|(k, v)| (k.to_owned(), v.clone())).collect();
        prop_assert_eq!(read, metadata);
        prop_assert_eq!(file.tensors().len(), tensors.len());
        for tensor in tensors {
            let read = file.tensor(&tensor.name).unwrap();
            prop_assert_eq!((read.ty, read.shape), (tensor.ty, tensor.shape));
            prop_assert_eq!(&*read.bytes, &*tensor.bytes);
        }
    }
}
