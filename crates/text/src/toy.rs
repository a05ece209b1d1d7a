//! Small vocabularies for tests.

use crate::{TokenType, TokenizerModel, Vocabulary, byte_alphabet};

/// All bytes, then the products of `merges`, then `special` tokens.
pub fn bpe(merges: &[&str], special: &[(&str, TokenType)]) -> Vocabulary<'static> {
    let bytes = (0..=255).map(|byte| byte_alphabet::character_of(byte).to_string());
    let products = merges.iter().map(|merge| merge.replace(' ', ""));
    let mut tokens: Vec<String> = bytes.chain(products).collect();
    let mut types = vec![TokenType::Normal; tokens.len()];
    tokens.extend(special.iter().map(|(text, _)| (*text).to_owned()));
    types.extend(special.iter().map(|&(_, ty)| ty));
    Vocabulary {
        model: TokenizerModel::Bpe,
        pre: Some("qwen2".to_owned()),
        tokens: tokens.into(),
        types: Some(types),
        scores: None,
        merges: merges.iter().map(|&merge| merge.to_owned()).collect(),
        bos: None,
        eos: None,
        eot: None,
        unknown: None,
        add_bos: None,
        add_space_prefix: None,
    }
}

/// `<unk>`, `<s>`, `</s>`, all bytes from id 3, then `pieces` with their scores from id 259.
pub fn spm(pieces: &[(&str, f32)]) -> Vocabulary<'static> {
    let mut vocabulary = bpe(&[], &[]);
    vocabulary.model = TokenizerModel::Spm;
    vocabulary.pre = None;
    let mut tokens = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte: u8| format!("<0x{byte:02X}>")));
    let mut types = vec![TokenType::Unknown, TokenType::Control, TokenType::Control];
    types.resize(tokens.len(), TokenType::Byte);
    let mut scores = vec![0.0; types.len()];
    for &(piece, score) in pieces {
        tokens.push(piece.to_owned());
        types.push(TokenType::Normal);
        scores.push(score);
    }
    vocabulary.tokens = tokens.into();
    vocabulary.types = Some(types);
    vocabulary.scores = Some(scores);
    vocabulary
}
