//! The fixed part of a session file, and what it says about the rest.

use std::ops::Range;

use minfer_graph::{KvFormat, KvPart};

use super::SessionFileError;
use super::origin::{Label, ModelId, Origin};

pub(super) const MAGIC: [u8; 8] = *b"MFSESS\x1a\n";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 256;
pub(super) const CHECKSUM_BYTES: usize = 32;
/// Bytes of a file without tokens and host state.
const LEAST_BYTES: u64 = (HEADER_BYTES + 2 * CHECKSUM_BYTES) as u64;
/// Longest host state: a reader holds it in memory.
pub(super) const MOST_HOST_BYTES: usize = 1 << 30;
/// Most tokens: a reader holds them in memory too, and a sparse file may claim any number.
const MOST_TOKENS: usize = 1 << 26;
/// Rows go through memory in blocks of about this many bytes.
const BLOCK_BYTES: usize = 256 * 1024;

/// Shape of a model's keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub layers: u32,
    /// Features of a key row, and of a value row.
    pub kv_width: u32,
    pub head_dim: u32,
    pub n_vocab: u32,
}

impl Shape {
    /// Refuses a shape that differs.
    pub fn check(&self, saved: &Shape) -> Result<(), SessionFileError> {
        for (dimension, saved, engine) in [
            ("layers", saved.layers, self.layers),
            ("features of a key", saved.kv_width, self.kv_width),
            ("features of a head", saved.head_dim, self.head_dim),
            ("tokens in the vocabulary", saved.n_vocab, self.n_vocab),
        ] {
            if saved != engine {
                return Err(SessionFileError::Shape {
                    dimension,
                    saved,
                    engine,
                });
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub origin: Origin,
    pub shape: Shape,
    pub format: KvFormat,
    /// Context length of the engine that saved.
    pub n_ctx: usize,
    pub tokens: usize,
    /// Leading tokens whose rows are what a fresh computation gives.
    pub shareable: usize,
    pub host_bytes: usize,
}

/// Rows of one layer that are read or written at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub layer: usize,
    pub part: KvPart,
    pub positions: Range<usize>,
}

impl Header {
    pub fn encode(&self) -> Result<Vec<u8>, SessionFileError> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(format_code(self.format).to_le_bytes());
        out.extend(self.file_bytes()?.to_le_bytes());
        out.extend(self.origin.model.fingerprint);
        let Shape {
            layers,
            kv_width,
            head_dim,
            n_vocab,
        } = self.shape;
        for size in [layers, kv_width, head_dim, n_vocab] {
            out.extend(size.to_le_bytes());
        }
        for count in [self.n_ctx, self.tokens, self.shareable, self.host_bytes] {
            out.extend((count as u64).to_le_bytes());
        }
        out.extend(self.origin.backend.0);
        out.extend(self.origin.arithmetic.0);
        out.extend(self.origin.program.0);
        out.extend(self.origin.model.name.0);
        out.resize(HEADER_BYTES, 0);
        Ok(out)
    }

    /// Reads the header of a file of `file_bytes` bytes, which may be more or less than it describes.
    pub fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self, SessionFileError> {
        let mut fields = Fields { bytes, file_bytes };
        if bytes.iter().zip(MAGIC).any(|(&byte, magic)| byte != magic) {
            return Err(SessionFileError::NotASession);
        }
        fields.take::<{ MAGIC.len() }>()?;
        let version = fields.u32()?;
        if version != VERSION {
            return Err(SessionFileError::Version {
                found: version,
                supported: VERSION,
            });
        }
        let format = kv_format(fields.u32()?)?;
        let described = fields.u64()?;
        let fingerprint = fields.take()?;
        let shape = Shape {
            layers: fields.u32()?,
            kv_width: fields.u32()?,
            head_dim: fields.u32()?,
            n_vocab: fields.u32()?,
        };
        let n_ctx = fields.size("context length")?;
        let tokens = fields.size("token count")?;
        let shareable = fields.size("shareable length")?;
        let host_bytes = fields.size("host state length")?;
        let backend = Label(fields.take()?);
        let arithmetic = Label(fields.take()?);
        let program = Label(fields.take()?);
        let name = Label(fields.take()?);
        let header = Header {
            origin: Origin {
                model: ModelId { fingerprint, name },
                backend,
                arithmetic,
                program,
            },
            shape,
            format,
            n_ctx,
            tokens,
            shareable,
            host_bytes,
        };
        header.check(described)?;
        Ok(header)
    }

    fn check(&self, described: u64) -> Result<(), SessionFileError> {
        let malformed = |field, value: usize, expected| {
            Err(SessionFileError::Malformed {
                field,
                value: value as u64,
                expected,
            })
        };
        let shape = self.shape;
        for (field, size) in [
            ("layer count", shape.layers),
            ("key width", shape.kv_width),
            ("head dimension", shape.head_dim),
            ("vocabulary size", shape.n_vocab),
        ] {
            if size == 0 {
                return malformed(field, 0, "at least 1");
            }
        }
        if self.shareable > self.tokens {
            return malformed("shareable length", self.shareable, "at most the tokens");
        }
        if self.host_bytes > MOST_HOST_BYTES {
            return malformed("host state length", self.host_bytes, "at most 2^30");
        }
        if self.file_bytes()? != described {
            return malformed(
                "token count",
                self.tokens,
                "what the length in the header says",
            );
        }
        Ok(())
    }

    /// Bytes of a row of keys, or of values.
    pub fn row_bytes(&self) -> Result<usize, SessionFileError> {
        let width = self.shape.kv_width;
        let bytes = self.format.cell_bytes(width as usize);
        bytes.ok_or(SessionFileError::Malformed {
            field: "key width",
            value: width.into(),
            expected: "one that its format can hold",
        })
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> Result<u64, SessionFileError> {
        let too_many = |expected| SessionFileError::Malformed {
            field: "token count",
            value: self.tokens as u64,
            expected,
        };
        if self.tokens > MOST_TOKENS {
            return Err(too_many("at most 2^26"));
        }
        let row_bytes = self.row_bytes()? as u64;
        // Of a token: its id, its role, and a key and a value in each layer.
        let per_token = row_bytes
            .checked_mul(2 * u64::from(self.shape.layers))
            .and_then(|rows| rows.checked_add(4 + 1));
        let total = per_token
            .and_then(|bytes| bytes.checked_mul(self.tokens as u64))
            .and_then(|bytes| bytes.checked_add(self.host_bytes as u64))
            .and_then(|bytes| bytes.checked_add(LEAST_BYTES));
        total.ok_or_else(|| too_many("one whose rows a file can hold"))
    }

    /// Offset of the first row, which follows a checksum of everything before.
    pub fn rows_start(&self) -> u64 {
        let bookkeeping = (4 + 1) * self.tokens as u64 + self.host_bytes as u64;
        (HEADER_BYTES + CHECKSUM_BYTES) as u64 + bookkeeping
    }

    /// All rows in the order of the file.
    pub fn blocks(&self) -> Result<impl Iterator<Item = Block> + use<>, SessionFileError> {
        let tokens = self.tokens;
        let rows = (BLOCK_BYTES / self.row_bytes()?).max(1);
        let parts = (0..self.shape.layers as usize)
            .flat_map(|layer| [(layer, KvPart::Keys), (layer, KvPart::Values)]);
        Ok(parts.flat_map(move |(layer, part)| {
            let starts = (0..tokens).step_by(rows);
            starts.map(move |start| Block {
                layer,
                part,
                positions: start..tokens.min(start + rows),
            })
        }))
    }

    /// Bytes of the largest block.
    pub fn block_bytes(&self) -> Result<usize, SessionFileError> {
        let row_bytes = self.row_bytes()?;
        let rows = (BLOCK_BYTES / row_bytes).max(1);
        Ok(row_bytes * rows.min(self.tokens))
    }
}

fn format_code(format: KvFormat) -> u32 {
    match format {
        KvFormat::F32 => 0,
        KvFormat::F16 => 1,
        KvFormat::Q8_0 => 2,
    }
}

fn kv_format(code: u32) -> Result<KvFormat, SessionFileError> {
    let formats = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
    let mut formats = formats.into_iter();
    formats
        .find(|&format| format_code(format) == code)
        .ok_or(SessionFileError::Malformed {
            field: "KV format",
            value: code.into(),
            expected: "0 to 2",
        })
}

/// Fields that have not been read.
struct Fields<'a> {
    bytes: &'a [u8],
    file_bytes: u64,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SessionFileError> {
        let Some((field, rest)) = self.bytes.split_first_chunk() else {
            return Err(SessionFileError::Length {
                expected: LEAST_BYTES,
                found: self.file_bytes,
            });
        };
        self.bytes = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, SessionFileError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, SessionFileError> {
        self.take().map(u64::from_le_bytes)
    }

    fn size(&mut self, field: &'static str) -> Result<usize, SessionFileError> {
        let value = self.u64()?;
        usize::try_from(value).map_err(|_| SessionFileError::Malformed {
            field,
            value,
            expected: "one that this machine can address",
        })
    }
}
