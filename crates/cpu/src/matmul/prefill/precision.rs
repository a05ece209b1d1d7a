//! What products for prompt rows may round.

/// Operands of products for prompt rows where the instructions take bf16 only (AMX). Elsewhere they are
/// f32, whatever is chosen here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrefillPrecision {
    /// Weights and activations are sums of two bf16 terms, exact to 2⁻¹⁶. Of the four products of terms,
    /// the one of both second terms is left out: it is as small as what the others lack.
    #[default]
    Split,
    /// Weights and activations are rounded to bf16, by up to 2⁻⁸ of their value: a third of the
    /// multiplications.
    Bf16,
}
