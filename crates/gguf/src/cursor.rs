//! Checked reading of header fields.

use std::fmt;

use crate::ErrorKind;

/// The header field being read, for error messages.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// A field that exists once.
    Field(&'static str),
    /// The key of a metadata entry, by position.
    Key(usize),
    /// The value of a metadata key.
    Value(&'a str),
    /// The number of elements in the array of a metadata key.
    ArrayLength(&'a str),
    /// The name of a tensor, by position.
    TensorName(usize),
    /// The entry of a tensor.
    Tensor(&'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Field(name) => f.write_str(name),
            Place::Key(i) => write!(f, "the key of metadata entry {i}"),
            Place::Value(key) => write!(f, "the value of key `{key}`"),
            Place::ArrayLength(key) => write!(f, "the array length of key `{key}`"),
            Place::TensorName(i) => write!(f, "the name of tensor {i}"),
            Place::Tensor(name) => write!(f, "the entry of tensor `{name}`"),
        }
    }
}

/// A position in the bytes of a file. Reading past the end is an error, never a panic.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, n: usize, place: Place) -> Result<&'a [u8], ErrorKind> {
        let taken = self.bytes[self.at..]
            .get(..n)
            .ok_or_else(|| self.truncated(n, place))?;
        self.at += n;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, place: Place) -> Result<[u8; N], ErrorKind> {
        let taken = self.bytes[self.at..]
            .first_chunk()
            .ok_or_else(|| self.truncated(N, place))?;
        self.at += N;
        Ok(*taken)
    }

    fn truncated(&self, needed: usize, place: Place) -> ErrorKind {
        ErrorKind::Truncated {
            place: place.to_string(),
            offset: self.at,
            needed,
            left: self.left(),
        }
    }

    pub(crate) fn u32(&mut self, place: Place) -> Result<u32, ErrorKind> {
        self.array(place).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self, place: Place) -> Result<u64, ErrorKind> {
        self.array(place).map(u64::from_le_bytes)
    }

    /// A 64-bit count of items of at least `item_bytes` each, no more than the file has room for.
    pub(crate) fn count(&mut self, item_bytes: usize, place: Place) -> Result<usize, ErrorKind> {
        let count = self.u64(place)?;
        let most = self.left() / item_bytes;
        usize::try_from(count)
            .ok()
            .filter(|&n| n <= most)
            .ok_or_else(|| ErrorKind::Count {
                place: place.to_string(),
                count,
                most,
            })
    }

    pub(crate) fn string(&mut self, place: Place) -> Result<String, ErrorKind> {
        let len = self.u64(place)?;
        let left = self.left();
        let bytes = usize::try_from(len)
            .ok()
            .and_then(|n| self.bytes[self.at..].get(..n))
            .ok_or_else(|| ErrorKind::StringLength {
                place: place.to_string(),
                len,
                left,
            })?;
        self.at += bytes.len();
        let text = std::str::from_utf8(bytes).map_err(|_| ErrorKind::Utf8 {
            place: place.to_string(),
        })?;
        Ok(text.to_owned())
    }
}
