//! Metadata values for people and as JSON.

use minfer_gguf::{Array, Value};
use serde_json::{Value as Json, json};

/// Characters of a string shown to people.
const SHOWN_CHARS: usize = 72;
/// Elements of an array shown to people.
const SHOWN_ELEMENTS: usize = 4;

/// The value on one line; long strings and arrays show how they begin and how long they are.
pub fn abbreviated(value: &Value) -> String {
    match value {
        Value::Str(text) => quoted(text),
        Value::Array(array) => abbreviated_array(array),
        scalar => to_json(scalar).to_string(),
    }
}

/// Quoted and escaped: a file's text must not drive the terminal.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

fn abbreviated_array(array: &Array) -> String {
    let shown = match array {
        Array::Str(texts) => texts
            .iter()
            .take(SHOWN_ELEMENTS)
            .map(|text| quoted(text))
            .collect(),
        Array::Array(arrays) => arrays
            .iter()
            .take(SHOWN_ELEMENTS)
            .map(abbreviated_array)
            .collect(),
        numbers => first_numbers(numbers),
    };
    let more = if array.len() > SHOWN_ELEMENTS {
        ", …"
    } else {
        ""
    };
    format!(
        "{}[{}] [{}{more}]",
        array.element_type(),
        array.len(),
        shown.join(", ")
    )
}

fn first_numbers(array: &Array) -> Vec<String> {
    match array_to_json(array) {
        Json::Array(values) => values
            .iter()
            .take(SHOWN_ELEMENTS)
            .map(Json::to_string)
            .collect(),
        _ => Vec::new(),
    }
}

/// The value in full. JSON has no NaN or infinity; they become null.
pub fn to_json(value: &Value) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::F32(v) => shortest(*v),
        Value::Bool(v) => json!(v),
        Value::Str(v) => json!(v),
        Value::Array(v) => array_to_json(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F64(v) => json!(v),
    }
}

fn array_to_json(array: &Array) -> Json {
    match array {
        Array::U8(v) => json!(v),
        Array::I8(v) => json!(v),
        Array::U16(v) => json!(v),
        Array::I16(v) => json!(v),
        Array::U32(v) => json!(v),
        Array::I32(v) => json!(v),
        Array::F32(v) => v.iter().copied().map(shortest).collect(),
        Array::Bool(v) => json!(v),
        Array::Str(v) => json!(v),
        Array::Array(v) => v.iter().map(array_to_json).collect(),
        Array::U64(v) => json!(v),
        Array::I64(v) => json!(v),
        Array::F64(v) => json!(v),
    }
}

/// The number with the fewest digits that is this f32: widening 1e-5 would show 9.999999747e-6.
fn shortest(value: f32) -> Json {
    json!(value.to_string().parse::<f64>().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_show_their_beginning_and_length() {
        assert_eq!(abbreviated(&Value::F32(1e-5)), "0.00001");
        assert_eq!(
            abbreviated(&Value::Str("a\x1b[31m".into())),
            r#""a\u{1b}[31m""#
        );
        let long = abbreviated(&Value::Str("é".repeat(100)));
        assert_eq!(long, format!("\"{}\"… (200 bytes)", "é".repeat(72)));
        let array = Array::I32((0..1000).collect());
        assert_eq!(
            abbreviated(&Value::Array(array)),
            "i32[1000] [0, 1, 2, 3, …]"
        );
        let short = Array::Str(vec!["a".into(), "b".into()]);
        assert_eq!(abbreviated(&Value::Array(short)), r#"string[2] ["a", "b"]"#);
    }

    #[test]
    fn json_holds_arrays_in_full() {
        let nested = Value::Array(Array::Array(vec![Array::U8(vec![1; 9]), Array::U8(vec![])]));
        assert_eq!(to_json(&nested), json!([[1, 1, 1, 1, 1, 1, 1, 1, 1], []]));
        assert_eq!(to_json(&Value::F32(f32::NAN)), Json::Null);
    }
}
