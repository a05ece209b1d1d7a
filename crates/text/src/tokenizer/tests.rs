use crate::{EncodeOptions, Error, TokenType, Tokenizer, Vocabulary, toy};

fn special(parse_special: bool, add_bos: bool) -> EncodeOptions {
    EncodeOptions {
        parse_special,
        add_bos,
    }
}

#[test]
fn special_tokens_are_parsed_only_where_asked_and_user_defined_ones_always() {
    let tokens = [
        ("<|s|>", TokenType::Control),
        ("<t>", TokenType::UserDefined),
        ("<u>", TokenType::Unknown),
    ];
    let tokenizer = Tokenizer::new(toy::bpe(&["a b"], &tokens)).unwrap();
    assert_eq!(
        tokenizer.encode("ab<|s|><t><u>", special(true, false)),
        [256, 257, 258, 259]
    );
    let plain = tokenizer.encode("ab<|s|><t><u>", special(false, false));
    assert_eq!(plain.len(), 1 + 5 + 1 + 3);
    assert_eq!(plain[6], 258);
}

#[test]
fn bos_comes_first_once_and_only_if_the_model_wants_it() {
    let mut vocabulary = toy::bpe(&["a b"], &[("<s>", TokenType::Control)]);
    vocabulary.bos = Some(257);
    let with = |add_bos: Option<bool>, text: &str| {
        let vocabulary = Vocabulary {
            add_bos,
            ..vocabulary.clone()
        };
        Tokenizer::new(vocabulary)
            .unwrap()
            .encode(text, special(true, true))
    };
    assert_eq!(with(Some(true), "ab"), [257, 256]);
    assert_eq!(with(Some(true), "<s>ab"), [257, 256]);
    assert_eq!(with(Some(true), ""), [257]);
    assert_eq!(with(Some(false), "ab"), [256]);
    assert_eq!(with(None, "ab"), [256]);
}

#[test]
fn tokens_that_end_a_generation() {
    let tokens = [
        ("<|im_end|>", TokenType::Normal),
        ("<|x|>", TokenType::Control),
        ("<|y|>", TokenType::Control),
    ];
    let mut vocabulary = toy::bpe(&["a b"], &tokens);
    vocabulary.eos = Some(258);
    let tokenizer = Tokenizer::new(vocabulary).unwrap();
    let ends: Vec<u32> = (0..260)
        .filter(|&id| tokenizer.is_end_of_generation(id))
        .collect();
    assert_eq!(ends, [257, 258]);
    assert_eq!(tokenizer.eos(), Some(258));
    assert_eq!(tokenizer.token_type(257), Some(TokenType::Control));
}

#[test]
fn inconsistent_tables_are_named() {
    let error = |change: fn(&mut Vocabulary)| {
        let mut vocabulary = toy::bpe(&["a b"], &[]);
        change(&mut vocabulary);
        Tokenizer::new(vocabulary)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    assert_eq!(
        error(|v| v.types = Some(vec![TokenType::Normal; 3])),
        "`tokenizer.ggml.token_type` has 3 entries for 257 tokens"
    );
    assert_eq!(
        error(|v| v.scores = Some(vec![0.0; 2])),
        "`tokenizer.ggml.scores` has 2 entries for 257 tokens"
    );
    assert_eq!(
        error(|v| v.eos = Some(257)),
        "`tokenizer.ggml.eos_token_id` is 257, but there are 257 tokens"
    );
    assert_eq!(
        error(|v| v.tokens.to_mut()[9] = "a".to_owned()),
        "tokens 9 and 97 are both \"a\""
    );
    assert_eq!(
        error(|v| v.merges.to_mut().clear()),
        "tokenizer model `gpt2` needs `tokenizer.ggml.merges`, which the file does not have"
    );
    assert_eq!(
        error(|v| v.tokens.to_mut().clear()),
        "`tokenizer.ggml.tokens` is empty"
    );
}

#[test]
fn inconsistent_sentencepiece_tables_are_named() {
    let mut vocabulary = toy::spm(&[("a", -1.0)]);
    vocabulary.scores.as_mut().unwrap()[259] = f32::NAN;
    assert!(matches!(
        Tokenizer::new(vocabulary.clone()),
        Err(Error::Score { id: 259 })
    ));
    vocabulary.scores = None;
    assert!(matches!(
        Tokenizer::new(vocabulary),
        Err(Error::MissingTable { .. })
    ));
}
