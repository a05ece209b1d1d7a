// Kernels whose threads do not meet, each with a twin that differs in one place: `correct`.
//
// The line where the checker must see the fault is marked.

#include <metal_stdlib>

using namespace metal;

template <bool correct>
kernel void return_before_barrier(device float* y [[buffer(0)]],
                                  device const float* x [[buffer(1)]],
                                  uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    if (!correct && i >= 33) return;
    shared[i] = i < 33 ? x[i] : 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup); // fault: return_before_barrier
    y[i] = shared[i];
}
template [[host_name("return_before_barrier.broken")]] kernel void
return_before_barrier<false>(device float*, device const float*, uint);
template [[host_name("return_before_barrier.correct")]] kernel void
return_before_barrier<true>(device float*, device const float*, uint);

template <bool correct>
kernel void barrier_in_a_branch(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    if (correct || i < 32) threadgroup_barrier(mem_flags::mem_threadgroup); // fault: barrier_in_a_branch
    else threadgroup_barrier(mem_flags::mem_device);
    y[i] = shared[correct ? 63 - i : i];
}
template [[host_name("barrier_in_a_branch.broken")]] kernel void
barrier_in_a_branch<false>(device float*, device const float*, uint);
template [[host_name("barrier_in_a_branch.correct")]] kernel void
barrier_in_a_branch<true>(device float*, device const float*, uint);

template <bool correct>
kernel void barrier_in_a_loop(device float* y [[buffer(0)]],
                              device const float* x [[buffer(1)]],
                              uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    const uint rounds = correct ? 2 : 1 + i / 32;
    for (uint round = 0; round < rounds; round++) {
        threadgroup_barrier(mem_flags::mem_threadgroup); // fault: barrier_in_a_loop
    }
    y[i] = shared[i];
}
template [[host_name("barrier_in_a_loop.broken")]] kernel void
barrier_in_a_loop<false>(device float*, device const float*, uint);
template [[host_name("barrier_in_a_loop.correct")]] kernel void
barrier_in_a_loop<true>(device float*, device const float*, uint);

