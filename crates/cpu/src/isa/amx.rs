//! Whether this process may use the tile registers of AMX.

use std::sync::OnceLock;

/// Whether this process may use tiles of bf16. Asks the kernel for the permission on the first call.
pub fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| has_bf16_tiles() && request_permission())
}

/// AMX-TILE and AMX-BF16; bits of leaf 7 in the Intel SDM, volume 2, CPUID.
fn has_bf16_tiles() -> bool {
    const TILE: u32 = 1 << 24;
    const BF16: u32 = 1 << 22;
    std::arch::x86_64::__cpuid(0).eax >= 7
        && std::arch::x86_64::__cpuid_count(7, 0).edx & (TILE | BF16) == TILE | BF16
}

/// Tile registers are off until a process asks, because they enlarge its signal frames; see
/// "Using XSTATE features in user space applications" in the documentation of Linux.
#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: the call takes two integers and touches no memory; a system call overwrites nothing
    // but rax, rcx and r11.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}
