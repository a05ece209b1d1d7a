//! A model that computes no usable logits for some requests.

use minfer_engine::{Engine, EngineOptions, SchedulerOptions};
use minfer_gguf::{Gguf, OpenOptions, TensorBytes, Writer};
use minfer_testdata::tiny_model;

use crate::support::{Company, alone, greedy, tokens};

/// A token whose embedding is not a number.
const BROKEN: u32 = 299;

/// A tiny model with an output projection of its own, so that one embedding spoils no other row.
fn load() -> Engine {
    let original = Gguf::open(tiny_model("tiny-llama-q4_k"), OpenOptions::default());
    let original = original.unwrap_or_else(|e| panic!("{e}"));
    assert!(original.tensor("output.weight").is_some());
    let mut writer = Writer::new();
    for (key, value) in original.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in original.tensors() {
        let mut tensor = original.tensor(&info.name).expect("listed");
        if tensor.name == "token_embd.weight" {
            let mut bytes = tensor.bytes.to_vec();
            let row = bytes.len() / tensor.shape[1];
            // Scales of all ones are half-precision NaNs.
            bytes[BROKEN as usize * row..][..row].fill(0xff);
            tensor.bytes = TensorBytes::from_vec(bytes);
        }
        writer.add(tensor);
    }
    let bytes = writer.to_bytes().unwrap_or_else(|e| panic!("{e}"));
    let gguf = Gguf::parse_bytes("nan.gguf", bytes).unwrap_or_else(|e| panic!("{e}"));
    let options = EngineOptions {
        parallel: 3,
        n_ctx: Some(100),
        ..EngineOptions::default()
    };
    Engine::from_gguf(&gguf, &options).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn unusable_logits_end_their_request_alone() {
    let prompt = tokens(20, 0);
    assert!(!prompt.contains(&BROKEN));
    let broken = greedy([&prompt[..10], &[BROKEN], &prompt[10..]].concat(), 8);
    let healthy = greedy(prompt, 8);
    let mut company = Company::new(load(), SchedulerOptions::default());
    let first = company.submit(healthy.clone());
    let fails = company.submit(broken.clone());
    let second = company.submit(healthy.clone());
    company.run();
    let error = company.heard[&fails].end.clone().expect("it ended");
    let error = error.expect_err("no number");
    assert!(
        error.starts_with("after 21 tokens: the logit of token 0 is NaN"),
        "{error}"
    );
    let (text, tokens, _) = alone(&mut load(), &healthy);
    for id in [first, second] {
        assert_eq!(company.heard[&id].text, text);
        assert_eq!(company.heard[&id].tokens, tokens);
    }
    // Rows of a request that failed are not kept for others.
    let again = company.submit(broken);
    company.run();
    assert!(company.heard[&again].end.clone().expect("ended").is_err());
    assert_eq!(company.scheduler.cells_used(), tokens.len());
}
