use super::*;
use crate::{TokenType, toy};

const START: u32 = 257;
const END: u32 = 258;

fn bpe() -> Tokenizer {
    let special = [("<s>", TokenType::Control), ("</s>", TokenType::Control)];
    Tokenizer::new(toy::bpe(&["a b"], &special)).unwrap()
}

/// `<s>` is 1, `</s>` is 2, a byte is 3 more than its value, `▁a` is 259 and `a` 260.
fn spm() -> Tokenizer {
    Tokenizer::new(toy::spm(&[("▁a", -1.0), ("a", -2.0), ("▁", -3.0)])).unwrap()
}

fn rendered(marked: &str) -> ChatText {
    ChatText::parse(&bpe(), marked, '|')
}

#[test]
fn marked_spellings_are_text_and_markers_vanish() {
    let chat = rendered("<s>a<|/s><s|></s>|");
    assert_eq!(chat.text(), "<s>a</s><s></s>");
    let at = |start, end, id| SpecialToken { start, end, id };
    // A marker after a whole spelling breaks it as well.
    assert_eq!(chat.special(), [at(0, 3, START)]);
    let chat = rendered("<s>a<|/s></s>");
    assert_eq!(chat.special(), [at(0, 3, START), at(8, 12, END)]);
    assert!(chat.is_well_formed());
}

#[test]
fn special_tokens_have_their_place_among_the_ids() {
    let chat = rendered("ab<s>ab<|/s>ab</s>");
    let expected = |ids: &[u32], special: &[usize]| EncodedChat {
        ids: ids.to_vec(),
        special: special.to_vec(),
    };
    let (ab, text) = (256, [60, 47, 115, 62]);
    let all = [&[ab, START, ab], &text[..], &[ab, END]].concat();
    assert_eq!(chat.encode_from(&bpe(), 0), expected(&all, &[1, 8]));
    assert_eq!(chat.encode_from(&bpe(), 2), expected(&all[1..], &[0, 7]));
    // Inside of <s>, and between a and b.
    assert_eq!(chat.encode_from(&bpe(), 3), expected(&all[2..], &[6]));
    let tail = [&[98], &text[..], &[ab, END]].concat();
    assert_eq!(chat.encode_from(&bpe(), 6), expected(&tail, &[6]));
    assert_eq!(chat.encode_from(&bpe(), 99), expected(&[], &[]));
}

#[test]
fn only_text_after_a_special_token_gets_a_space_and_only_the_start_bos() {
    let tokenizer = spm();
    let chat = ChatText::parse(&tokenizer, "aa</s>a", '|');
    assert_eq!(chat.encode_from(&tokenizer, 0).ids, [1, 259, 260, 2, 259]);
    assert_eq!(chat.encode_from(&tokenizer, 0).special, [3]);
    assert_eq!(chat.encode_from(&tokenizer, 1).ids, [260, 2, 259]);
    assert_eq!(chat.encode_from(&tokenizer, 2).ids, [2, 259]);
    assert_eq!(chat.encode_from(&tokenizer, 6).ids, [259]);
    let with_bos = ChatText::parse(&tokenizer, "<s>a", '|');
    assert_eq!(with_bos.encode_from(&tokenizer, 0).ids, [1, 259]);
    assert_eq!(with_bos.encode_from(&tokenizer, 0).special, [0]);
}

#[test]
fn a_common_prefix_ends_where_text_or_special_tokens_differ() {
    let chat = rendered("<s>aé</s>b");
    for (other, expected) in [
        ("<s>aé</s>bc", 11),
        ("<s>aé</s>c", 10),
        ("<s>aé", 6),
        // é and è share their first byte.
        ("<s>aè</s>b", 4),
        ("<s>aé<|/s>b", 6),
        ("<|s>aé</s>b", 0),
        ("", 0),
    ] {
        let other = rendered(other);
        assert_eq!(chat.common_prefix(&other), expected, "{other:?}");
        assert_eq!(other.common_prefix(&chat), expected, "{other:?}");
    }
}

#[test]
fn ends_are_the_same_only_with_the_same_special_tokens() {
    let chat = rendered("ab<s>a</s>");
    assert!(chat.same_from(2, &rendered("<s>a</s>"), 0));
    assert!(!chat.same_from(2, &rendered("<s>a<|/s>"), 0));
    assert!(!chat.same_from(1, &rendered("<s>a</s>"), 0));
    assert!(!chat.same_from(99, &rendered("<s>a</s>"), 8));
}

#[test]
fn pieces_are_appended_and_dropped() {
    let mut chat = ChatText::default();
    chat.push_text("a<s>");
    chat.push_token(START, "<s>");
    chat.push_text("é");
    assert_eq!(chat, rendered("a<|s><s>é"));
    chat.truncate(8);
    assert_eq!(chat, rendered("a<|s><s>"));
    chat.truncate(4);
    assert_eq!(chat, rendered("a<|s>"));
}