template <bool correct>
kernel void sum_in_a_branch(device float* y [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            uint i [[thread_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
    float sum = x[i];
    if (correct || lane < 16) sum = simd_sum(sum); // fault: sum_in_a_branch
    y[i] = sum;
}
template [[host_name("sum_in_a_branch.broken")]] kernel void
sum_in_a_branch<false>(device float*, device const float*, uint, uint);
template [[host_name("sum_in_a_branch.correct")]] kernel void
sum_in_a_branch<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void sum_of_part_of_a_quadgroup(device float* y [[buffer(0)]],
                                       device const float* x [[buffer(1)]],
                                       uint i [[thread_index_in_threadgroup]]) {
    float sum = x[i];
    if (i < (correct ? 20 : 21)) sum = quad_sum(sum); // fault: sum_of_part_of_a_quadgroup
    y[i] = sum;
}
template [[host_name("sum_of_part_of_a_quadgroup.broken")]] kernel void
sum_of_part_of_a_quadgroup<false>(device float*, device const float*, uint);
template [[host_name("sum_of_part_of_a_quadgroup.correct")]] kernel void
sum_of_part_of_a_quadgroup<true>(device float*, device const float*, uint);

template <bool correct>
kernel void return_before_shuffle(device float* y [[buffer(0)]],
                                  device const float* x [[buffer(1)]],
                                  uint i [[thread_index_in_threadgroup]]) {
    if (!correct && i >= 33) return;
    const float value = i < 33 ? x[i] : 0.0f;
    const float other = simd_shuffle_xor(value, 1); // fault: return_before_shuffle
    if (i < 33) y[i] = other;
}
template [[host_name("return_before_shuffle.broken")]] kernel void
return_before_shuffle<false>(device float*, device const float*, uint);
template [[host_name("return_before_shuffle.correct")]] kernel void
return_before_shuffle<true>(device float*, device const float*, uint);

template <bool correct>
kernel void absent_lane(device float* y [[buffer(0)]],
                        device const float* x [[buffer(1)]],
                        uint i [[thread_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    // The threadgroup has 20 threads.
    const uint other = correct ? (lane + 10) % 20 : lane + 10;
    y[i] = simd_shuffle(x[i], ushort(other)); // fault: absent_lane
}
template [[host_name("absent_lane.broken")]] kernel void
absent_lane<false>(device float*, device const float*, uint, uint);
template [[host_name("absent_lane.correct")]] kernel void
absent_lane<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void loop_with_simd_sum(device float* y [[buffer(0)]],
                               device const float* x [[buffer(1)]],
                               uint i [[thread_index_in_threadgroup]],
                               uint lane [[thread_index_in_simdgroup]]) {
    float sum = x[i];
    const uint rounds = correct ? 3 : 2 + lane / 16;
    for (uint round = 0; round < rounds; round++) {
        sum = simd_sum(sum) * 0.25f; // fault: loop_with_simd_sum
    }
    y[i] = sum;
}
template [[host_name("loop_with_simd_sum.broken")]] kernel void
loop_with_simd_sum<false>(device float*, device const float*, uint, uint);
template [[host_name("loop_with_simd_sum.correct")]] kernel void
loop_with_simd_sum<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void return_in_nested_loops(device float* y [[buffer(0)]],
                                   device const float* x [[buffer(1)]],
                                   uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    for (uint a = 0; a < 2; a++) {
        for (uint b = 0; b < 2; b++) {
            shared[i] = x[i] + float(a + b);
            if (!correct && a == 1 && b == 0 && i == 40) return;
            threadgroup_barrier(mem_flags::mem_threadgroup); // fault: return_in_nested_loops
            y[i] = shared[63 - i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}
template [[host_name("return_in_nested_loops.broken")]] kernel void
return_in_nested_loops<false>(device float*, device const float*, uint);
template [[host_name("return_in_nested_loops.correct")]] kernel void
return_in_nested_loops<true>(device float*, device const float*, uint);

template <bool correct>
kernel void barriers_of_a_switch(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    switch (correct ? 0 : i / 32) {
    case 0:
        threadgroup_barrier(mem_flags::mem_threadgroup); // fault: barriers_of_a_switch
        break;
    default:
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[64 + i] = 1.0f;
    }
    y[i] = shared[63 - i];
}
template [[host_name("barriers_of_a_switch.broken")]] kernel void
barriers_of_a_switch<false>(device float*, device const float*, uint);
template [[host_name("barriers_of_a_switch.correct")]] kernel void
barriers_of_a_switch<true>(device float*, device const float*, uint);

template <bool correct>
kernel void rounds_until_a_break(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    for (uint round = 0; round < 8; round++) {
        threadgroup_barrier(mem_flags::mem_threadgroup); // fault: rounds_until_a_break
        if (round == (correct ? 3 : i / 16)) break;
    }
    y[i] = shared[63 - i];
}
template [[host_name("rounds_until_a_break.broken")]] kernel void
rounds_until_a_break<false>(device float*, device const float*, uint);
template [[host_name("rounds_until_a_break.correct")]] kernel void
rounds_until_a_break<true>(device float*, device const float*, uint);

template <bool correct>
kernel void sum_in_a_conditional(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]]) {
    y[i] = correct || lane < 16 ? simd_sum(x[i]) : 0.0f; // fault: sum_in_a_conditional
}
template [[host_name("sum_in_a_conditional.broken")]] kernel void
sum_in_a_conditional<false>(device float*, device const float*, uint, uint);
template [[host_name("sum_in_a_conditional.correct")]] kernel void
sum_in_a_conditional<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void product_in_a_branch(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]]) {
    simdgroup_float8x8 a, sum(0.0f);
    simdgroup_load(a, x, 8);
    if (correct || lane < 16) simdgroup_multiply_accumulate(sum, a, a, sum); // fault: product_in_a_branch
    if (i < 32) simdgroup_store(sum, y, 8);
}
template [[host_name("product_in_a_branch.broken")]] kernel void
product_in_a_branch<false>(device float*, device const float*, uint, uint);
template [[host_name("product_in_a_branch.correct")]] kernel void
product_in_a_branch<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void tile_stored_by_some(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]]) {
    simdgroup_float8x8 tile;
    simdgroup_load(tile, x, 8);
    if (i < (correct ? 32 : 30)) simdgroup_store(tile, y, 8); // fault: tile_stored_by_some
}
template [[host_name("tile_stored_by_some.broken")]] kernel void
tile_stored_by_some<false>(device float*, device const float*, uint);
template [[host_name("tile_stored_by_some.correct")]] kernel void
tile_stored_by_some<true>(device float*, device const float*, uint);
