//! Parsing of a file's header: version, metadata, tensor entries.
//!
//! Everything is little-endian. A string is a `u64` length and UTF-8 bytes. The layout:
//!
//! ```text
//! "GGUF"  u32 version  u64 tensors  u64 entries
//! entry:   string key   u32 type     value        (array: u32 element type, u64 length, elements)
//! tensor:  string name  u32 n        n x u64 dims  u32 type  u64 offset in the data section
//! padding to `general.alignment` (default 32), then the data section
//! ```
//!
//! Source: the GGUF specification, `docs/gguf.md` of the ggml repository. Versions 2 and 3 differ only
//! in that version 3 allows big-endian files.

use std::path::Path;

use crate::cursor::{Cursor, Place};
use crate::tensor_info::{TensorEntry, TensorInfo};
use crate::{Array, Error, ErrorKind, Metadata, Value, ValueType};

/// Key of the alignment of tensor data.
pub(crate) const ALIGNMENT_KEY: &str = "general.alignment";
/// Alignment of a file without that key.
pub(crate) const DEFAULT_ALIGNMENT: usize = 32;
/// The first bytes of every file.
pub(crate) const MAGIC: &[u8; 4] = b"GGUF";

/// Deepest nesting of arrays that is read; bounds the recursion. Files in use nest once at most.
const MAX_ARRAY_DEPTH: usize = 8;
/// Bytes of the shortest metadata entry: empty key, type, a one-byte value.
const MIN_ENTRY_BYTES: usize = 8 + 4 + 1;
/// Bytes of the shortest tensor entry: empty name, one dimension.
const MIN_TENSOR_BYTES: usize = 8 + 4 + 8 + 4 + 8;

/// The header of one file.
#[derive(Default)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) metadata: Metadata,
    /// In file order.
    pub(crate) tensors: Vec<TensorInfo>,
}

/// Parses the header at the start of `bytes`, of the file `file` of `file_len` bytes, which is part `part`
/// of a model.
pub(crate) fn parse(
    file: &Path,
    part: usize,
    bytes: &[u8],
    file_len: usize,
) -> Result<Header, Error> {
    let in_file = |kind| Error::new(file, kind);
    let mut cursor = Cursor::new(bytes);
    let version = parse_version(&mut cursor, bytes).map_err(in_file)?;
    let (tensor_count, entries) = parse_entries(&mut cursor).map_err(in_file)?;
    let metadata = Metadata::new(file, entries)?;
    let alignment = match metadata.get_u32(ALIGNMENT_KEY)? {
        None => DEFAULT_ALIGNMENT,
        Some(found) if found.is_power_of_two() => found as usize,
        Some(found) => return Err(in_file(ErrorKind::Alignment { found })),
    };
    let mut entries = reserve(tensor_count);
    for i in 0..tensor_count {
        entries.push(TensorEntry::parse(&mut cursor, i).map_err(in_file)?);
    }
    let tensors = TensorInfo::locate(entries, part, cursor.position(), alignment, file_len)
        .map_err(in_file)?;
    Ok(Header {
        version,
        metadata,
        tensors,
    })
}

/// Room for `count` items, up to a limit: items are larger in memory than in the file, so a false count
/// must not be believed until the items were read.
fn reserve<T>(count: usize) -> Vec<T> {
    Vec::with_capacity(count.min(1 << 16))
}

fn parse_version(cursor: &mut Cursor, bytes: &[u8]) -> Result<u32, ErrorKind> {
    let magic: [u8; 4] =
        cursor
            .array(Place::Field("the magic"))
            .map_err(|_| ErrorKind::NotGguf {
                start: bytes.to_vec(),
            })?;
    if magic.iter().eq(MAGIC.iter().rev()) {
        return Err(ErrorKind::BigEndian);
    }
    if magic != *MAGIC {
        return Err(ErrorKind::NotGguf {
            start: magic.to_vec(),
        });
    }
    let version = cursor.u32(Place::Field("the version"))?;
    match version {
        2 | 3 => Ok(version),
        _ if (1..=3).contains(&version.swap_bytes()) => Err(ErrorKind::BigEndian),
        _ => Err(ErrorKind::Version { version }),
    }
}

/// The number of tensors and the metadata entries.
fn parse_entries(cursor: &mut Cursor) -> Result<(usize, Vec<(String, Value)>), ErrorKind> {
    let tensors = cursor.count(MIN_TENSOR_BYTES, Place::Field("the tensor count"))?;
    let count = cursor.count(MIN_ENTRY_BYTES, Place::Field("the metadata count"))?;
    let mut entries = reserve(count);
    for i in 0..count {
        let key = cursor.string(Place::Key(i))?;
        let value = parse_value(cursor, &key)?;
        entries.push((key, value));
    }
    Ok((tensors, entries))
}

