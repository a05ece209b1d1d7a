//! Tensor element types and their block geometry.

/// Element type of a tensor, as numbered in the GGUF file format.
///
/// Source of the codes and block sizes: the GGUF specification and `ggml_type` in ggml.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, non_camel_case_types)]
pub enum TensorType {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    Q8_K,
    IQ1_S,
    IQ1_M,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4,
}

struct Layout {
    ty: TensorType,
    code: u32,
    name: &'static str,
    block_len: usize,
    block_bytes: usize,
}

const fn layout(
    ty: TensorType,
    code: u32,
    name: &'static str,
    block_len: usize,
    block_bytes: usize,
) -> Layout {
    Layout {
        ty,
        code,
        name,
        block_len,
        block_bytes,
    }
}

/// In declaration order of [`TensorType`], so that `ty as usize` is the index.
const LAYOUTS: [Layout; 32] = [
    layout(TensorType::F32, 0, "F32", 1, 4),
    layout(TensorType::F16, 1, "F16", 1, 2),
    layout(TensorType::BF16, 30, "BF16", 1, 2),
    layout(TensorType::F64, 28, "F64", 1, 8),
    layout(TensorType::I8, 24, "I8", 1, 1),
    layout(TensorType::I16, 25, "I16", 1, 2),
    layout(TensorType::I32, 26, "I32", 1, 4),
    layout(TensorType::I64, 27, "I64", 1, 8),
    layout(TensorType::Q4_0, 2, "Q4_0", 32, 18),
    layout(TensorType::Q4_1, 3, "Q4_1", 32, 20),
    layout(TensorType::Q5_0, 6, "Q5_0", 32, 22),
    layout(TensorType::Q5_1, 7, "Q5_1", 32, 24),
    layout(TensorType::Q8_0, 8, "Q8_0", 32, 34),
    layout(TensorType::Q8_1, 9, "Q8_1", 32, 36),
    layout(TensorType::Q2_K, 10, "Q2_K", 256, 84),
    layout(TensorType::Q3_K, 11, "Q3_K", 256, 110),
    layout(TensorType::Q4_K, 12, "Q4_K", 256, 144),
    layout(TensorType::Q5_K, 13, "Q5_K", 256, 176),
    layout(TensorType::Q6_K, 14, "Q6_K", 256, 210),
    layout(TensorType::Q8_K, 15, "Q8_K", 256, 292),
    layout(TensorType::IQ1_S, 19, "IQ1_S", 256, 50),
    layout(TensorType::IQ1_M, 29, "IQ1_M", 256, 56),
    layout(TensorType::IQ2_XXS, 16, "IQ2_XXS", 256, 66),
    layout(TensorType::IQ2_XS, 17, "IQ2_XS", 256, 74),
    layout(TensorType::IQ2_S, 22, "IQ2_S", 256, 82),
    layout(TensorType::IQ3_XXS, 18, "IQ3_XXS", 256, 98),
    layout(TensorType::IQ3_S, 21, "IQ3_S", 256, 110),
    layout(TensorType::IQ4_NL, 20, "IQ4_NL", 32, 18),
    layout(TensorType::IQ4_XS, 23, "IQ4_XS", 256, 136),
    layout(TensorType::TQ1_0, 34, "TQ1_0", 256, 54),
    layout(TensorType::TQ2_0, 35, "TQ2_0", 256, 66),
    layout(TensorType::MXFP4, 39, "MXFP4", 32, 17),
];

impl TensorType {
    /// The types that models' weights have here: those with a dequantizer in [`crate::quantize`].
    pub const WEIGHTS: [TensorType; 15] = [
        TensorType::F32,
        TensorType::F16,
        TensorType::BF16,
        TensorType::Q4_0,
        TensorType::Q4_1,
        TensorType::Q5_0,
        TensorType::Q5_1,
        TensorType::Q8_0,
        TensorType::Q2_K,
        TensorType::Q3_K,
        TensorType::Q4_K,
        TensorType::Q5_K,
        TensorType::Q6_K,
        TensorType::IQ4_NL,
        TensorType::IQ4_XS,
    ];

    fn layout(self) -> &'static Layout {
        &LAYOUTS[self as usize]
    }

    /// The type with this GGUF code, if the format defines one.
    pub fn from_code(code: u32) -> Option<Self> {
        LAYOUTS.iter().find(|l| l.code == code).map(|l| l.ty)
    }

    /// The code stored in a GGUF tensor entry.
    pub fn code(self) -> u32 {
        self.layout().code
    }

    /// The conventional name, for example `Q4_K`.
    pub fn name(self) -> &'static str {
        self.layout().name
    }

    /// Elements per block; 1 for unquantized types.
    pub fn block_len(self) -> usize {
        self.layout().block_len
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        self.layout().block_bytes
    }

    /// Bytes of a row of `n` elements; `None` when `n` is not a whole number of blocks or the size
    /// overflows.
    pub fn row_bytes(self, n: usize) -> Option<usize> {
        if !n.is_multiple_of(self.block_len()) {
            return None;
        }
        (n / self.block_len()).checked_mul(self.block_bytes())
    }
}

impl std::fmt::Display for TensorType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_declaration_order_and_codes_are_unique() {
        for (i, l) in LAYOUTS.iter().enumerate() {
            assert_eq!(l.ty as usize, i);
            assert_eq!(TensorType::from_code(l.code), Some(l.ty));
        }
        assert_eq!(TensorType::from_code(4), None);
    }
}
