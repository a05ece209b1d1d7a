//! Encoding of headers, the inverse of [`crate::header`].

use crate::{Array, Tensor, Value, header};

/// The header with these entries and tensors, padded up to the data section. Tensors follow each other
/// there, each padded to `alignment`.
pub(crate) fn encode_header(
    entries: &[(&str, &Value)],
    tensors: &[Tensor],
    alignment: usize,
) -> Vec<u8> {
    let mut out = header::MAGIC.to_vec();
    out.extend(3u32.to_le_bytes());
    put_count(&mut out, tensors.len());
    put_count(&mut out, entries.len());
    for &(key, value) in entries {
        put_str(&mut out, key);
        put_value(&mut out, value);
    }
    let mut offset = 0;
    for tensor in tensors {
        put_str(&mut out, &tensor.name);
        out.extend((tensor.shape.len() as u32).to_le_bytes());
        for &n in &tensor.shape {
            put_count(&mut out, n);
        }
        out.extend(tensor.ty.code().to_le_bytes());
        put_count(&mut out, offset);
        offset += tensor.bytes.len().next_multiple_of(alignment);
    }
    out.resize(out.len().next_multiple_of(alignment), 0);
    out
}

fn put_count(out: &mut Vec<u8>, n: usize) {
    out.extend((n as u64).to_le_bytes());
}

fn put_str(out: &mut Vec<u8>, s: &str) {
    put_count(out, s.len());
    out.extend(s.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    out.extend(value.ty().code().to_le_bytes());
    match value {
        Value::U8(v) => out.extend(v.to_le_bytes()),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::Str(v) => put_str(out, v),
        Value::Array(v) => put_array(out, v),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    out.extend(array.element_type().code().to_le_bytes());
    put_count(out, array.len());
    match array {
        Array::U8(v) => out.extend(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|&x| u8::from(x))),
        Array::Str(v) => v.iter().for_each(|s| put_str(out, s)),
        Array::Array(v) => v.iter().for_each(|a| put_array(out, a)),
    }
}
