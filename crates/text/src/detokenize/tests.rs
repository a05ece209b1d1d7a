use crate::{Detokenizer, TokenType, Tokenizer, toy};

fn pieces(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut pieces: Vec<String> = ids
        .iter()
        .map(|&id| detokenizer.push(id).to_owned())
        .collect();
    pieces.push(detokenizer.finish().to_owned());
    pieces
}

#[test]
fn bytes_of_an_unfinished_character_are_held_back() {
    let tokenizer = Tokenizer::new(toy::bpe(&["a b"], &[])).unwrap();
    assert_eq!(
        pieces(&tokenizer, &[0x61, 0xF0, 0x9F, 0x98, 0x80, 256]),
        ["a", "", "", "", "😀", "ab", ""]
    );
}

#[test]
fn what_cannot_be_a_character_is_replaced_once_certain() {
    let tokenizer = Tokenizer::new(toy::bpe(&["a b"], &[])).unwrap();
    assert_eq!(pieces(&tokenizer, &[0xFF, 0x61]), ["\u{FFFD}", "a", ""]);
    assert_eq!(
        pieces(&tokenizer, &[0xE2, 0x82, 0x61]),
        ["", "", "\u{FFFD}a", ""]
    );
    assert_eq!(
        pieces(&tokenizer, &[0x61, 0xE2, 0x82]),
        ["a", "", "", "\u{FFFD}"]
    );
    assert_eq!(
        pieces(&tokenizer, &[0xE2, 0xE2, 0x82, 0xAC]),
        ["", "\u{FFFD}", "", "€", ""]
    );
}

#[test]
fn control_tokens_and_foreign_ids_add_nothing() {
    let special = [
        ("<|im_end|>", TokenType::Control),
        ("<tool>", TokenType::UserDefined),
    ];
    let tokenizer = Tokenizer::new(toy::bpe(&["a b"], &special)).unwrap();
    assert_eq!(tokenizer.decode(&[257, 256, 258, 9999]), "ab<tool>");
    assert_eq!(tokenizer.token_bytes(257), Some(&b"<|im_end|>"[..]));
    assert_eq!(tokenizer.token_bytes(259), None);
}

#[test]
fn sentencepiece_spaces() {
    let tokenizer = Tokenizer::new(toy::spm(&[("▁a", -1.0), ("b", -2.0), ("▁", -3.0)])).unwrap();
    let ids = tokenizer.encode("a b a", Default::default());
    assert_eq!(tokenizer.decode(&ids), "a b a");
    let mut continuing = Detokenizer::continuing(&tokenizer);
    assert_eq!(continuing.push(259), " a");
    assert_eq!(tokenizer.decode(&[1, 259, 259]), "a a");
}
