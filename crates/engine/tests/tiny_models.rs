//! Every weight type end to end, on every instruction set of this machine: the tiny models against a
//! reference that computed with weights dequantized to f32 and f32 activations.

use minfer_cpu::{Isa, PrefillPrecision};
use minfer_engine::sampling::argmax;
use minfer_engine::{DeviceChoice, Engine, EngineOptions};
use minfer_testdata::{TINY_MODELS, TinyLogits, largest_difference, tiny_logits, tiny_model};

/// How products for prompt rows are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arithmetic {
    isa: Isa,
    prefill: PrefillPrecision,
}

impl Arithmetic {
    /// All that this machine has; only tiles come in two precisions.
    fn available() -> Vec<Arithmetic> {
        let with = |isa, prefill| Arithmetic { isa, prefill };
        let levels = Isa::available().into_iter();
        let mut all: Vec<_> = levels
            .map(|isa| with(isa, PrefillPrecision::Split))
            .collect();
        if Isa::Amx.is_available() {
            all.push(with(Isa::Amx, PrefillPrecision::Bf16));
        }
        all
    }

    /// Largest |Δlogit| of a prompt row. The logits are about -5 to 5.
    fn prompt_tolerance(self) -> f32 {
        match (self.isa, self.prefill) {
            // f32 throughout: only the order of the sums differs from the reference.
            (Isa::Scalar | Isa::Avx2 | Isa::Avx512 | Isa::Neon, _) => 1e-4,
            // Two bf16 terms lack 2^-16 of weights and activations: some 2^-8 of the error below.
            (Isa::Amx, PrefillPrecision::Split) => 5e-4,
            // Tiles round weights and activations to bf16, 2^-9 relative, whatever the weight type. The
            // errors of a sum average out, those of two layers and the output add up.
            (Isa::Amx, PrefillPrecision::Bf16) => 0.15,
        }
    }
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.isa, self.prefill)
    }
}

/// Largest |Δlogit| of a row after which some rows were generated, for a model of weight type `ty`.
fn generated_tolerance(arithmetic: Arithmetic, ty: &str) -> f32 {
    match ty {
        // Unquantized weights take f32 activations; the prompt's share of the error remains.
        "F32" | "F16" | "BF16" => arithmetic.prompt_tolerance(),
        // Quantized weights take activations in int8 with a scale per 32: up to 2^-8 of the largest of
        // them, several times the error of bf16.
        _ => 0.3,
    }
}

/// Two logits that may each be off this much are not told apart.
fn is_tie(gap: f32, tolerance: f32) -> bool {
    gap < 2.0 * tolerance
}

fn load(name: &str, arithmetic: Arithmetic) -> Engine {
    let options = EngineOptions {
        device: DeviceChoice::Cpu,
        isa: Some(arithmetic.isa),
        prefill: arithmetic.prefill,
        ..EngineOptions::default()
    };
    Engine::load(tiny_model(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn reference(name: &str) -> TinyLogits {
    tiny_logits()
        .into_iter()
        .find(|logits| logits.file == format!("{name}.gguf"))
        .unwrap_or_else(|| panic!("no reference for {name}"))
}

/// The type of the model's projections.
fn weight_type(reference: &TinyLogits) -> &str {
    let quantized = reference.types.iter().find(|ty| *ty != "F32");
    quantized.map_or("F32", String::as_str)
}

/// Runs `check` for every model in every arithmetic.
fn for_all(check: impl Fn(&str, Arithmetic, &TinyLogits, &mut Engine)) {
    for name in TINY_MODELS {
        let expected = reference(name);
        for arithmetic in Arithmetic::available() {
            check(name, arithmetic, &expected, &mut load(name, arithmetic));
        }
    }
}

#[test]
fn logits_after_the_prompt() {
    for_all(|name, arithmetic, expected, engine| {
        let mut session = engine.session();
        session.prefill(&expected.ids).expect("a short prompt");
        let difference = largest_difference(session.logits(), &expected.last_logits);
        println!("{name} on {arithmetic}: max |Δlogit| {difference:.5}");
        assert!(
            difference <= arithmetic.prompt_tolerance(),
            "{name} on {arithmetic}: {difference}"
        );
    });
}

#[test]
fn logits_after_generated_tokens() {
    for_all(|name, arithmetic, expected, engine| {
        let (first, rest) = expected.ids.split_at(1);
        let mut session = engine.session();
        session.prefill(first).expect("a short prompt");
        for &token in rest {
            session.decode(token).expect("room");
        }
        let difference = largest_difference(session.logits(), &expected.last_logits);
        let tolerance = generated_tolerance(arithmetic, weight_type(expected));
        println!("{name} on {arithmetic}: max |Δlogit| {difference:.5}");
        assert!(
            difference <= tolerance,
            "{name} on {arithmetic}: {difference}"
        );
    });
}

#[test]
fn likeliest_token_after_every_prompt_token() {
    for_all(|name, arithmetic, expected, engine| {
        for (n, &token) in (1..).zip(&expected.row_argmax) {
            let mut session = engine.session();
            session.prefill(&expected.ids[..n]).expect("a short prompt");
            let logits = session.logits();
            let chosen = argmax(logits).expect("finite logits");
            let gap = logits[chosen as usize] - logits[token as usize];
            // Only rounding to bf16 may decide between near ties.
            let tied = arithmetic.prefill == PrefillPrecision::Bf16
                && is_tie(gap, arithmetic.prompt_tolerance() / 2.0);
            assert!(
                chosen == token || tied,
                "{name} on {arithmetic}: after {n} tokens {chosen}, not {token}, which is {gap} less likely"
            );
        }
    });
}

#[test]
fn greedy_tokens_where_the_margin_is_clear() {
    for_all(|name, arithmetic, expected, engine| {
        let tolerance = generated_tolerance(arithmetic, weight_type(expected));
        let mut session = engine.session();
        session.prefill(&expected.ids).expect("a short prompt");
        for (i, (&token, &margin)) in expected.greedy.iter().zip(&expected.margins).enumerate() {
            let chosen = argmax(session.logits()).expect("finite logits");
            assert!(
                chosen == token || is_tie(margin, tolerance),
                "{name} on {arithmetic}: token {i} is {chosen}, not {token}, despite the margin {margin}"
            );
            session.decode(token).expect("room");
        }
    });
}
