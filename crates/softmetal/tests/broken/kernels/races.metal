// Kernels that race, each with a twin that differs in one place: `correct`.
//
// The line where the checker must see the fault is marked.

#include <metal_stdlib>

using namespace metal;

template <bool correct>
kernel void missing_barrier(device float* y [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[63 - i]; // fault: missing_barrier
}
template [[host_name("missing_barrier.broken")]] kernel void
missing_barrier<false>(device float*, device const float*, uint);
template [[host_name("missing_barrier.correct")]] kernel void
missing_barrier<true>(device float*, device const float*, uint);

template <bool correct>
kernel void simdgroup_barrier_for_a_threadgroup(device float* y [[buffer(0)]],
                                                device const float* x [[buffer(1)]],
                                                uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    else simdgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[63 - i]; // fault: simdgroup_barrier_for_a_threadgroup
}
template [[host_name("simdgroup_barrier_for_a_threadgroup.broken")]] kernel void
simdgroup_barrier_for_a_threadgroup<false>(device float*, device const float*, uint);
template [[host_name("simdgroup_barrier_for_a_threadgroup.correct")]] kernel void
simdgroup_barrier_for_a_threadgroup<true>(device float*, device const float*, uint);

template <bool correct>
kernel void barrier_without_flag(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    shared[i] = x[i];
    threadgroup_barrier(correct ? mem_flags::mem_threadgroup : mem_flags::mem_none);
    y[i] = shared[63 - i]; // fault: barrier_without_flag
}
template [[host_name("barrier_without_flag.broken")]] kernel void
barrier_without_flag<false>(device float*, device const float*, uint);
template [[host_name("barrier_without_flag.correct")]] kernel void
barrier_without_flag<true>(device float*, device const float*, uint);

template <bool correct>
kernel void flag_of_other_memory(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]]) {
    y[i] = x[i];
    threadgroup_barrier(correct ? mem_flags::mem_device : mem_flags::mem_threadgroup);
    y[64 + i] = y[63 - i]; // fault: flag_of_other_memory
}
template [[host_name("flag_of_other_memory.broken")]] kernel void
flag_of_other_memory<false>(device float*, device const float*, uint);
template [[host_name("flag_of_other_memory.correct")]] kernel void
flag_of_other_memory<true>(device float*, device const float*, uint);

template <bool correct>
kernel void lockstep_only(device float* y [[buffer(0)]],
                          device const float* x [[buffer(1)]],
                          uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float shared[32];
    shared[lane] = x[lane];
    if (correct) simdgroup_barrier(mem_flags::mem_threadgroup);
    y[lane] = shared[31 - lane]; // fault: lockstep_only
}
template [[host_name("lockstep_only.broken")]] kernel void
lockstep_only<false>(device float*, device const float*, uint);
template [[host_name("lockstep_only.correct")]] kernel void
lockstep_only<true>(device float*, device const float*, uint);

template <bool correct>
kernel void sides_of_a_branch(device float* y [[buffer(0)]],
                              device const float* x [[buffer(1)]],
                              uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float shared[32];
    shared[lane] = 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (lane < 16) {
        shared[lane] = x[lane];
    } else {
        y[lane] = shared[correct ? lane : lane - 16]; // fault: sides_of_a_branch
    }
}
template [[host_name("sides_of_a_branch.broken")]] kernel void
sides_of_a_branch<false>(device float*, device const float*, uint);
template [[host_name("sides_of_a_branch.correct")]] kernel void
sides_of_a_branch<true>(device float*, device const float*, uint);

