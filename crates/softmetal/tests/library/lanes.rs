//! Functions among the lanes of a simdgroup.

use crate::run::{Case, check};

macro_rules! cases {
    ($($msl:literal => |$lane:ident| $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|$lane| $expected as f64) },)*]
    };
}

#[test]
fn reductions_and_scans() {
    check(
        "reductions.metal",
        "",
        cases![
            "simd_sum(x)" => |_l| 496,
            "simd_sum(int(lane) - 16)" => |_l| -16,
            "simd_product(lane < 3 ? 2.0f : 1.0f)" => |_l| 8,
            "simd_max(x)" => |_l| 31,
            "simd_min(-x)" => |_l| -31,
            "simd_or(uint(1) << lane) == 0xffffffff" => |_l| 1,
            "simd_and(uint(lane) | 64)" => |_l| 64,
            "simd_xor(uint(lane))" => |_l| 0,
            "simd_sum(float2(x, 1.0f)).y" => |_l| 32,
            "simd_sum(half(lane))" => |_l| 496,
            "simd_and(short(lane | 3))" => |_l| 3,
            "simd_max(int4(lane, -int(lane), 7, 8)).y" => |_l| 0,
            "simd_prefix_inclusive_sum(x)" => |l| l * (l + 1) / 2,
            "simd_prefix_exclusive_sum(x)" => |l| (0..l).sum::<usize>(),
            "simd_prefix_inclusive_product(lane < 4 ? 3.0f : 1.0f)" => |l| 3f64.powi(l.min(3) as i32 + 1),
            "simd_prefix_exclusive_product(lane < 4 ? 3.0f : 1.0f)" => |l| 3f64.powi(l.min(4) as i32),
        ],
        0.0,
    );
}

#[test]
fn shuffles() {
    check(
        "shuffles.metal",
        "",
        cases![
            "simd_shuffle(x, (lane * 7) % 32)" => |l| l * 7 % 32,
            "simd_shuffle_xor(x, 5)" => |l| l ^ 5,
            "simd_shuffle_up(x, 3)" => |l| if l < 3 { l } else { l - 3 },
            "simd_shuffle_down(x, 3)" => |l| if l + 3 < 32 { l + 3 } else { l },
            "simd_shuffle_rotate_up(x, 3)" => |l| (l + 29) % 32,
            "simd_shuffle_rotate_down(x, 3)" => |l| (l + 3) % 32,
            "simd_broadcast(x, 9)" => |_l| 9,
            "simd_broadcast_first(x + 4.0f)" => |_l| 4,
            "simd_shuffle_and_fill_down(x, 100.0f + x, 3)" => |l| if l < 29 { l + 3 } else { 100 + l - 29 },
            "simd_shuffle_and_fill_up(x, 100.0f + x, 3)" => |l| if l < 3 { 129 + l } else { l - 3 },
            "simd_shuffle_and_fill_down(x, 100.0f + x, 2, 8)" => |l| if l % 8 < 6 { l + 2 } else { 100 + l - 6 },
            "simd_shuffle_and_fill_up(x, 100.0f + x, 1, 4)" => |l| if l % 4 == 0 { 103 + l } else { l - 1 },
            "simd_shuffle_and_fill_down(float4(x), float4(100.0f + x), 3).w" => |l| if l < 29 { l + 3 } else { 100 + l - 29 },
            "simd_shuffle(float4(x, 0, 0, -x), 2).w" => |_l| -2,
            "simd_shuffle(uchar(lane), 30)" => |_l| 30,
        ],
        0.0,
    );
}

#[test]
fn votes() {
    check(
        "votes.metal",
        "",
        cases![
            "simd_any(lane == 31)" => |_l| 1,
            "simd_any(lane == 32)" => |_l| 0,
            "simd_all(lane < 32)" => |_l| 1,
            "simd_all(lane < 31)" => |_l| 0,
            "popcount(uint(ulong(simd_ballot(lane % 3 == 0))))" => |_l| 11,
            "ulong(simd_active_threads_mask()) == 0xffffffff" => |_l| 1,
            "simd_is_first()" => |l| usize::from(l == 0),
            "simd_is_helper_thread()" => |_l| 0,
            "simd_ballot(lane < 32).all() && simd_ballot(lane == 7).any()" => |_l| 1,
            "simd_ballot(lane < 31).all() || simd_ballot(lane > 31).any()" => |_l| 0,
            "quad_ballot(lane % 4 < 3).all()" => |_l| 0,
            "simd_vote::vote_t(quad_ballot(lane % 8 == 6))" => |l| if l % 8 < 4 { 0 } else { 4 },
            "quad_vote::vote_t(quad_active_threads_mask())" => |_l| 15,
            "quad_is_first()" => |l| usize::from(l % 4 == 0),
        ],
        0.0,
    );
}

#[test]
fn quadgroups() {
    check(
        "quadgroups.metal",
        "",
        cases![
            "quad_sum(x)" => |l| 4 * (l & !3) + 6,
            "quad_product(x + 1.0f)" => |l| ((l & !3) + 1..(l & !3) + 5).product::<usize>(),
            "quad_and(uint(lane))" => |l| l & !3,
            "quad_or(uint(lane))" => |l| l | 3,
            "quad_xor(uint(lane) * 2)" => |_l| 0,
            "quad_prefix_inclusive_sum(x)" => |l| (l & !3..=l).sum::<usize>(),
            "quad_prefix_exclusive_sum(x)" => |l| (l & !3..l).sum::<usize>(),
            "quad_prefix_inclusive_product(2.0f)" => |l| 2usize.pow(l as u32 % 4 + 1),
            "quad_prefix_exclusive_product(2.0f)" => |l| 2usize.pow(l as u32 % 4),
            "quad_shuffle(x, (lane + 1) % 4)" => |l| (l & !3) + (l + 1) % 4,
            "quad_broadcast_first(half(lane))" => |l| l & !3,
            "quad_shuffle_rotate_up(x, 1)" => |l| (l & !3) + (l + 3) % 4,
            "quad_shuffle_rotate_down(x, 1)" => |l| (l & !3) + (l + 1) % 4,
            "quad_shuffle_and_fill_up(x, x + 50.0f, 1)" => |l| if l % 4 == 0 { l + 53 } else { l - 1 },
            "quad_shuffle_and_fill_down(x, x + 50.0f, 1, 2)" => |l| if l % 2 == 1 { l + 49 } else { l + 1 },
            "quad_max(x)" => |l| l | 3,
            "quad_min(x)" => |l| l & !3,
            "quad_broadcast(x, 2)" => |l| (l & !3) + 2,
            "quad_shuffle_xor(x, 3)" => |l| l ^ 3,
            "quad_shuffle_up(x, 1)" => |l| if l % 4 == 0 { l } else { l - 1 },
            "quad_shuffle_down(x, 1)" => |l| if l % 4 == 3 { l } else { l + 1 },
            "quad_any(lane == 5)" => |l| usize::from(l / 4 == 1),
            "quad_all(lane < 5)" => |l| usize::from(l / 4 == 0),
        ],
        0.0,
    );
}
