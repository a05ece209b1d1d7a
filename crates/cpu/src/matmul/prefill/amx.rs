//! Matrix tiles (AMX): 16 × 16 results and 32 columns of the sum in one instruction.
//!
//! The intrinsics are not in stable Rust, hence the assembly.

mod split;

use std::arch::asm;

use super::avx512;
use super::kernel::{Group, Kernel, Operands, Target};
use super::precision::PrefillPrecision;
use super::tile::{Block, Tile};

/// Operand of `ldtilecfg`; Intel SDM, volume 1, "Tile configuration".
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// All eight tiles 16 rows of 64 bytes.
    const fn full() -> TileConfig {
        let mut config = TileConfig {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            bytes_per_row: [0; 16],
            rows: [0; 16],
        };
        let mut tile = 0;
        while tile < 8 {
            config.bytes_per_row[tile] = 64;
            config.rows[tile] = 16;
            tile += 1;
        }
        config
    }
}

static CONFIG: TileConfig = TileConfig::full();

/// The calling thread's tiles, configured. About 0.1 µs for both ends, so a session per call is
/// free, and a released state spares the system 8 KiB at every switch of threads.
pub struct Tiles {
    /// A session belongs to the thread that opened it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the session exists, so the processor has tiles; no tile holds a value of ours
        // between two calls.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) }
    }
}

/// AMX-BF16, with AVX-512 for packing.
pub struct Amx;

impl Kernel for Amx {
    type Element = u16;
    type Session = Tiles;
    const DEPTH: usize = 512;

    fn terms(precision: PrefillPrecision) -> usize {
        match precision {
            PrefillPrecision::Split => 2,
            PrefillPrecision::Bf16 => 1,
        }
    }

    unsafe fn session() -> Tiles {
        // SAFETY: AMX is available and permitted by the trait's contract; the configuration is one
        // of palette 1.
        unsafe {
            asm!(
                "ldtilecfg [{config}]",
                config = in(reg) &raw const CONFIG,
                options(nostack, readonly, preserves_flags),
            );
        }
        Tiles {
            _not_send: std::marker::PhantomData,
        }
    }

    unsafe fn pack_weights(row: &[f32], panel: &mut [Tile<u16>], r: usize, terms: usize) {
        // SAFETY: AMX implies AVX-512.
        unsafe { avx512::pack_weights_bf16(row, panel, r, terms) }
    }

    unsafe fn pack_group(group: Group<'_>, panel: &mut [Tile<u16>], terms: usize) {
        // SAFETY: AMX implies AVX-512.
        unsafe { avx512::pack_group_bf16(group, panel, terms) }
    }

    unsafe fn multiply(operands: &Operands<'_, u16>, block: &mut Block, first: bool) {
        let (weights, groups) = (operands.weights, operands.groups);
        let tiles = weights[0].len();
        let mut panels = weights.iter().chain(groups);
        assert!(tiles > 0 && panels.all(|panel| panel.len() == tiles));
        assert!(tiles.is_multiple_of(operands.terms));
        // SAFETY: the caller holds a session; the panels are equally long, a whole number of steps.
        unsafe {
            match (operands.terms, groups) {
                (1, &[x]) => two_by_one(weights, x, block, first),
                (1, &[x0, x1]) => two_by_two(weights, [x0, x1], block, first),
                (2, &[x]) => split::two_by_one(weights, x, block, first),
                (2, &[x0, x1]) => split::two_by_two(weights, [x0, x1], block, first),
                _ => unreachable!("one or two groups of one or two terms"),
            }
        }
    }

    unsafe fn store(block: &Block, target: Target<'_>) {
        // SAFETY: AMX implies AVX-512.
        unsafe { avx512::store(block, target) }
    }
}

/// `block[p][g] += weights[p] · groups[g]`.
///
/// Four products per four loads: the loads hide behind the tile unit, and four accumulators cover its
/// latency of 52 cycles at one product per 16.
///
/// # Safety
/// A session is live; the panels are equally long and not empty.
unsafe fn two_by_two(w: [&[Tile<u16>]; 2], x: [&[Tile<u16>]; 2], block: &mut Block, first: bool) {
    // SAFETY: reads `steps` tiles of each panel and reads and writes the four tiles of the block,
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
            "tileloadd tmm6, [{x0} + {row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{x1} + {row}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{w1} + {row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {w0}, 1024",
            "add {w1}, 1024",
            "add {x0}, 1024",
            "add {x1}, 1024",
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
            steps = inout(reg) w[0].len() => _,
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
unsafe fn two_by_one(w: [&[Tile<u16>]; 2], x: &[Tile<u16>], block: &mut Block, first: bool) {
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
            "tileloadd tmm6, [{x} + {row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{w1} + {row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "add {w0}, 1024",
            "add {w1}, 1024",
            "add {x}, 1024",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{c} + {row}*1], tmm0",
            "tilestored [{c} + {row}*1 + 2048], tmm2",
            w0 = inout(reg) w[0].as_ptr() => _,
            w1 = inout(reg) w[1].as_ptr() => _,
            x = inout(reg) x.as_ptr() => _,
            c = in(reg) &raw mut block.0,
            row = in(reg) 64_usize,
            steps = inout(reg) w[0].len() => _,
            first = in(reg) u32::from(first),
            out("tmm0") _, out("tmm2") _, out("tmm4") _, out("tmm5") _, out("tmm6") _,
            options(nostack),
        );
    }
}
