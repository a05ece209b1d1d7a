use super::*;
use crate::toy;

fn toy_bpe(merges: &[&str]) -> Bpe {
    let vocabulary = toy::bpe(merges, &[]);
    let ids = vocabulary.check().unwrap();
    Bpe::new(&vocabulary, &ids).unwrap()
}

fn encode(bpe: &Bpe, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    bpe.encode(text, &mut ids);
    ids
}

const AB: u32 = 256;
const ABC: u32 = 257;
const BC: u32 = 258;
const AA: u32 = 259;
const AAAA: u32 = 260;
const MERGES: [&str; 5] = ["a b", "ab c", "b c", "a a", "aa aa"];

#[test]
fn the_lowest_rank_merges_first_and_the_leftmost_of_equals() {
    let bpe = toy_bpe(&MERGES);
    let a = u32::from(b'a');
    let c = u32::from(b'c');
    assert_eq!(encode(&bpe, "abc"), [ABC]);
    assert_eq!(encode(&bpe, "bc"), [BC]);
    assert_eq!(encode(&bpe, "aabcc"), [a, ABC, c]);
    assert_eq!(encode(&bpe, "aaa"), [AA, a]);
    assert_eq!(encode(&bpe, "aaab"), [AA, AB]);
    assert_eq!(encode(&bpe, "aaaaa"), [AAAA, a]);
}

#[test]
fn products_may_be_listed_in_any_order() {
    // From id 256: bc, an unused ab, ab.
    let mut vocabulary = toy::bpe(&["b c", "a b", "a b"], &[]);
    vocabulary.types.as_mut().unwrap()[257] = TokenType::Unused;
    let listed = Bpe::new(&vocabulary, &vocabulary.check().unwrap()).unwrap();
    assert_eq!(encode(&listed, "ab"), [258]);
    vocabulary.tokens.to_mut().swap(256, 258);
    let swapped = Bpe::new(&vocabulary, &vocabulary.check().unwrap()).unwrap();
    assert_eq!(encode(&swapped, "ab"), [256]);
    assert_eq!(encode(&swapped, "bc"), [258]);
}

#[test]
fn short_and_long_words_merge_alike() {
    let bpe = toy_bpe(&MERGES);
    let mut queue = Queue::default();
    let mut state = 12345_u32;
    for len in 0..=SCAN_LIMIT {
        for _ in 0..50 {
            let letters = (0..len).map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                char::from(b"aaabbcx"[(state >> 16) as usize % 7])
            });
            let word: String = letters.collect();
            let mut scanned = Vec::new();
            bpe.merge_by_scan(&word, &mut scanned);
            queue.merge(&bpe, &word);
            assert_eq!(queue.remaining().collect::<Vec<_>>(), scanned, "{word}");
        }
    }
}

#[test]
fn a_long_word_takes_linear_work() {
    let bpe = toy_bpe(&["a a", "aa aa", "aaaa aaaa", "Ġ Ġ", "ĠĠ ĠĠ"]);
    for letter in ["a", " "] {
        let word = letter.repeat(1_000_000);
        let mut queue = Queue::default();
        let considered = queue.merge(&bpe, &word);
        // A join adds two candidates at most, and there are fewer joins than bytes.
        assert!(considered <= 3 * word.len(), "{considered}");
        assert!(queue.remaining().count() <= word.len() / 4);
    }
}

#[test]
fn control_tokens_are_never_merged() {
    let mut vocabulary = toy::bpe(&["a b", "ab c"], &[]);
    vocabulary.types.as_mut().unwrap()[ABC as usize] = TokenType::Control;
    let ids = vocabulary.check().unwrap();
    let bpe = Bpe::new(&vocabulary, &ids).unwrap();
    assert_eq!(encode(&bpe, "abc"), [AB, u32::from(b'c')]);
}

#[test]
fn bytes_without_a_token_are_left_out() {
    let mut vocabulary = toy::bpe(&["a b"], &[]);
    vocabulary.tokens.to_mut()[usize::from(b'x')] = "unrelated".to_owned();
    let ids = vocabulary.check().unwrap();
    let bpe = Bpe::new(&vocabulary, &ids).unwrap();
    assert_eq!(encode(&bpe, "axb"), [u32::from(b'a'), u32::from(b'b')]);
}

#[test]
fn whole_words_are_looked_up_first_where_the_model_does() {
    let mut vocabulary = toy::bpe(&["a b", "b c"], &[("abc", TokenType::Normal)]);
    let ids = |vocabulary: &Vocabulary| {
        let bpe = Bpe::new(vocabulary, &vocabulary.check().unwrap()).unwrap();
        encode(&bpe, "abc abcd")
    };
    assert_eq!(ids(&vocabulary), [256, 99, 32, 256, 99, 100]);
    vocabulary.pre = Some("llama-bpe".to_owned());
    assert_eq!(ids(&vocabulary), [258, 32, 256, 99, 100]);
}

#[test]
fn defective_merges_are_named() {
    let error = |merge: &str| {
        let mut vocabulary = toy::bpe(&["a b"], &[]);
        vocabulary.merges.to_mut().push(merge.to_owned());
        let ids = vocabulary.check().unwrap();
        Bpe::new(&vocabulary, &ids)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    for merge in ["", "ab", " ", "a ", "  "] {
        assert!(
            error(merge).starts_with("merge 1 is "),
            "{merge:?}: {}",
            error(merge)
        );
    }
    assert_eq!(
        error("a zz"),
        "merge 1 (\"a zz\") needs \"zz\", which is not a token"
    );
    assert_eq!(
        error("b a"),
        "merge 1 (\"b a\") needs \"ba\", which is not a token"
    );
}

#[test]
fn an_unknown_pre_tokenizer_is_named() {
    let mut vocabulary = toy::bpe(&["a b"], &[]);
    vocabulary.pre = Some("klingon".to_owned());
    let ids = vocabulary.check().unwrap();
    let error = Bpe::new(&vocabulary, &ids).err().unwrap().to_string();
    assert!(
        error.contains("`klingon`") && error.contains("qwen2"),
        "{error}"
    );
}
