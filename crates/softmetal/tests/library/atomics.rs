//! Atomic functions, by what 32 threads do to one object.

use crate::run::{Case, check};

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

/// Each lane brings `uint(lane)` to an object of its own; what it held before is added up as well.
const BEFORE: &str = "
    threadgroup atomic_int i[5]; threadgroup atomic_uint u[5]; threadgroup atomic<float> f; threadgroup atomic_bool b;
    threadgroup atomic_ulong most, least; threadgroup ulong* most_value = (threadgroup ulong*)&most;
    if (lane == 0) {
        for (int n = 0; n < 5; n++) {
            atomic_store_explicit(&i[n], -5, memory_order_relaxed);
            atomic_store_explicit(&u[n], 0xffu, memory_order_relaxed);
        }
        atomic_store_explicit(&f, 0.5f, memory_order_relaxed);
        atomic_store_explicit(&b, false, memory_order_relaxed);
        *most_value = 7; *(threadgroup ulong*)&least = ~0ul;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const int mine = lane; const uint bit = 1u << lane;
    const float befores = simd_sum(float(atomic_fetch_add_explicit(&i[0], mine, memory_order_relaxed)) * 0.0f + 1.0f);
    atomic_fetch_sub_explicit(&i[1], mine, memory_order_relaxed);
    atomic_fetch_max_explicit(&i[2], mine - 10, memory_order_relaxed);
    atomic_fetch_min_explicit(&i[3], mine - 10, memory_order_relaxed);
    atomic_fetch_and_explicit(&u[0], ~bit, memory_order_relaxed);
    atomic_fetch_or_explicit(&u[1], bit, memory_order_relaxed);
    atomic_fetch_xor_explicit(&u[2], bit, memory_order_relaxed);
    const uint exchanged = simd_xor(atomic_exchange_explicit(&u[3], 100 + lane, memory_order_relaxed));
    int expected = -5;
    const bool won = atomic_compare_exchange_weak_explicit(&i[4], &expected, mine, memory_order_relaxed, memory_order_relaxed);
    const uint winners = simd_sum(uint(won));
    const bool losers = simd_all(won || (expected >= 0 && expected < 32));
    atomic_fetch_add_explicit(&f, 0.25f, memory_order_relaxed);
    atomic_fetch_sub_explicit(&f, 0.125f, memory_order_relaxed);
    const bool was = atomic_exchange_explicit(&b, true, memory_order_relaxed);
    const uint first = simd_sum(uint(!was));
    atomic_max_explicit(&most, (1ul << 40) + lane, memory_order_relaxed);
    atomic_min_explicit(&least, (1ul << 40) + lane, memory_order_relaxed);
    atomic_thread_fence(mem_flags::mem_threadgroup, memory_order_seq_cst, thread_scope_threadgroup);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #define I(n) atomic_load_explicit(&i[n], memory_order_relaxed)
    #define U(n) atomic_load_explicit(&u[n], memory_order_relaxed)";

#[test]
fn threads_share_an_object() {
    check(
        "atomics.metal",
        BEFORE,
        cases![
            "I(0)" => -5 + 496,
            "I(1)" => -5 - 496,
            "I(2)" => 21,
            "I(3)" => -10,
            "U(0)" => 0,
            "U(1) == 0xffffffff" => 1,
            "U(2) == 0xffffff00" => 1,
            // Every value but one comes back: the first, and those of the other lanes.
            "exchanged ^ U(3)" => (100..132).fold(0xff, |all, value| all ^ value),
            "winners" => 1,
            "losers" => 1,
            "I(4) >= 0 && I(4) < 32" => 1,
            "atomic_load_explicit(&f, memory_order_relaxed)" => 4.5,
            "first" => 1,
            "atomic_load_explicit(&b, memory_order_relaxed)" => 1,
            "float(*most_value - (1ul << 40))" => 31,
            "float(*(threadgroup ulong*)&least - (1ul << 40))" => 0,
            "befores" => 32,
        ],
        0.0,
    );
}
