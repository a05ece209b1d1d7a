//! Kernels on the software device, which exists on Linux: `cargo bench -p minfer-metal --bench modes [-- FILTER]`.
//!
//! Throughput is in elements of the operand; names read `KERNEL/MODE`. Compilation is not part of it.

#[cfg(target_os = "linux")]
mod device;

fn main() {
    #[cfg(target_os = "linux")]
    device::benches();
    criterion::Criterion::default()
        .configure_from_args()
        .final_summary();
}
