//! The metadata of a model: ordered entries and typed lookup.

use std::path::{Path, PathBuf};

use crate::name_index::NameIndex;
use crate::{Array, Error, ErrorKind, Value};

/// Metadata entries in file order.
///
/// The `get_*` methods return `Ok(None)` for an absent key and an error that names the key, the type
/// found and the file for a value of another type. The `require_*` methods make absence an error too.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    file: PathBuf,
    entries: Vec<(String, Value)>,
    index: NameIndex,
}

fn key_of(entry: &(String, Value)) -> &str {
    &entry.0
}

macro_rules! integer_getters {
    ($($get:ident, $require:ident, $ty:ident;)*) => {
        $(
            #[doc = concat!("An integer of any type, if its value fits `", stringify!($ty), "`.")]
            pub fn $get(&self, key: &str) -> Result<Option<$ty>, Error> {
                self.integer(key, stringify!($ty))
            }

            #[doc = concat!("Like [`Metadata::", stringify!($get), "`], where the key must exist.")]
            pub fn $require(&self, key: &str) -> Result<$ty, Error> {
                self.present(key, self.$get(key)?)
            }
        )*
    };
}

impl Metadata {
    /// Indexes `entries` of `file`. A key that appears twice is an error.
    pub fn new(file: &Path, entries: Vec<(String, Value)>) -> Result<Self, Error> {
        let index = NameIndex::new(&entries, key_of).map_err(|second| {
            let key = entries[second].0.clone();
            Error::new(file, ErrorKind::DuplicateKey { key })
        })?;
        Ok(Metadata {
            file: file.to_owned(),
            entries,
            index,
        })
    }

    /// Entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of `key`, of whatever type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let (_, value) = self.index.find(&self.entries, key_of, key)?;
        Some(value)
    }

    integer_getters! {
        get_u32, require_u32, u32;
        get_u64, require_u64, u64;
        get_i32, require_i32, i32;
        get_i64, require_i64, i64;
        get_usize, require_usize, usize;
    }

    /// A string.
    pub fn get_str(&self, key: &str) -> Result<Option<&str>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Str(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "a string", other)),
        }
    }

    /// Like [`Metadata::get_str`], where the key must exist.
    pub fn require_str(&self, key: &str) -> Result<&str, Error> {
        self.present(key, self.get_str(key)?)
    }

    /// A floating point number; an `f64` is rounded.
    pub fn get_f32(&self, key: &str) -> Result<Option<f32>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::F32(v)) => Ok(Some(*v)),
            Some(Value::F64(v)) => Ok(Some(*v as f32)),
            Some(other) => Err(self.wrong_type(key, "f32", other)),
        }
    }

    /// Like [`Metadata::get_f32`], where the key must exist.
    pub fn require_f32(&self, key: &str) -> Result<f32, Error> {
        self.present(key, self.get_f32(key)?)
    }

    /// A boolean.
    pub fn get_bool(&self, key: &str) -> Result<Option<bool>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(v)) => Ok(Some(*v)),
            Some(other) => Err(self.wrong_type(key, "bool", other)),
        }
    }

    /// An array of whatever element type.
    pub fn get_array(&self, key: &str) -> Result<Option<&Array>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(v)) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "an array", other)),
        }
    }

    /// An array of strings.
    pub fn get_strings(&self, key: &str) -> Result<Option<&[String]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::Str(v))) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "an array of strings", other)),
        }
    }

    /// An array of `f32`.
    pub fn get_f32s(&self, key: &str) -> Result<Option<&[f32]>, Error> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(Array::F32(v))) => Ok(Some(v)),
            Some(other) => Err(self.wrong_type(key, "an array of f32", other)),
        }
    }

    /// An array of integers of any type, if all of them fit `i64`.
    pub fn get_i64s(&self, key: &str) -> Result<Option<Vec<i64>>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let integers = match value {
            Value::Array(array) => array.to_integers(),
            _ => None,
        };
        integers
            .ok_or_else(|| self.wrong_type(key, "an array of integers", value))?
            .into_iter()
            .map(|v| self.narrow(key, "i64", v))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    fn integer<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let integer = value
            .as_integer()
            .ok_or_else(|| self.wrong_type(key, expected, value))?;
        self.narrow(key, expected, integer).map(Some)
    }

    fn narrow<T: TryFrom<i128>>(
        &self,
        key: &str,
        expected: &'static str,
        found: i128,
    ) -> Result<T, Error> {
        let key = key.to_owned();
        T::try_from(found).map_err(|_| {
            self.error(ErrorKind::OutOfRange {
                key,
                expected,
                found,
            })
        })
    }

    fn present<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        let key = key.to_owned();
        value.ok_or_else(|| self.error(ErrorKind::MissingKey { key }))
    }

    fn wrong_type(&self, key: &str, expected: &'static str, found: &Value) -> Error {
        let found = match found {
            Value::Array(array) => format!("array of {}", array.element_type()),
            scalar => scalar.ty().to_string(),
        };
        let key = key.to_owned();
        self.error(ErrorKind::WrongType {
            key,
            expected,
            found,
        })
    }

    /// An error about the file that the metadata is from.
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(&self.file, kind)
    }
}
