//! Text to token ids.

use minfer_gguf::Gguf;
use rustc_hash::FxHashSet;

use crate::bpe::Bpe;
use crate::end_of_generation::ends_generation;
use crate::special::{Fragment, Spellings};
use crate::spm::{self, Spm};
use crate::{Error, TokenType, TokenizerModel, Vocabulary, byte_alphabet};

/// How [`Tokenizer::encode`] treats special tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Take the spelling of a special token as that token. Never set this for text from outside.
    pub parse_special: bool,
    /// Put BOS first if the model wants it and the ids do not start with it already.
    pub add_bos: bool,
}

/// A vocabulary, ready to encode.
pub struct Tokenizer {
    encoder: Encoder,
    /// Bytes of all tokens, joined, and where each starts.
    bytes: Vec<u8>,
    starts: Vec<usize>,
    types: Vec<TokenType>,
    /// What is always taken whole, and what is where special tokens are parsed.
    user_defined: Spellings,
    all_special: Spellings,
    ends_generation: FxHashSet<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
}

enum Encoder {
    Bpe(Bpe),
    Spm(Spm),
}

impl Tokenizer {
    /// Builds the tokenizer of a GGUF file; one that holds only a vocabulary will do.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self, Error> {
        Tokenizer::new(Vocabulary::from_gguf(gguf)?)
    }

    /// Checks the tables and builds a tokenizer from them.
    pub fn new(mut vocabulary: Vocabulary) -> Result<Self, Error> {
        if vocabulary.model == TokenizerModel::Spm {
            // The ids that SentencePiece reserves.
            vocabulary.unknown = vocabulary.unknown.or(Some(0));
            vocabulary.bos = vocabulary.bos.or(Some(1));
            vocabulary.eos = vocabulary.eos.or(Some(2));
        }
        let mut ends = end_tokens(&vocabulary);
        make_control(&mut vocabulary, &ends);
        ends.extend(vocabulary.eos.into_iter().chain(vocabulary.eot));
        let ids = vocabulary.check()?;
        let encoder = match vocabulary.model {
            TokenizerModel::Bpe => Encoder::Bpe(Bpe::new(&vocabulary, &ids)?),
            TokenizerModel::Spm => Encoder::Spm(Spm::new(&vocabulary)?),
        };
        let adds_bos = vocabulary.add_bos.unwrap_or(match &encoder {
            Encoder::Bpe(bpe) => bpe.adds_bos(),
            Encoder::Spm(_) => true,
        });
        let (bytes, starts) = token_bytes(&vocabulary)?;
        let n_vocab = vocabulary.tokens.len();
        Ok(Tokenizer {
            encoder,
            bytes,
            starts,
            types: (0..n_vocab).map(|id| vocabulary.type_of(id)).collect(),
            user_defined: spellings(&vocabulary, |ty| ty == TokenType::UserDefined)?,
            all_special: spellings(&vocabulary, |ty| {
                matches!(
                    ty,
                    TokenType::UserDefined | TokenType::Control | TokenType::Unknown
                )
            })?,
            ends_generation: ends,
            bos: vocabulary.bos,
            eos: vocabulary.eos,
            adds_bos,
        })
    }

    /// The ids of `text`. User-defined tokens are always taken whole, other special tokens only with
    /// [`EncodeOptions::parse_special`].
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let spellings = if options.parse_special {
            &self.all_special
        } else {
            &self.user_defined
        };
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        let mut begins = true;
        spellings.partition(text, None, |fragment| match fragment {
            Fragment::Token(id, _) => {
                ids.push(id);
                begins = true;
            }
            Fragment::Text(text) => {
                self.encode_text(text, begins, &mut ids);
                begins = false;
            }
        });
        let bos = self.bos.filter(|_| options.add_bos && self.adds_bos);
        if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// Appends the ids of text without special tokens; `begins` says that it starts a text or follows a
    /// special token.
    pub(crate) fn encode_text(&self, text: &str, begins: bool, ids: &mut Vec<u32>) {
        match &self.encoder {
            _ if text.is_empty() => {}
            Encoder::Bpe(bpe) => bpe.encode(text, ids),
            Encoder::Spm(spm) => spm.encode(text, begins, ids),
        }
    }

    /// Takes text apart in which `marker` breaks up spellings that must stay text.
    pub(crate) fn partition_marked<'t>(
        &self,
        text: &'t str,
        marker: char,
        emit: impl FnMut(Fragment<'t>),
    ) {
        self.all_special.partition(text, Some(marker), emit);
    }

    /// The bytes that `id` adds to a text: one byte for a byte token, the spelling for a special token.
    /// `None` if there is no such token.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let start = *self.starts.get(id as usize)?;
        let end = *self.starts.get(id as usize + 1)?;
        self.bytes.get(start..end)
    }

    /// What `id` stands for. `None` if there is no such token.
    pub fn token_type(&self, id: u32) -> Option<TokenType> {
        self.types.get(id as usize).copied()
    }

    /// Number of tokens.
    pub fn n_vocab(&self) -> usize {
        self.types.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether the model wants its prompts to start with BOS.
    pub fn adds_bos(&self) -> bool {
        self.adds_bos && self.bos.is_some()
    }

    /// Whether nothing follows `id`: the end of a text, a turn or a message.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.ends_generation.contains(&id)
    }

    /// Whether encoding puts a space before a text, which decoding has to take off again.
    pub(crate) fn adds_space_prefix(&self) -> bool {
        match &self.encoder {
            Encoder::Bpe(_) => false,
            Encoder::Spm(spm) => spm.add_space_prefix(),
        }
    }

    /// Every token that is special in some sense: control, unknown and user-defined ones.
    pub(crate) fn special_tokens(&self) -> impl Iterator<Item = (u32, TokenType, &str)> {
        let special = self.types.iter().enumerate().filter(|(_, ty)| {
            matches!(
                ty,
                TokenType::UserDefined | TokenType::Control | TokenType::Unknown
            )
        });
        special.filter_map(|(id, &ty)| {
            let id = id as u32;
            Some((id, ty, std::str::from_utf8(self.token_bytes(id)?).ok()?))
        })
    }
}

