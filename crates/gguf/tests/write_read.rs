//! What is written is read back, whole, split and by either way of loading.

use std::fs;
use std::path::Path;

use minfer_gguf::{
    Array, ErrorKind, Gguf, OpenOptions, Tensor, TensorBytes, TensorType, Value, ValueType, Writer,
};

fn tensor(name: &str, ty: TensorType, shape: &[usize], fill: u8) -> Tensor {
    let elements: usize = shape.iter().product();
    let len = ty.row_bytes(elements).unwrap();
    Tensor {
        name: name.to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec((0..len).map(|i| fill.wrapping_add(i as u8)).collect()),
    }
}

/// Every type of value, and nested arrays whose inner arrays differ.
fn values() -> Vec<(&'static str, Value)> {
    vec![
        ("u8", Value::U8(u8::MAX)),
        ("i8", Value::I8(i8::MIN)),
        ("u16", Value::U16(u16::MAX)),
        ("i16", Value::I16(i16::MIN)),
        ("u32", Value::U32(u32::MAX)),
        ("i32", Value::I32(i32::MIN)),
        ("u64", Value::U64(u64::MAX)),
        ("i64", Value::I64(i64::MIN)),
        ("f32", Value::F32(-1.5)),
        ("f64", Value::F64(f64::MIN_POSITIVE)),
        ("bool", Value::Bool(true)),
        ("string", "Straße \u{1f980}".into()),
        ("empty string", "".into()),
        ("u8s", vec![0u8, 255].into()),
        ("i8s", vec![-128i8, 127].into()),
        ("u16s", vec![1u16, 65535].into()),
        ("i16s", vec![-32768i16].into()),
        ("u32s", vec![7u32; 3].into()),
        ("i32s", vec![-1i32, 0, 1].into()),
        ("u64s", vec![u64::MAX].into()),
        ("i64s", vec![i64::MIN].into()),
        ("f32s", vec![0.5f32, f32::INFINITY].into()),
        ("f64s", vec![f64::MAX].into()),
        ("bools", vec![true, false].into()),
        ("strings", vec!["a".to_owned(), String::new()].into()),
        ("empty", Vec::<f32>::new().into()),
        (
            "nested",
            vec![
                Array::I32(vec![1, 2]),
                Array::Array(vec![Array::Str(vec!["x".to_owned()]), Array::Bool(vec![])]),
            ]
            .into(),
        ),
    ]
}

fn writer() -> Writer {
    let mut writer = Writer::new();
    for (key, value) in values() {
        writer.set(key, value);
    }
    writer
        .add(tensor("scalars", TensorType::I8, &[3], 1))
        .add(tensor("matrix", TensorType::Q6_K, &[512, 2], 2))
        .add(tensor("cube", TensorType::F16, &[2, 3, 5], 3))
        .add(tensor("last", TensorType::F32, &[1, 1, 1, 1], 4));
    writer
}

fn check(file: &Gguf) {
    let names: Vec<_> = file.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["scalars", "matrix", "cube", "last"]);
    let matrix = file.tensor("matrix").unwrap();
    assert_eq!((matrix.ty, matrix.shape), (TensorType::Q6_K, vec![512, 2]));
    assert_eq!(matrix.bytes.len(), 4 * 210);
    assert_eq!(matrix.bytes[..3], [2, 3, 4]);
    assert_eq!(*file.tensor("last").unwrap().bytes, [4, 5, 6, 7]);
    assert!(file.tensor("las").is_none());
    for (key, value) in values() {
        assert_eq!(file.metadata().get(key), Some(&value));
    }
}

#[test]
fn one_file_in_memory_and_on_disk() {
    let bytes = writer().to_bytes().unwrap();
    let file = Gguf::parse_bytes("memory", bytes.clone()).unwrap();
    check(&file);
    let keys: Vec<_> = file
        .metadata()
        .iter()
        .map(|(key, _)| key.to_owned())
        .collect();
    let written: Vec<_> = values().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, written);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, "replaced as a whole").unwrap();
    writer().write(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    for mmap in [true, false] {
        let file = Gguf::open(&path, OpenOptions { mmap }).unwrap();
        check(&file);
        assert_eq!(file.file_bytes(), bytes.len() as u64);
        assert_eq!(file.paths().collect::<Vec<_>>(), [path.as_path()]);
    }
}