template <bool correct>
kernel void scratch_reused(device float* y [[buffer(0)]],
                           device const float* x [[buffer(1)]],
                           uint i [[thread_index_in_threadgroup]]) {
    threadgroup float scratch[64];
    scratch[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float other = scratch[63 - i];
    if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    scratch[i] = other; // fault: scratch_reused
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = scratch[63 - i];
}
template [[host_name("scratch_reused.broken")]] kernel void
scratch_reused<false>(device float*, device const float*, uint);
template [[host_name("scratch_reused.correct")]] kernel void
scratch_reused<true>(device float*, device const float*, uint);

template <bool correct>
kernel void partial_sums_unread(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]],
                                uint lane [[thread_index_in_simdgroup]],
                                uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    // The first simdgroup overwrites the partial sums while others still add them.
    threadgroup float partial[2];
    float total = 0.0f;
    for (uint round = 0; round < 2; round++) {
        const float sum = simd_sum(x[i] + float(round));
        if (lane == 0) partial[simdgroup] = sum; // fault: partial_sums_unread
        threadgroup_barrier(mem_flags::mem_threadgroup);
        total += partial[0] + partial[1];
        if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    y[i] = total;
}
template [[host_name("partial_sums_unread.broken")]] kernel void
partial_sums_unread<false>(device float*, device const float*, uint, uint, uint);
template [[host_name("partial_sums_unread.correct")]] kernel void
partial_sums_unread<true>(device float*, device const float*, uint, uint, uint);

template <bool correct>
kernel void threadgroups_write_one_place(device float* y [[buffer(0)]],
                                         device const float* x [[buffer(1)]],
                                         uint i [[thread_index_in_threadgroup]],
                                         uint group [[threadgroup_position_in_grid]]) {
    if (i == 0) y[correct ? group : 0] = x[group]; // fault: threadgroups_write_one_place
}
template [[host_name("threadgroups_write_one_place.broken")]] kernel void
threadgroups_write_one_place<false>(device float*, device const float*, uint, uint);
template [[host_name("threadgroups_write_one_place.correct")]] kernel void
threadgroups_write_one_place<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void threadgroup_reads_another(device float* y [[buffer(0)]],
                                      device const float* x [[buffer(1)]],
                                      uint i [[thread_index_in_threadgroup]],
                                      uint group [[threadgroup_position_in_grid]]) {
    // The last threadgroup sums what the others wrote, hoping that they are done.
    if (correct || group == 0) y[64 * group + i] = x[i];
    if (!correct && group == 1) y[64 + i] = y[i]; // fault: threadgroup_reads_another
}
template [[host_name("threadgroup_reads_another.broken")]] kernel void
threadgroup_reads_another<false>(device float*, device const float*, uint, uint);
template [[host_name("threadgroup_reads_another.correct")]] kernel void
threadgroup_reads_another<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void threads_write_one_place(device float* y [[buffer(0)]],
                                    device const float* x [[buffer(1)]],
                                    uint i [[thread_index_in_threadgroup]],
                                    uint lane [[thread_index_in_simdgroup]],
                                    uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    if (lane == 0) y[correct ? simdgroup : 0] = x[i] + float(simdgroup); // fault: threads_write_one_place
}
template [[host_name("threads_write_one_place.broken")]] kernel void
threads_write_one_place<false>(device float*, device const float*, uint, uint, uint);
template [[host_name("threads_write_one_place.correct")]] kernel void
threads_write_one_place<true>(device float*, device const float*, uint, uint, uint);

template <bool correct>
kernel void counter_without_atomics(device float* y [[buffer(0)]],
                                    device const float* x [[buffer(1)]],
                                    uint i [[thread_index_in_threadgroup]]) {
    threadgroup atomic_uint atomic_count;
    threadgroup uint count;
    if (i == 0) {
        count = 0;
        atomic_store_explicit(&atomic_count, 0u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (correct) atomic_fetch_add_explicit(&atomic_count, 1u, memory_order_relaxed);
    else count += 1; // fault: counter_without_atomics
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = float(atomic_load_explicit(&atomic_count, memory_order_relaxed));
}
template [[host_name("counter_without_atomics.broken")]] kernel void
counter_without_atomics<false>(device float*, device const float*, uint);
template [[host_name("counter_without_atomics.correct")]] kernel void
counter_without_atomics<true>(device float*, device const float*, uint);

template <bool correct>
kernel void same_value(device float* y [[buffer(0)]],
                       device const float* x [[buffer(1)]],
                       uint i [[thread_index_in_threadgroup]]) {
    threadgroup float flag[64];
    flag[correct ? i : 0] = 1.0f; // fault: same_value
    y[i] = x[i];
}
template [[host_name("same_value.broken")]] kernel void
same_value<false>(device float*, device const float*, uint);
template [[host_name("same_value.correct")]] kernel void
same_value<true>(device float*, device const float*, uint);
