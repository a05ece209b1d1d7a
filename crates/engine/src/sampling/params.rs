//! What a user may set.

use super::dry::DryParams;
use super::mirostat::MirostatParams;
use super::penalties::PenaltyParams;
use super::temperature::DynamicTemperature;
use super::xtc::XtcParams;

/// A sampling parameter outside its range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}, but must be {expected}")]
pub struct ParamError {
    /// The parameter, spelled as its command-line flag.
    pub name: &'static str,
    /// The value given.
    pub value: f64,
    /// The accepted values.
    pub expected: &'static str,
}

/// Settings of the sampler chain. The defaults are those of llama.cpp's command line.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplerParams {
    /// Seed of the draw; a random one when absent.
    pub seed: Option<u64>,
    /// Repetition, frequency and presence penalties.
    pub penalties: PenaltyParams,
    /// Penalty on continuing a repeated sequence.
    pub dry: DryParams,
    /// Keep the `top_k` likeliest tokens; 0 keeps all.
    pub top_k: usize,
    /// Locally typical sampling: probability mass kept; 1 keeps all.
    pub typical_p: f32,
    /// Nucleus sampling: probability mass kept; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than this fraction of the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Exclude top choices.
    pub xtc: XtcParams,
    /// Divisor of the logits; 0 or less takes the likeliest token.
    pub temperature: f32,
    /// Lets the temperature follow the entropy.
    pub dynamic_temperature: Option<DynamicTemperature>,
    /// Mirostat 2 in place of top-k, typical, top-p, min-p and XTC. Penalties and DRY
    /// still apply, unlike in llama.cpp: they are off unless asked for, and then are not dropped silently.
    pub mirostat: Option<MirostatParams>,
}

impl Default for SamplerParams {
    fn default() -> Self {
        SamplerParams {
            seed: None,
            penalties: PenaltyParams::default(),
            dry: DryParams::default(),
            top_k: 40,
            typical_p: 1.0,
            top_p: 0.95,
            min_p: 0.05,
            xtc: XtcParams::default(),
            temperature: 0.8,
            dynamic_temperature: None,
            mirostat: None,
        }
    }
}

impl SamplerParams {
    /// The likeliest token at every step, without penalties.
    pub fn greedy() -> Self {
        SamplerParams {
            temperature: 0.0,
            ..SamplerParams::default()
        }
    }

    /// Checks every value.
    pub fn validate(&self) -> Result<(), ParamError> {
        finite("temp", self.temperature)?;
        fraction("typical-p", self.typical_p)?;
        fraction("top-p", self.top_p)?;
        fraction("min-p", self.min_p)?;
        positive("repeat-penalty", self.penalties.repeat)?;
        finite("frequency-penalty", self.penalties.frequency)?;
        finite("presence-penalty", self.penalties.presence)?;
        not_negative("dry-multiplier", self.dry.multiplier)?;
        check(
            "dry-base",
            self.dry.base,
            "a finite number of at least 1",
            |base| base.is_finite() && base >= 1.0,
        )?;
        fraction("xtc-probability", self.xtc.probability)?;
        fraction("xtc-threshold", self.xtc.threshold)?;
        if let Some(dynamic) = self.dynamic_temperature {
            not_negative("dynatemp-range", dynamic.range)?;
            positive("dynatemp-exp", dynamic.exponent)?;
        }
        if let Some(mirostat) = self.mirostat {
            positive("mirostat-tau", mirostat.tau)?;
            not_negative("mirostat-eta", mirostat.eta)?;
        }
        Ok(())
    }
}

fn check(
    name: &'static str,
    value: f32,
    expected: &'static str,
    accepts: impl Fn(f32) -> bool,
) -> Result<(), ParamError> {
    if accepts(value) {
        return Ok(());
    }
    Err(ParamError {
        name,
        value: f64::from(value),
        expected,
    })
}

fn finite(name: &'static str, value: f32) -> Result<(), ParamError> {
    check(name, value, "a finite number", f32::is_finite)
}

fn fraction(name: &'static str, value: f32) -> Result<(), ParamError> {
    check(name, value, "between 0 and 1", |v| (0.0..=1.0).contains(&v))
}

fn positive(name: &'static str, value: f32) -> Result<(), ParamError> {
    check(name, value, "a finite number above 0", |v| {
        v.is_finite() && v > 0.0
    })
}

fn not_negative(name: &'static str, value: f32) -> Result<(), ParamError> {
    check(name, value, "a finite number of at least 0", |v| {
        v.is_finite() && v >= 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid() {
        assert_eq!(SamplerParams::default().validate(), Ok(()));
        assert_eq!(SamplerParams::greedy().validate(), Ok(()));
    }

    #[test]
    fn each_value_out_of_range_is_named() {
        type Change = fn(&mut SamplerParams);
        let cases: [(&str, Change); 14] = [
            ("temp", |p| p.temperature = f32::NAN),
            ("typical-p", |p| p.typical_p = -0.1),
            ("top-p", |p| p.top_p = 1.5),
            ("min-p", |p| p.min_p = f32::NAN),
            ("repeat-penalty", |p| p.penalties.repeat = 0.0),
            ("frequency-penalty", |p| {
                p.penalties.frequency = f32::INFINITY
            }),
            ("presence-penalty", |p| p.penalties.presence = f32::NAN),
            ("dry-multiplier", |p| p.dry.multiplier = -1.0),
            ("dry-base", |p| p.dry.base = 0.5),
            ("xtc-probability", |p| p.xtc.probability = 2.0),
            ("xtc-threshold", |p| p.xtc.threshold = -0.5),
            ("dynatemp-exp", |p| {
                p.dynamic_temperature = Some(DynamicTemperature {
                    range: 0.5,
                    exponent: 0.0,
                });
            }),
            ("mirostat-tau", |p| {
                p.mirostat = Some(MirostatParams { tau: 0.0, eta: 0.1 });
            }),
            ("mirostat-eta", |p| {
                p.mirostat = Some(MirostatParams {
                    tau: 5.0,
                    eta: -0.1,
                });
            }),
        ];
        for (name, change) in cases {
            let mut params = SamplerParams::default();
            change(&mut params);
            let error = params.validate().expect_err(name);
            assert_eq!(error.name, name);
        }
        let message = SamplerParams {
            top_p: 1.5,
            ..SamplerParams::default()
        }
        .validate()
        .expect_err("1.5")
        .to_string();
        assert_eq!(message, "top-p is 1.5, but must be between 0 and 1");
    }
}