#[test]
fn a_mapped_file_alone_has_pages_to_the_end_of_the_last() {
    let bytes = writer().to_bytes().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    writer().write(&path).unwrap();
    for mmap in [true, false] {
        let file = Gguf::open(&path, OpenOptions { mmap }).unwrap();
        let name = &file.tensors()[0].name;
        let tensor = file.tensor(name).unwrap();
        let (storage, range) = (tensor.bytes.storage(), tensor.bytes.range());
        assert_eq!(storage.bytes(), bytes);
        assert_eq!(storage.bytes()[range], *tensor.bytes);
        let pages = storage.pages();
        if !mmap {
            assert!(pages.is_empty(), "they are the allocator's");
            continue;
        }
        assert_eq!(pages.len() % bytes.len().next_multiple_of(4096), 0);
        assert_eq!(pages[..bytes.len()], bytes);
        assert!(pages[bytes.len()..].iter().all(|&byte| byte == 0));
    }
}

/// The bytes worked out by hand from the specification.
#[test]
fn layout_of_a_small_file() {
    let mut writer = Writer::new();
    writer.set("general.alignment", 8u32);
    writer.set("a", vec![Array::U16(vec![0x0102])]);
    writer.add(tensor("t", TensorType::I8, &[2, 1], 9));
    writer.add(tensor("u", TensorType::I8, &[1], 5));
    let expected = [
        &b"GGUF\x03\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"[..],
        b"\x11\0\0\0\0\0\0\0general.alignment\x04\0\0\0\x08\0\0\0",
        b"\x01\0\0\0\0\0\0\0a\x09\0\0\0\x09\0\0\0\x01\0\0\0\0\0\0\0",
        b"\x02\0\0\0\x01\0\0\0\0\0\0\0\x02\x01",
        b"\x01\0\0\0\0\0\0\0t\x02\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0",
        b"\x18\0\0\0\0\0\0\0\0\0\0\0",
        b"\x01\0\0\0\0\0\0\0u\x01\0\0\0\x01\0\0\0\0\0\0\0\x18\0\0\0\x08\0\0\0\0\0\0\0",
        b"\0\0\0\0\0\0",
        b"\x09\x0a\0\0\0\0\0\0\x05\0\0\0\0\0\0\0",
    ]
    .concat();
    assert_eq!(writer.to_bytes().unwrap(), expected);
    let file = Gguf::parse_bytes("small", expected).unwrap();
    assert_eq!(file.tensors()[1].offset, 184);
    assert_eq!(*file.tensor("u").unwrap().bytes, [5]);
}

#[test]
fn split_parts_open_from_any_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer();
    writer.set("general.alignment", 64u32);
    // Keys of an earlier split are replaced.
    writer.set("split.count", 9u16);
    let paths = writer.write_split(folder.path().join("m"), 840).unwrap();
    let names: Vec<_> = paths.iter().map(|p| p.file_name().unwrap()).collect();
    // The matrix fills a part alone; both tensors behind it fit the last.
    assert_eq!(
        names,
        [
            "m-00001-of-00003.gguf",
            "m-00002-of-00003.gguf",
            "m-00003-of-00003.gguf"
        ]
    );
    let later = fs::read(&paths[1]).unwrap();
    let key = b"nested";
    assert!(
        !later.windows(key.len()).any(|w| w == key),
        "metadata in the second part"
    );
    for path in &paths {
        let file = Gguf::open(path, OpenOptions::default()).unwrap();
        check(&file);
        assert_eq!(file.paths().collect::<Vec<_>>(), paths);
        assert_eq!(file.metadata().get_u32("split.count").unwrap(), Some(3));
        assert!(file.tensors().iter().all(|t| t.offset % 64 == 0));
        let parts: Vec<_> = file.tensors().iter().map(|t| t.part).collect();
        assert_eq!(parts, [0, 1, 2, 2]);
        let headers: Vec<_> = file.headers().collect();
        for (part, header) in headers.iter().enumerate() {
            let whole = fs::read(&paths[part]).unwrap();
            let first = file.tensors().iter().find(|t| t.part == part).unwrap();
            assert!(*header == &whole[..first.offset], "part {part}");
        }
        assert!(
            headers[0].len() > headers[1].len(),
            "metadata is there once"
        );
    }
    fs::remove_file(&paths[1]).unwrap();
    let error = Gguf::open(&paths[0], OpenOptions::default()).unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::MissingParts { .. }),
        "{error:?}"
    );
}

