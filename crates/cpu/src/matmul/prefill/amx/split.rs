//! Products of operands that are sums of two bf16 terms.
//!
//! Per step, every element of a block adds (first, second), (first, first) and (second, first) term of
//! weight and activation, in this order.

use std::arch::asm;

use crate::matmul::prefill::tile::{Block, Tile};

/// `block[p][g] += weights[p] · groups[g]`.
///
/// Each of the eight tiles of a step is loaded once for twelve products, those with an activation's
/// second term first.
///
/// # Safety
/// A session is live; the panels are equally long, a whole number of steps, and not empty.
pub unsafe fn two_by_two(
    w: [&[Tile<u16>]; 2],
    x: [&[Tile<u16>]; 2],
    block: &mut Block,
    first: bool,
) {
    // SAFETY: reads two tiles per step of each panel and reads and writes the four tiles of the block,
    // all 1 KiB at 64 bytes per row.
    unsafe {
        asm!(
            "test {first:e}, {first:e}",
            "jnz 3f",
            "tileloadd tmm0, [{c} + {row}*1]",
            "tileloadd tmm1, [{c} + {row}*1 + 1024]",
            "tileloadd tmm2, [{c} + {row}*1 + 2048]",
            "tileloadd tmm3, [{c} + {row}*1 + 3072]",
            "jmp 2f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{w0} + {row}*1]",
            "tileloadd tmm6, [{x0} + {row}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{x1} + {row}*1 + 1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{w1} + {row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm6, [{x0} + {row}*1]",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm7, [{x1} + {row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm4, [{w0} + {row}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "tileloadd tmm5, [{w1} + {row}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {w0}, 2048",
            "add {w1}, 2048",
            "add {x0}, 2048",
            "add {x1}, 2048",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {row}*1], tmm0",
            "tilestored [{c} + {row}*1 + 1024], tmm1",
            "tilestored [{c} + {row}*1 + 2048], tmm2",
            "tilestored [{c} + {row}*1 + 3072], tmm3",
            w0 = inout(reg) w[0].as_ptr() => _,
            w1 = inout(reg) w[1].as_ptr() => _,
            x0 = inout(reg) x[0].as_ptr() => _,
            x1 = inout(reg) x[1].as_ptr() => _,
            c = in(reg) &raw mut block.0,
            row = in(reg) 64_usize,
            steps = inout(reg) w[0].len() / 2 => _,
            first = in(reg) u32::from(first),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// `block[p][0] += weights[p] · x`, for at most 16 rows of activations.
///
/// # Safety
/// As for [`two_by_two`].
pub unsafe fn two_by_one(w: [&[Tile<u16>]; 2], x: &[Tile<u16>], block: &mut Block, first: bool) {
    // SAFETY: as in `two_by_two`, with two tiles of the block.
    unsafe {
        asm!(
            "test {first:e}, {first:e}",
            "jnz 3f",
            "tileloadd tmm0, [{c} + {row}*1]",
            "tileloadd tmm2, [{c} + {row}*1 + 2048]",
            "jmp 2f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm2",
            "2:",
            "tileloadd tmm4, [{w0} + {row}*1]",
            "tileloadd tmm6, [{x} + {row}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{w1} + {row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm6, [{x} + {row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tileloadd tmm4, [{w0} + {row}*1 + 1024]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{w1} + {row}*1 + 1024]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "add {w0}, 2048",
            "add {w1}, 2048",
            "add {x}, 2048",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {row}*1], tmm0",
            "tilestored [{c} + {row}*1 + 2048], tmm2",
            w0 = inout(reg) w[0].as_ptr() => _,
            w1 = inout(reg) w[1].as_ptr() => _,
            x = inout(reg) x.as_ptr() => _,
            c = in(reg) &raw mut block.0,
            row = in(reg) 64_usize,
            steps = inout(reg) w[0].len() / 2 => _,
            first = in(reg) u32::from(first),
            out("tmm0") _, out("tmm2") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
            options(nostack),
        );
    }
}
