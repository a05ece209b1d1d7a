use super::*;

fn words(name: &str, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let pre_tokenizer = PreTokenizer::from_name(name).unwrap();
    pre_tokenizer.split(text, &mut |word| words.push(word.to_owned()));
    assert_eq!(words.concat(), text);
    words
}

#[test]
fn every_known_name_is_implemented_and_no_other() {
    for name in KNOWN {
        assert!(PreTokenizer::from_name(name).is_some(), "{name}");
    }
    assert_eq!(PreTokenizer::from_name("klingon"), None);
}

#[test]
fn gpt2_words() {
    let text = "I'll  say 'Hi' 12ab\n\n x\u{301}!";
    let expected = [
        "I", "'ll", " ", " say", " '", "Hi", "'", " 12", "ab", "\n\n", " x", "\u{301}!",
    ];
    assert_eq!(words("gpt-2", text), expected);
    assert_eq!(
        words("gpt-2", "I'LL\t \u{3000}"),
        ["I", "'", "LL", "\t \u{3000}"]
    );
}

#[test]
fn smollm_splits_every_digit() {
    assert_eq!(
        words("smollm", "a 12² b  "),
        ["a", " ", "1", "2", "²", " b", "  "]
    );
}

#[test]
fn default_splits_punctuation_and_triples() {
    let expected = [" ", "123", "456", "7", " $", "x", "!?", "ab"];
    assert_eq!(
        words("default", " 1234567 $x!?ab").concat(),
        expected.concat()
    );
    assert_eq!(words("default", "1234567"), ["123", "456", "7"]);
    assert_eq!(words("default", "a!?b"), ["a", "!?", "b"]);
}

#[test]
fn llama3_words_and_relatives() {
    let text = "We'RE\t(ok) 1234!!\r\n\n  x";
    let start = ["We", "'RE", "\t", "(ok", ")", " "];
    let end = ["!!\r\n\n", " ", " x"];
    let digits = |groups: &[&'static str]| [&start[..], groups, &end[..]].concat();
    assert_eq!(words("llama-bpe", text), digits(&["123", "4"]));
    assert_eq!(words("qwen2", text), digits(&["1", "2", "3", "4"]));
    assert_eq!(words("qwen2", "a \n \n b\n"), ["a", " \n \n", " b", "\n"]);
}

#[test]
fn marks_belong_to_words_in_qwen35_only() {
    assert_eq!(words("qwen2", "x\u{301}y"), ["x", "\u{301}y"]);
    assert_eq!(words("qwen35", "x\u{301}y"), ["x\u{301}y"]);
    assert_eq!(words("qwen35", "!\u{301}"), ["!\u{301}"]);
}
