//! Choices of kernels for attention: the default, and others that compute the same.

use minfer_metal::backend::KernelChoices;

pub const FAST: KernelChoices = KernelChoices {
    gemm: true,
    flash_decode: true,
    flash_prefill: true,
    window_flash: true,
    split_attention: true,
    attention_chunks: None,
    packed_stage: false,
};
pub const NO_FLASH: KernelChoices = KernelChoices {
    flash_decode: false,
    flash_prefill: false,
    ..FAST
};
pub const CLASSIC: KernelChoices = KernelChoices {
    split_attention: false,
    ..NO_FLASH
};
pub const NO_WINDOW_FLASH: KernelChoices = KernelChoices {
    window_flash: false,
    ..FAST
};
pub const STAGED: KernelChoices = KernelChoices {
    packed_stage: true,
    ..FAST
};
