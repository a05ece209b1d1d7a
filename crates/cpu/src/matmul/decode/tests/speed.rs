//! How fast weights are read. Not run by default:
//! `cargo test --release -p minfer-cpu decode::tests::speed -- --ignored --nocapture`.
//!
//! `DECODE_BENCH_MB` lists sizes of the weights (`8,256`), `DECODE_BENCH_TYPE` types (`Q4_K,Q6_K`) and
//! `DECODE_BENCH_ISA` names one level.

use std::time::Instant;

use super::random::Random;
use super::*;

/// One product after another over all the weights, by `threads` threads that split the outputs.
fn pass(isa: Isa, weights: Weights<'_>, x: Activations<'_>, out: &mut [f32], threads: usize) {
    let (out_dim, rows) = (weights.out_dim(), out.len() / weights.out_dim());
    let out = OutRows::new(out, out_dim, rows, out_dim);
    let step = out_dim.div_ceil(threads);
    std::thread::scope(|scope| {
        for t in 0..threads {
            let range = t * step..out_dim.min((t + 1) * step);
            // SAFETY: the ranges are disjoint.
            let mut part = unsafe { OutPart::new(out, range) };
            scope.spawn(move || matvec(isa, weights, x, &mut part).expect("matching shapes"));
        }
    });
}

/// GB/s of the fastest of many passes, the least disturbed by other programs.
fn speed(isa: Isa, ty: TensorType, width: usize, bytes: usize, rows: usize, threads: usize) -> f64 {
    let row_bytes = ty.row_bytes(width).expect("whole blocks");
    let out_dim = bytes / row_bytes;
    let mut random = Random::new(1);
    let block = random.weights(ty, width);
    let weights = block.repeat(out_dim);
    let values: Vec<f32> = (0..width * rows).map(|_| random.normal()).collect();
    let x = MatRef::new(&values, width, rows);
    let mut int8 = QuantizedRows::default();
    let x = match ActivationKind::of(ty) {
        Some(ActivationKind::Int8) => {
            int8.quantize(isa, x);
            Activations::Int8(&int8)
        }
        _ => Activations::F32(x),
    };
    let mut out = vec![0.0; out_dim * rows];
    let view = Weights::new(ty, &weights, width).expect("whole rows");
    let passes = (800_000_000 / weights.len()).clamp(7, 300);
    let mut seconds: Vec<f64> = (0..passes)
        .map(|_| {
            let start = Instant::now();
            pass(isa, view, x, &mut out, threads);
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    weights.len() as f64 / seconds[0] / 1e9
}

#[test]
#[ignore = "a benchmark"]
fn speed_of_every_type() {
    let sizes = std::env::var("DECODE_BENCH_MB").unwrap_or_else(|_| "8,256".to_owned());
    let only = std::env::var("DECODE_BENCH_TYPE").unwrap_or_default();
    let isas = std::env::var("DECODE_BENCH_ISA").unwrap_or_default();
    for isa in Isa::available().into_iter().skip(1) {
        if !isas.is_empty() && isas != isa.name() {
            continue;
        }
        for ty in TYPES {
            if !only.is_empty() && !only.split(',').any(|name| name == ty.name()) {
                continue;
            }
            for megabytes in sizes.split(',').filter_map(|mb| mb.parse::<usize>().ok()) {
                let width = if ty.block_len() == 256 { 1536 } else { 896 };
                let of = |rows, threads| speed(isa, ty, width, megabytes << 20, rows, threads);
                println!(
                    "{isa:7} {ty:6} width {width} of {megabytes:4} MB: {:5.1} GB/s, 2 threads \
                     {:5.1}; 8 rows {:5.1}",
                    of(1, 1),
                    of(1, 2),
                    of(8, 1),
                );
            }
        }
    }
}