fn parse_value(cursor: &mut Cursor, key: &str) -> Result<Value, ErrorKind> {
    let place = Place::Value(key);
    let code = cursor.u32(place)?;
    let ty = ValueType::from_code(code).ok_or_else(|| ErrorKind::ValueType {
        key: key.to_owned(),
        code,
    })?;
    Ok(match ty {
        ValueType::U8 => Value::U8(u8::from_le_bytes(cursor.array(place)?)),
        ValueType::I8 => Value::I8(i8::from_le_bytes(cursor.array(place)?)),
        ValueType::U16 => Value::U16(u16::from_le_bytes(cursor.array(place)?)),
        ValueType::I16 => Value::I16(i16::from_le_bytes(cursor.array(place)?)),
        ValueType::U32 => Value::U32(u32::from_le_bytes(cursor.array(place)?)),
        ValueType::I32 => Value::I32(i32::from_le_bytes(cursor.array(place)?)),
        ValueType::F32 => Value::F32(f32::from_le_bytes(cursor.array(place)?)),
        ValueType::U64 => Value::U64(u64::from_le_bytes(cursor.array(place)?)),
        ValueType::I64 => Value::I64(i64::from_le_bytes(cursor.array(place)?)),
        ValueType::F64 => Value::F64(f64::from_le_bytes(cursor.array(place)?)),
        ValueType::Bool => Value::Bool(parse_bool(cursor.array(place)?, key)?),
        ValueType::Str => Value::Str(cursor.string(place)?),
        ValueType::Array => Value::Array(parse_array(cursor, key, 1)?),
    })
}

fn parse_bool([byte]: [u8; 1], key: &str) -> Result<bool, ErrorKind> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(ErrorKind::Bool {
            key: key.to_owned(),
            found,
        }),
    }
}

fn parse_array(cursor: &mut Cursor, key: &str, depth: usize) -> Result<Array, ErrorKind> {
    if depth > MAX_ARRAY_DEPTH {
        return Err(ErrorKind::ArrayDepth {
            key: key.to_owned(),
            most: MAX_ARRAY_DEPTH,
        });
    }
    let code = cursor.u32(Place::Value(key))?;
    let ty = ValueType::from_code(code).ok_or_else(|| ErrorKind::ElementType {
        key: key.to_owned(),
        code,
    })?;
    Ok(match ty {
        ValueType::U8 => Array::U8(parse_scalars(cursor, key, u8::from_le_bytes)?),
        ValueType::I8 => Array::I8(parse_scalars(cursor, key, i8::from_le_bytes)?),
        ValueType::U16 => Array::U16(parse_scalars(cursor, key, u16::from_le_bytes)?),
        ValueType::I16 => Array::I16(parse_scalars(cursor, key, i16::from_le_bytes)?),
        ValueType::U32 => Array::U32(parse_scalars(cursor, key, u32::from_le_bytes)?),
        ValueType::I32 => Array::I32(parse_scalars(cursor, key, i32::from_le_bytes)?),
        ValueType::F32 => Array::F32(parse_scalars(cursor, key, f32::from_le_bytes)?),
        ValueType::U64 => Array::U64(parse_scalars(cursor, key, u64::from_le_bytes)?),
        ValueType::I64 => Array::I64(parse_scalars(cursor, key, i64::from_le_bytes)?),
        ValueType::F64 => Array::F64(parse_scalars(cursor, key, f64::from_le_bytes)?),
        ValueType::Bool => {
            let bytes = parse_scalars(cursor, key, |byte: [u8; 1]| byte)?;
            let bools = bytes.into_iter().map(|byte| parse_bool(byte, key));
            Array::Bool(bools.collect::<Result<_, _>>()?)
        }
        ValueType::Str => Array::Str(parse_items(cursor, key, 8, |cursor| {
            cursor.string(Place::Value(key))
        })?),
        ValueType::Array => Array::Array(parse_items(cursor, key, 12, |cursor| {
            parse_array(cursor, key, depth + 1)
        })?),
    })
}

fn parse_scalars<T, const N: usize>(
    cursor: &mut Cursor,
    key: &str,
    decode: fn([u8; N]) -> T,
) -> Result<Vec<T>, ErrorKind> {
    let count = cursor.count(N, Place::ArrayLength(key))?;
    let bytes = cursor.take(count * N, Place::Value(key))?;
    let (elements, _) = bytes.as_chunks::<N>();
    Ok(elements.iter().map(|&element| decode(element)).collect())
}

fn parse_items<'a, T>(
    cursor: &mut Cursor<'a>,
    key: &str,
    min_bytes: usize,
    item: impl Fn(&mut Cursor<'a>) -> Result<T, ErrorKind>,
) -> Result<Vec<T>, ErrorKind> {
    let count = cursor.count(min_bytes, Place::ArrayLength(key))?;
    let mut items = reserve(count);
    for _ in 0..count {
        items.push(item(cursor)?);
    }
    Ok(items)
}
