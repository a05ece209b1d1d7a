//! Kernels on the software device, which exists on Linux: `cargo bench -p minfer-metal --bench modes [-- FILTER]`.
//!
//! Throughput is in lane operations per second, where criterion says elements: the arithmetic that the kernel's formula
//! asks for, each operation of a number once, a function such as `exp` too. What a kernel does besides, such as
//! decoding a weight's blocks, computing addresses and sums among lanes, is in the time and not in the count. Names
//! read `KERNEL/MODE`. Compilation is not part of it.

#[cfg(target_os = "linux")]
mod device;

fn main() {
    #[cfg(target_os = "linux")]
    device::benches();
    criterion::Criterion::default()
        .configure_from_args()
        .final_summary();
}
