//! Writing of GGUF files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::encode::encode_header;
use crate::{Error, ErrorKind, Tensor, Value, header, split, tensor_info};

/// Collects metadata and tensors, then writes them as GGUF version 3, whole or split.
///
/// The alignment of tensor data is the value of `general.alignment`, if that key is set. What the reader
/// would refuse is not written. Entries about splitting are the writer's own; others are left out.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    metadata: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
}

impl Writer {
    /// A writer of an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a metadata entry, or replaces the value of an existing one.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) -> &mut Self {
        let (key, value) = (key.into(), value.into());
        match self.metadata.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = value,
            None => self.metadata.push((key, value)),
        }
        self
    }

    /// Removes a metadata entry, if there is one.
    pub fn remove(&mut self, key: &str) -> &mut Self {
        self.metadata.retain(|entry| entry.0 != key);
        self
    }

    /// Appends a tensor.
    pub fn add(&mut self, tensor: Tensor) -> &mut Self {
        self.tensors.push(tensor);
        self
    }

    /// The file in memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let part = self.whole();
        let mut out = part.header(Path::new("(memory)"))?;
        // Writing to a vector cannot fail.
        let _ = part.write_tensors(&mut out);
        Ok(out)
    }

    /// Writes one file. It appears under its name only when it is complete.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.whole().write(path.as_ref())
    }

    /// Writes the parts `<prefix>-00001-of-0000N.gguf` of a split model, each with at most `part_bytes`
    /// bytes of tensors but at least one tensor, and returns their paths. The first part has the
    /// metadata.
    pub fn write_split(
        &self,
        prefix: impl AsRef<Path>,
        part_bytes: usize,
    ) -> Result<Vec<PathBuf>, Error> {
        let prefix = prefix.as_ref();
        let groups = self.groups(part_bytes);
        let out_of_range = |key: &str, expected, found: usize| {
            let kind = ErrorKind::OutOfRange {
                key: key.to_owned(),
                expected,
                found: found as i128,
            };
            Error::new(prefix, kind)
        };
        let count = u16::try_from(groups.len())
            .map_err(|_| out_of_range(split::COUNT_KEY, "u16", groups.len()))?;
        let tensors = i32::try_from(self.tensors.len())
            .map_err(|_| out_of_range(split::TENSORS_KEY, "i32", self.tensors.len()))?;
        let name = prefix.file_name().unwrap_or_default().to_string_lossy();
        let count_value = Value::from(count);
        let tensors_value = Value::from(tensors);
        let mut paths = Vec::new();
        for (tensors, index) in groups.into_iter().zip(0u16..) {
            let index_value = Value::from(index);
            let mut part = self.whole();
            part.tensors = tensors;
            if index > 0 {
                part.entries
                    .retain(|&(key, _)| key == header::ALIGNMENT_KEY);
            }
            part.entries.extend([
                (split::INDEX_KEY, &index_value),
                (split::COUNT_KEY, &count_value),
                (split::TENSORS_KEY, &tensors_value),
            ]);
            let path = prefix.with_file_name(split::part_name(&name, index.into(), count.into()));
            part.write(&path)?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Everything as one file, without split keys that came from elsewhere.
    fn whole(&self) -> Part<'_> {
        let entries = self
            .metadata
            .iter()
            .map(|(key, value)| (key.as_str(), value));
        Part {
            entries: entries
                .filter(|(key, _)| !split::KEYS.contains(key))
                .collect(),
            tensors: &self.tensors,
        }
    }

    /// Runs of tensors of at most `part_bytes` bytes, unless a tensor alone has more.
    fn groups(&self, part_bytes: usize) -> Vec<&[Tensor]> {
        let mut groups = Vec::new();
        let (mut start, mut bytes) = (0, 0usize);
        for (i, tensor) in self.tensors.iter().enumerate() {
            bytes = bytes.saturating_add(tensor.bytes.len());
            if bytes > part_bytes && i > start {
                groups.push(&self.tensors[start..i]);
                (start, bytes) = (i, tensor.bytes.len());
            }
        }
        groups.push(&self.tensors[start..]);
        groups
    }
}

/// The content of one file.
struct Part<'a> {
    entries: Vec<(&'a str, &'a Value)>,
    tensors: &'a [Tensor],
}

impl Part<'_> {
    /// Alignment of tensor data; the default where the value is one that [`Part::header`] refuses.
    fn alignment(&self) -> usize {
        self.entries
            .iter()
            .find(|(key, _)| *key == header::ALIGNMENT_KEY)
            .and_then(|(_, value)| u32::try_from(value.as_integer()?).ok())
            .filter(|n| n.is_power_of_two())
            .map_or(header::DEFAULT_ALIGNMENT, |n| n as usize)
    }

    /// The encoded header, checked by parsing it.
    fn header(&self, path: &Path) -> Result<Vec<u8>, Error> {
        for tensor in self.tensors {
            check_len(tensor).map_err(|kind| Error::new(path, kind))?;
        }
        let bytes = encode_header(&self.entries, self.tensors, self.alignment());
        let data_len: usize = self.tensors.iter().map(|t| self.padded_len(t)).sum();
        let parsed = header::parse(path, 0, &bytes, bytes.len() + data_len)?;
        tensor_info::index(&parsed.tensors)
            .map_err(|second| Error::duplicate_tensor(path, second))?;
        Ok(bytes)
    }

    fn padded_len(&self, tensor: &Tensor) -> usize {
        tensor.bytes.len().next_multiple_of(self.alignment())
    }

    fn write_tensors(&self, out: &mut dyn Write) -> io::Result<()> {
        for tensor in self.tensors {
            out.write_all(&tensor.bytes)?;
            let padding = self.padded_len(tensor) - tensor.bytes.len();
            io::copy(&mut io::repeat(0).take(padding as u64), out)?;
        }
        Ok(())
    }

    fn write(&self, path: &Path) -> Result<(), Error> {
        let header = self.header(path)?;
        let temporary = temporary_path(path);
        let write = || -> io::Result<()> {
            let mut out = BufWriter::new(File::create_new(&temporary)?);
            out.write_all(&header)?;
            self.write_tensors(&mut out)?;
            out.into_inner()?.sync_all()?;
            fs::rename(&temporary, path)
        };
        write().map_err(|source| {
            // The first failure is the one to report.
            let _ = fs::remove_file(&temporary);
            let action = "write";
            Error::new(path, ErrorKind::Io { action, source })
        })
    }
}

fn check_len(tensor: &Tensor) -> Result<(), ErrorKind> {
    let mut sizes = tensor.shape.iter();
    let elements = sizes.try_fold(1usize, |n, &size| n.checked_mul(size));
    let found = tensor.bytes.len();
    match elements.and_then(|n| tensor.ty.row_bytes(n)) {
        Some(expected) if expected != found => Err(ErrorKind::TensorBytes {
            tensor: tensor.name.clone(),
            ty: tensor.ty,
            shape: tensor.shape.clone(),
            expected,
            found,
        }),
        _ => Ok(()),
    }
}

/// A name beside `path`, on the same file system, that no other writer uses.
fn temporary_path(path: &Path) -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{unique}.tmp", std::process::id()));
    path.with_file_name(name)
}
