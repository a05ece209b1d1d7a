//! How far from the exact value a result may be, and why.

/// Arithmetic of a backend's products of weights and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 operands.
    F32,
    /// Weights and activations as sums of two bf16 numbers without the product of the second ones,
    /// sums in f32.
    SplitBf16,
    /// Weights and activations rounded to bf16, sums in f32.
    Bf16,
    /// Quantized weights with activations quantized to int8 per 32 elements; float weights in f32.
    Int8,
}

/// A bound on `|found - expected|`: `relative` times the element's magnitude, plus `absolute`.
///
/// The magnitude of an element of a product is the root of its summed squared terms, carried through
/// what the node does next; elsewhere it is the root mean square of the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Factor on the magnitude.
    pub relative: f64,
    /// Added to it.
    pub absolute: f64,
    /// Products of weights in the node: [`Limit::of`] adds what their precision costs.
    pub product: Product,
    /// Where the bound comes from.
    pub reason: &'static str,
}

/// Whether a node multiplies by weights, and by which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Not at all.
    None,
    /// Float weights.
    Float,
    /// Quantized weights.
    Quantized,
}

impl Limit {
    /// Not a bit may differ.
    pub const EXACT: Limit = Limit {
        relative: 0.0,
        absolute: 0.0,
        product: Product::None,
        reason: "moves values without computing",
    };

    /// A bound relative to the magnitude.
    pub const fn relative(relative: f64, reason: &'static str) -> Limit {
        Limit {
            relative,
            absolute: 0.0,
            product: Product::None,
            reason,
        }
    }

    /// The same bound for a node that multiplies by weights.
    pub const fn with(self, product: Product) -> Limit {
        Limit { product, ..self }
    }

    /// The bound for an element of this magnitude in a row computed at a precision.
    ///
    /// Rounding errors of random operands add up like the terms themselves, in squares. Bf16 rounds
    /// each of two operands by up to 2^-8 of it, 0.0022 root mean square together. Rounding what that
    /// leaves of an operand once more leaves the square of that error, 2.5e-6 root mean square, as large
    /// as the product that is left out: 4.3e-6 for the three. Int8 activations are
    /// off by up to half of 1/127 of the largest of 32, which for normal values is 0.005 of their root
    /// mean square. The largest of some ten thousand results is five times that.
    pub fn of(&self, precision: Precision, magnitude: f64) -> f64 {
        let product = match (self.product, precision) {
            (Product::None, _) | (_, Precision::F32) | (Product::Float, Precision::Int8) => 0.0,
            (_, Precision::SplitBf16) => 2.2e-5,
            (_, Precision::Bf16) => 0.012,
            (Product::Quantized, Precision::Int8) => 0.028,
        };
        self.absolute + (self.relative + product) * magnitude
    }
}