#[test]
fn a_vocabulary_without_tensors_opens() {
    let mut writer = Writer::new();
    writer.set("tokenizer.ggml.tokens", vec!["a".to_owned()]);
    let mut bytes = writer.to_bytes().unwrap();
    // Other writers do not pad a file that has no data.
    let header_end = 24 + 8 + 21 + 4 + 4 + 8 + 8 + 1;
    bytes.truncate(header_end);
    let file = Gguf::parse_bytes("vocabulary", bytes.clone()).unwrap();
    assert!(file.tensors().is_empty());
    assert!(file.headers().eq([&bytes[..]]));
    assert_eq!(file.metadata().len(), 1);
}

#[test]
fn what_the_reader_refuses_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let refused = |writer: &Writer| {
        let error = writer.write(&path).unwrap_err();
        assert_eq!(error.file, path);
        assert!(!path.exists());
        error.kind
    };
    let mut short = tensor("short", TensorType::F32, &[2], 0);
    short.shape = vec![3];
    let kind = refused(Writer::new().add(short));
    assert!(
        matches!(
            kind,
            ErrorKind::TensorBytes {
                expected: 12,
                found: 8,
                ..
            }
        ),
        "{kind:?}"
    );

    let twin = tensor("twin", TensorType::F32, &[1], 0);
    let kind = refused(Writer::new().add(twin.clone()).add(twin));
    assert!(
        matches!(kind, ErrorKind::DuplicateTensor { .. }),
        "{kind:?}"
    );

    let kind = refused(Writer::new().set("general.alignment", 3u32));
    assert!(
        matches!(kind, ErrorKind::Alignment { found: 3 }),
        "{kind:?}"
    );

    let mut deep = Array::U8(vec![1]);
    for _ in 0..8 {
        deep = Array::Array(vec![deep]);
    }
    let kind = refused(Writer::new().set("deep", deep));
    assert!(matches!(kind, ErrorKind::ArrayDepth { .. }), "{kind:?}");

    let error = Writer::new()
        .write(folder.path().join("no/folder"))
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Io { .. }), "{error:?}");
}

#[test]
fn getters_check_types_and_ranges() {
    let mut writer = writer();
    writer.set("negative", -1i32).set("large", 1u64 << 40);
    let file = Gguf::parse_bytes("typed.gguf", writer.to_bytes().unwrap()).unwrap();
    let metadata = file.metadata();
    // Any integer type will do where the value fits.
    assert_eq!(metadata.get_u32("u8").unwrap(), Some(255));
    assert_eq!(metadata.get_i64("negative").unwrap(), Some(-1));
    assert_eq!(metadata.get_usize("large").unwrap(), Some(1 << 40));
    assert_eq!(metadata.get_u64("u64").unwrap(), Some(u64::MAX));
    assert_eq!(metadata.get_f32("f32").unwrap(), Some(-1.5));
    assert_eq!(metadata.get_bool("bool").unwrap(), Some(true));
    assert_eq!(metadata.get_i64s("u8s").unwrap(), Some(vec![0, 255]));
    assert_eq!(metadata.get_f32s("f32s").unwrap().unwrap().len(), 2);
    assert_eq!(metadata.get_strings("strings").unwrap().unwrap(), ["a", ""]);
    let nested = metadata.get_array("nested").unwrap().unwrap();
    assert_eq!((nested.element_type(), nested.len()), (ValueType::Array, 2));
    assert_eq!(metadata.get_str("absent").unwrap(), None);

    let messages = [
        metadata.get_u32("negative").unwrap_err(),
        metadata.get_u32("large").unwrap_err(),
        metadata.get_i64s("u64s").unwrap_err(),
        metadata.get_u32("string").unwrap_err(),
        metadata.get_str("strings").unwrap_err(),
        metadata.get_f32("u8").unwrap_err(),
        metadata.require_str("absent").unwrap_err(),
    ]
    .map(|error| {
        assert_eq!(error.file, Path::new("typed.gguf"));
        error.kind.to_string()
    });
    assert_eq!(
        messages,
        [
            "the value -1 of key `negative` does not fit u32",
            "the value 1099511627776 of key `large` does not fit u32",
            "the value 18446744073709551615 of key `u64s` does not fit i64",
            "the value of key `string` has the type string, expected u32",
            "the value of key `strings` has the type array of string, expected a string",
            "the value of key `u8` has the type u8, expected f32",
            "the key `absent` is missing",
        ]
    );
}
