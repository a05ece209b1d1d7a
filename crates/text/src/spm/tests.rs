use super::*;
use crate::toy;

const FIRST: u32 = 259;

fn encode(spm: &Spm, text: &str, starts: bool) -> Vec<u32> {
    let mut ids = Vec::new();
    spm.encode(text, starts, &mut ids);
    ids
}

fn byte(byte: u8) -> u32 {
    u32::from(byte) + 3
}

#[test]
fn the_highest_score_merges_first() {
    let pieces = [
        ("a", -9.0),
        ("b", -9.0),
        ("c", -9.0),
        ("ab", -2.0),
        ("bc", -1.0),
        ("▁", -3.0),
        ("▁a", -4.0),
    ];
    let spm = Spm::new(&toy::spm(&pieces)).unwrap();
    let [a, ab, bc, space, space_a] = [0, 3, 4, 5, 6].map(|i| FIRST + i);
    assert_eq!(encode(&spm, "abc", false), [a, bc]);
    assert_eq!(encode(&spm, "ab ", false), [ab, space]);
    assert_eq!(encode(&spm, "abc", true), [space_a, bc]);
    assert_eq!(encode(&spm, "ab", true), [space, ab]);
}

#[test]
fn what_is_no_piece_is_spelled_in_bytes() {
    let spm = Spm::new(&toy::spm(&[("a", -1.0)])).unwrap();
    assert_eq!(
        encode(&spm, "aéa", false),
        [FIRST, byte(0xC3), byte(0xA9), FIRST]
    );
    assert_eq!(encode(&spm, "<s></s>", false).len(), 7);
    assert_eq!(encode(&spm, "<0x41>", false).len(), 6);
}

#[test]
fn unknown_characters_without_byte_tokens() {
    let mut vocabulary = toy::spm(&[("a", -1.0)]);
    let types = vocabulary.types.as_mut().unwrap();
    types
        .iter_mut()
        .filter(|ty| **ty == TokenType::Byte)
        .for_each(|ty| *ty = TokenType::Unused);
    let error = Spm::new(&vocabulary).err().unwrap().to_string();
    assert!(error.contains("0x00"), "{error}");
    vocabulary.unknown = Some(0);
    let spm = Spm::new(&vocabulary).unwrap();
    assert_eq!(encode(&spm, "aé", false), [FIRST, 0]);
}

#[test]
fn a_long_text_takes_linear_work() {
    let pieces = [
        ("a", -4.0),
        ("aa", -3.0),
        ("aaa", -2.5),
        ("aaaa", -2.0),
        ("▁▁", -1.0),
        ("▁▁▁▁", -2.0),
    ];
    let spm = Spm::new(&toy::spm(&pieces)).unwrap();
    for letter in ["a", "▁"] {
        let text = letter.repeat(1_000_000);
        let mut merging = Merging::default();
        let considered = merging.run(&spm, &text);
        assert!(considered <= 3_000_000, "{considered}");
        let left = merging
            .symbols
            .iter()
            .filter(|symbol| symbol.end > symbol.start)
            .count();
        assert!(left <= 500_000, "{left}");
    }
}

#[test]
fn defective_byte_tokens_are_named() {
    for text in ["<0x4>", "<0xZZ>", "0x41", "<0x+1>"] {
        let mut vocabulary = toy::spm(&[("a", -1.0)]);
        vocabulary.tokens.to_mut()[5] = text.to_owned();
        match Spm::new(&vocabulary).err() {
            Some(Error::ByteToken { id: 5, text: found }) => assert_eq!(found, text),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn pieces_may_span_words() {
    let pieces = [("a", -9.0), ("▁", -9.0), ("a▁", -1.0), ("▁a", -2.0)];
    let spm = Spm::new(&toy::spm(&pieces)).unwrap();
    assert!(!spm.by_words);
    assert_eq!(encode(&spm, "a a", false), [FIRST + 2, FIRST]);
    let spm = Spm::new(&toy::spm(&pieces[..2])).unwrap();
    assert!(spm.by_words);
    assert_eq!(
        encode(&spm, "a  a ", false),
        [0, 1, 1, 0, 1].map(|i| FIRST + i)
    );
}
