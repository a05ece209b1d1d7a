//! Flags that say how tokens are chosen.

use clap::Args;
use minfer_engine::sampling::{
    DEFAULT_BREAKERS, DryParams, DynamicTemperature, MirostatParams, ParamError, PenaltyParams,
    SamplerParams, XtcParams, breaker_tokens,
};
use minfer_text::Tokenizer;

use crate::arguments;

/// How tokens are chosen, in the order in which the steps apply.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingOptions {
    /// Take the likeliest token every time; penalties still apply.
    #[arg(long, conflicts_with_all = ["temp", "mirostat"])]
    greedy: bool,

    /// Seed of the random choices; the same seed gives the same text [default: random].
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Divide the logits of repeated tokens; 1 does nothing.
    #[arg(long, value_name = "FACTOR", default_value_t = PenaltyParams::default().repeat)]
    repeat_penalty: f32,

    /// Lower a repeated token's logit by this for each time it occurred.
    #[arg(long, value_name = "LOGITS",
          default_value_t = PenaltyParams::default().frequency)]
    frequency_penalty: f32,

    /// Lower a repeated token's logit by this once.
    #[arg(long, value_name = "LOGITS",
          default_value_t = PenaltyParams::default().presence)]
    presence_penalty: f32,

    /// Tokens in which repetitions count; -1 is the whole context.
    #[arg(long, value_name = "TOKENS",
          value_parser = clap::value_parser!(i64).range(-1..), hide_short_help = true,
          default_value_t = last_n(PenaltyParams::default().last_n))]
    repeat_last_n: i64,

    /// Strength of the DRY penalty on repeated sequences; 0 does nothing.
    #[arg(long, value_name = "STRENGTH", hide_short_help = true,
          default_value_t = DryParams::default().multiplier)]
    dry_multiplier: f32,

    /// Growth of the DRY penalty with each repeated token.
    #[arg(long, value_name = "BASE", hide_short_help = true,
          default_value_t = DryParams::default().base)]
    dry_base: f32,

    /// Repeated tokens from which the DRY penalty applies.
    #[arg(long, value_parser = arguments::number, value_name = "TOKENS", hide_short_help = true,
          default_value_t = DryParams::default().allowed_length)]
    dry_allowed_length: usize,

    /// Tokens in which the DRY penalty looks for repetitions; -1 is the whole context.
    #[arg(long, value_name = "TOKENS",
          value_parser = clap::value_parser!(i64).range(-1..), hide_short_help = true,
          default_value_t = last_n(DryParams::default().last_n))]
    dry_last_n: i64,

    /// Keep this many of the likeliest tokens; 0 keeps all.
    #[arg(long, value_parser = arguments::number, value_name = "TOKENS", default_value_t = SamplerParams::default().top_k)]
    top_k: usize,

    /// Keep the locally typical tokens with this probability together; 1 keeps all.
    #[arg(long, value_name = "PROBABILITY", hide_short_help = true,
          default_value_t = SamplerParams::default().typical_p)]
    typical_p: f32,

    /// Keep the likeliest tokens with this probability together; 1 keeps all.
    #[arg(long, value_name = "PROBABILITY", default_value_t = SamplerParams::default().top_p)]
    top_p: f32,

    /// Drop tokens less likely than this share of the likeliest; 0 keeps all.
    #[arg(long, value_name = "SHARE", default_value_t = SamplerParams::default().min_p)]
    min_p: f32,

    /// Probability with which XTC excludes the top choices.
    #[arg(long, value_name = "PROBABILITY", hide_short_help = true,
          default_value_t = XtcParams::default().probability)]
    xtc_probability: f32,

    /// Probability from which XTC counts a token as a top choice.
    #[arg(long, value_name = "PROBABILITY", hide_short_help = true,
          default_value_t = XtcParams::default().threshold)]
    xtc_threshold: f32,

    /// Temperature: lower is more predictable, 0 takes the likeliest token.
    #[arg(long, value_name = "TEMPERATURE", default_value_t = SamplerParams::default().temperature)]
    temp: f32,

    /// Let the temperature follow the entropy by up to this much; 0 does nothing.
    #[arg(
        long,
        value_name = "RANGE",
        hide_short_help = true,
        default_value_t = 0.0
    )]
    dynatemp_range: f32,

    /// Exponent on the entropy that the temperature follows.
    #[arg(
        long,
        value_name = "EXPONENT",
        hide_short_help = true,
        default_value_t = 1.0
    )]
    dynatemp_exp: f32,

    /// Mirostat 2 in place of the steps from top-k to XTC.
    #[arg(long, hide_short_help = true)]
    mirostat: bool,

    /// Surprise that mirostat aims at, in bits.
    #[arg(long, value_name = "BITS", hide_short_help = true,
          default_value_t = MirostatParams::default().tau)]
    mirostat_tau: f32,

    /// Learning rate of mirostat.
    #[arg(long, value_name = "RATE", hide_short_help = true,
          default_value_t = MirostatParams::default().eta)]
    mirostat_eta: f32,
}

/// The flag's spelling of "tokens looked back on".
fn last_n(tokens: Option<usize>) -> i64 {
    tokens.map_or(-1, |tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
}

impl SamplingOptions {
    /// The parameters that the flags ask for.
    ///
    /// # Errors
    /// A value out of its range, named by its flag.
    pub fn params(&self) -> Result<SamplerParams, ParamError> {
        let params = SamplerParams {
            seed: self.seed,
            penalties: PenaltyParams {
                last_n: usize::try_from(self.repeat_last_n).ok(),
                repeat: self.repeat_penalty,
                frequency: self.frequency_penalty,
                presence: self.presence_penalty,
            },
            dry: DryParams {
                multiplier: self.dry_multiplier,
                base: self.dry_base,
                allowed_length: self.dry_allowed_length,
                last_n: usize::try_from(self.dry_last_n).ok(),
                breakers: Vec::new(),
            },
            top_k: self.top_k,
            typical_p: self.typical_p,
            top_p: self.top_p,
            min_p: self.min_p,
            xtc: XtcParams {
                probability: self.xtc_probability,
                threshold: self.xtc_threshold,
            },
            temperature: if self.greedy { 0.0 } else { self.temp },
            dynamic_temperature: (self.dynatemp_range != 0.0).then_some(DynamicTemperature {
                range: self.dynatemp_range,
                exponent: self.dynatemp_exp,
            }),
            mirostat: self.mirostat.then_some(MirostatParams {
                tau: self.mirostat_tau,
                eta: self.mirostat_eta,
            }),
        };
        params.validate()?;
        Ok(params)
    }

    /// Adds the usual sequence breakers of the DRY penalty, which depend on the vocabulary.
    pub fn add_dry_breakers(&self, params: &mut SamplerParams, tokenizer: &Tokenizer) {
        if self.dry_multiplier > 0.0 {
            params.dry.breakers = breaker_tokens(tokenizer, &DEFAULT_BREAKERS);
        }
    }
}
