//! The tokenizer tables of a GGUF file, as plain data.

use std::borrow::Cow;

use minfer_gguf::Gguf;
use rustc_hash::FxHashMap;

use crate::Error;

/// How a vocabulary splits text (`tokenizer.ggml.model`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenizerModel {
    /// Byte-level byte-pair encoding (`gpt2`).
    Bpe,
    /// SentencePiece-style merging by score (`llama`).
    Spm,
}

/// What a token stands for (`tokenizer.ggml.token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    /// Text.
    Normal,
    /// Stands in for text that the vocabulary cannot spell.
    Unknown,
    /// Structure, such as the begin or the end of a turn; never the result of encoding text.
    Control,
    /// Text that is always taken whole, before any splitting.
    UserDefined,
    /// An id without a meaning.
    Unused,
    /// One byte, spelled `<0xNN>`.
    Byte,
}

impl TokenType {
    /// The type with this code in GGUF.
    pub fn from_code(code: i64) -> Option<Self> {
        Some(match code {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => return None,
        })
    }
}

/// The tables a [`Tokenizer`](crate::Tokenizer) is built from. The keys are those of the GGUF
/// specification, section "Tokenizer"; an absent key is `None`.
#[derive(Clone, Debug)]
pub struct Vocabulary<'a> {
    /// `tokenizer.ggml.model`.
    pub model: TokenizerModel,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer of a BPE vocabulary.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`: the text of each id, bytes in GPT-2's alphabet for BPE and U+2581 for a
    /// space for SentencePiece.
    pub tokens: Cow<'a, [String]>,
    /// `tokenizer.ggml.token_type`, one per token; all are normal if absent.
    pub types: Option<Vec<TokenType>>,
    /// `tokenizer.ggml.scores`, one per token; SentencePiece only.
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.merges`, by rank: two tokens separated by a space; BPE only.
    pub merges: Cow<'a, [String]>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`.
    pub eot: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
}

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const EOT: &str = "tokenizer.ggml.eot_token_id";
const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";

impl<'a> Vocabulary<'a> {
    /// Reads the tables of `gguf`, unchecked except for their types.
    pub fn from_gguf(gguf: &'a Gguf) -> Result<Self, Error> {
        let metadata = gguf.metadata();
        let model = match metadata.require_str("tokenizer.ggml.model")? {
            "gpt2" => TokenizerModel::Bpe,
            "llama" => TokenizerModel::Spm,
            other => {
                return Err(Error::UnknownModel {
                    model: other.to_owned(),
                });
            }
        };
        let Some(tokens) = metadata.get_strings(TOKENS)? else {
            return Err(Error::NoTokens);
        };
        let types = match metadata.get_i64s(TYPES)? {
            None => None,
            Some(codes) => Some(token_types(&codes)?),
        };
        Ok(Vocabulary {
            model,
            pre: metadata.get_str("tokenizer.ggml.pre")?.map(str::to_owned),
            tokens: tokens.into(),
            types,
            scores: metadata.get_f32s(SCORES)?.map(<[f32]>::to_vec),
            merges: metadata.get_strings(MERGES)?.unwrap_or_default().into(),
            bos: metadata.get_u32(BOS)?,
            eos: metadata.get_u32(EOS)?,
            eot: metadata.get_u32(EOT)?,
            unknown: metadata.get_u32(UNKNOWN)?,
            add_bos: metadata.get_bool("tokenizer.ggml.add_bos_token")?,
            add_space_prefix: metadata.get_bool("tokenizer.ggml.add_space_prefix")?,
        })
    }

    /// Checks lengths, special ids, scores and duplicates, and maps each text to its id.
    pub(crate) fn check(&self) -> Result<FxHashMap<&str, u32>, Error> {
        let n_vocab = self.tokens.len();
        if n_vocab == 0 {
            return Err(Error::NoTokens);
        }
        if u32::try_from(n_vocab).is_err() {
            return Err(Error::TooManyTokens { found: n_vocab });
        }
        check_length(TYPES, self.types.as_ref().map(Vec::len), n_vocab)?;
        check_length(SCORES, self.scores.as_ref().map(Vec::len), n_vocab)?;
        for (key, id) in [
            (BOS, self.bos),
            (EOS, self.eos),
            (EOT, self.eot),
            (UNKNOWN, self.unknown),
        ] {
            if let Some(id) = id.filter(|&id| id as usize >= n_vocab) {
                return Err(Error::SpecialId { key, id, n_vocab });
            }
        }
        match (self.model, &self.scores) {
            (TokenizerModel::Bpe, _) if self.merges.is_empty() => Err(Error::MissingTable {
                model: "gpt2",
                table: MERGES,
            }),
            (TokenizerModel::Spm, None) => Err(Error::MissingTable {
                model: "llama",
                table: SCORES,
            }),
            (TokenizerModel::Spm, Some(scores)) => match scores.iter().position(|s| s.is_nan()) {
                Some(id) => Err(Error::Score { id }),
                None => self.index(),
            },
            (TokenizerModel::Bpe, _) => self.index(),
        }
    }

    /// Type of a token; `Normal` outside the table.
    pub(crate) fn type_of(&self, id: usize) -> TokenType {
        let types = self.types.as_deref().unwrap_or_default();
        types.get(id).copied().unwrap_or(TokenType::Normal)
    }

    /// Whether `id` is the token that `left` and `right` spell together.
    pub(crate) fn is_joined(&self, id: u32, left: &str, right: &str) -> bool {
        let text = self.tokens.get(id as usize);
        text.and_then(|text| text.strip_prefix(left)) == Some(right)
            && self.type_of(id as usize) != TokenType::Unused
    }

    /// Maps texts to ids. Empty and unused tokens are never looked up, so they may repeat.
    fn index(&self) -> Result<FxHashMap<&str, u32>, Error> {
        let mut ids = FxHashMap::default();
        ids.reserve(self.tokens.len());
        for (id, text) in self.tokens.iter().enumerate() {
            if text.is_empty() || self.type_of(id) == TokenType::Unused {
                continue;
            }
            if let Some(first) = ids.insert(text.as_str(), id as u32) {
                return Err(Error::DuplicateToken {
                    first: first as usize,
                    second: id,
                    text: text.clone(),
                });
            }
        }
        Ok(ids)
    }
}

fn token_types(codes: &[i64]) -> Result<Vec<TokenType>, Error> {
    let typed = codes
        .iter()
        .enumerate()
        .map(|(id, &found)| TokenType::from_code(found).ok_or(Error::TokenType { id, found }));
    typed.collect()
}

fn check_length(table: &'static str, found: Option<usize>, expected: usize) -> Result<(), Error> {
    match found {
        Some(found) if found != expected => Err(Error::TableLength {
            table,
            expected,
            found,
        }),
        _ => Ok(()),
    }
}