/// Ids of the tokens that end a generation by their name.
fn end_tokens(vocabulary: &Vocabulary) -> FxHashSet<u32> {
    let contains = |name: &str| vocabulary.tokens.iter().any(|text| text == name);
    let tokens = vocabulary.tokens.iter().enumerate();
    let named = tokens.filter(|(_, text)| ends_generation(text, contains));
    named.map(|(id, _)| id as u32).collect()
}

/// Tokens that end a generation by their name are control tokens whatever the file calls them: otherwise
/// any text could spell them.
fn make_control(vocabulary: &mut Vocabulary, ends: &FxHashSet<u32>) {
    let n_vocab = vocabulary.tokens.len();
    let types = vocabulary
        .types
        .get_or_insert_with(|| vec![TokenType::Normal; n_vocab]);
    for &id in ends {
        if let Some(ty) = types.get_mut(id as usize) {
            *ty = TokenType::Control;
        }
    }
}

fn spellings(
    vocabulary: &Vocabulary,
    include: impl Fn(TokenType) -> bool,
) -> Result<Spellings, Error> {
    let tokens = vocabulary.tokens.iter().enumerate();
    let included = tokens.filter(|&(id, _)| include(vocabulary.type_of(id)));
    Spellings::new(included.map(|(id, text)| (text.as_str(), id as u32)))
}

/// Bytes of all tokens, joined, and where each starts; one more start closes the last.
fn token_bytes(vocabulary: &Vocabulary) -> Result<(Vec<u8>, Vec<usize>), Error> {
    let mut bytes = Vec::new();
    let mut starts = vec![0];
    for (id, text) in vocabulary.tokens.iter().enumerate() {
        match (vocabulary.type_of(id), vocabulary.model) {
            (TokenType::Normal, TokenizerModel::Bpe) => byte_alphabet::push_bytes(text, &mut bytes),
            (TokenType::Normal, TokenizerModel::Spm) => {
                bytes.extend_from_slice(text.replace(spm::SPACE, " ").as_bytes());
            }
            (TokenType::Byte, _) => bytes.push(spm::byte_of(id, text)?),
            _ => bytes.extend_from_slice(text.as_bytes()),
        }
        starts.push(bytes.len());
    }
    Ok((bytes, starts))
}

#[cfg(test)]
mod tests;
