//! Opening a model: one file or all parts of a split one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Mmap, MmapOptions};

use crate::header::{self, Header};
use crate::name_index::NameIndex;
use crate::tensor_info::{self, TensorInfo};
use crate::{Error, ErrorKind, Metadata, Storage, Tensor, TensorBytes, split};

/// How to get at the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Map files into memory, so that tensors are read on first use and never copied. Otherwise they
    /// are read into memory as a whole.
    ///
    /// A mapped file must not be truncated or written to while a [`Gguf`] or a [`Tensor`] of it lives:
    /// the process would be killed (`SIGBUS`) or compute with changed weights. Replacing a file by
    /// renaming another one over it is fine. Keeping to that is up to whoever runs the program.
    pub mmap: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { mmap: true }
    }
}

/// A file of the model with its bytes.
struct Part {
    path: PathBuf,
    storage: Arc<dyn Storage>,
}

/// An open model: metadata, tensor descriptions and tensor bytes.
pub struct Gguf {
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    index: NameIndex,
    parts: Vec<Part>,
}

impl Gguf {
    /// Opens a file, or all parts of a split model when `path` is any one of them
    /// (`…-00001-of-00003.gguf`). Every check of the format is made here.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, Error> {
        let parts = split::find_parts(path.as_ref())?
            .into_iter()
            .map(|path| {
                let storage = load(&path, options)?;
                Ok(Part { path, storage })
            })
            .collect::<Result<_, _>>()?;
        Self::from_parts(parts)
    }

    /// Parses a whole file in memory; `name` stands for its path in errors.
    pub fn parse_bytes(name: impl Into<PathBuf>, bytes: Vec<u8>) -> Result<Self, Error> {
        Self::from_parts(vec![Part {
            path: name.into(),
            storage: Arc::new(bytes),
        }])
    }

    fn from_parts(parts: Vec<Part>) -> Result<Self, Error> {
        let mut model: Option<Header> = None;
        for (i, part) in parts.iter().enumerate() {
            let bytes = part.storage.bytes();
            let header = header::parse(&part.path, i, bytes, bytes.len())?;
            split::check_part(&header.metadata, i, parts.len())?;
            match &mut model {
                None => model = Some(header),
                Some(model) => model.tensors.extend(header.tensors),
            }
        }
        let Header {
            version,
            metadata,
            tensors,
        } = model.unwrap_or_default();
        let index = tensor_info::index(&tensors)
            .map_err(|second| Error::duplicate_tensor(&parts[second.part].path, second))?;
        split::check_tensors(&metadata, tensors.len())?;
        Ok(Gguf {
            version,
            metadata,
            tensors,
            index,
            parts,
        })
    }

    /// Format version of the (first) file: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Metadata of the (first) file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors, in file order. A vocabulary-only file has none.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor with this name, its bytes shared with the file.
    pub fn tensor(&self, name: &str) -> Option<Tensor> {
        let info = self.index.find(&self.tensors, |t| &t.name, name)?;
        let storage = Arc::clone(&self.parts.get(info.part)?.storage);
        Some(Tensor {
            name: info.name.clone(),
            ty: info.ty,
            shape: info.shape.clone(),
            bytes: TensorBytes::new(storage, info.offset..info.offset + info.len)?,
        })
    }

    /// Of each file, in the order of [`Gguf::paths`], all that precedes its first tensor's bytes: metadata and
    /// tensor entries as they are stored.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.parts.iter().enumerate().map(|(i, part)| {
            let bytes = part.storage.bytes();
            let tensors = self.tensors.iter().filter(|tensor| tensor.part == i);
            let end = tensors.map(|tensor| tensor.offset).min();
            &bytes[..end.unwrap_or(bytes.len())]
        })
    }

    /// Bytes of all files together.
    pub fn file_bytes(&self) -> u64 {
        let part_len = |part: &Part| part.storage.bytes().len() as u64;
        self.parts.iter().map(part_len).sum()
    }

    /// The file, or the parts of a split model in order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }
}

impl std::fmt::Debug for Gguf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gguf")
            .field("paths", &self.paths().collect::<Vec<_>>())
            .field("version", &self.version)
            .field("metadata", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .finish()
    }
}

/// Smallest memory page, in bytes, of the systems that are built for.
const PAGE: usize = match cfg!(all(target_vendor = "apple", target_arch = "aarch64")) {
    true => 16 * 1024,
    false => 4 * 1024,
};

/// A file mapped up to the end of its last page. What a file does not fill there reads as zeros (POSIX, `mmap`).
struct MappedFile {
    map: Mmap,
    len: usize,
}

// SAFETY: a map stays where it is; that nobody writes the file is the contract of `OpenOptions::mmap`.
unsafe impl Storage for MappedFile {
    fn bytes(&self) -> &[u8] {
        &self.map[..self.len]
    }

    fn pages(&self) -> &[u8] {
        &self.map
    }
}

fn load(path: &Path, options: OpenOptions) -> Result<Arc<dyn Storage>, Error> {
    let failed = |action| move |source| Error::new(path, ErrorKind::Io { action, source });
    if !options.mmap {
        return Ok(Arc::new(std::fs::read(path).map_err(failed("read"))?));
    }
    let file = File::open(path).map_err(failed("open"))?;
    let len = file.metadata().map_err(failed("read"))?.len();
    let pages = usize::try_from(len).ok().and_then(|len| {
        let whole_pages = len.checked_next_multiple_of(PAGE)?;
        Some((len, if cfg!(unix) { whole_pages } else { len }))
    });
    let too_large = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
    let (len, mapped) = pages.ok_or_else(too_large).map_err(failed("map"))?;
    // SAFETY: the map is only read. That nobody truncates or writes the file meanwhile is the contract of
    // `OpenOptions::mmap`, owed by whoever runs the program: no system call could enforce it.
    let map = unsafe { MmapOptions::new().len(mapped).map(&file) }.map_err(failed("map"))?;
    Ok(Arc::new(MappedFile { map, len }))
}
