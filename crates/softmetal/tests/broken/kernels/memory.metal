// Kernels that touch memory they must not, each with a twin that differs in one place: `correct`.
//
// The line where the checker must see the fault is marked.

#include <metal_stdlib>

using namespace metal;

template <bool correct>
kernel void tail_off_by_one(device float* y [[buffer(0)]],
                            device const float* x [[buffer(1)]],
                            uint t [[thread_position_in_grid]]) {
    if (correct ? t < 33 : t <= 33) y[t] = 1.0f; // fault: tail_off_by_one
}
template [[host_name("tail_off_by_one.broken")]] kernel void
tail_off_by_one<false>(device float*, device const float*, uint);
template [[host_name("tail_off_by_one.correct")]] kernel void
tail_off_by_one<true>(device float*, device const float*, uint);

template <bool correct>
kernel void unguarded_load(device float* y [[buffer(0)]],
                           device const float* x [[buffer(1)]],
                           uint t [[thread_position_in_grid]]) {
    // The value of a thread past the end is dropped, its load is not.
    float value = 0.0f;
    if (!correct || t < 33) value = x[t]; // fault: unguarded_load
    if (t < 33) y[t] = value;
}
template [[host_name("unguarded_load.broken")]] kernel void
unguarded_load<false>(device float*, device const float*, uint);
template [[host_name("unguarded_load.correct")]] kernel void
unguarded_load<true>(device float*, device const float*, uint);

template <bool correct>
kernel void array_for_fewer_simdgroups(device float* y [[buffer(0)]],
                                       device const float* x [[buffer(1)]],
                                       uint i [[thread_index_in_threadgroup]],
                                       uint lane [[thread_index_in_simdgroup]],
                                       uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    threadgroup float partial[correct ? 32 : 1];
    const float sum = simd_sum(x[i]);
    if (lane == 0) partial[simdgroup] = sum; // fault: array_for_fewer_simdgroups
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 0) y[0] = partial[0];
}
template [[host_name("array_for_fewer_simdgroups.broken")]] kernel void
array_for_fewer_simdgroups<false>(device float*, device const float*, uint, uint, uint);
template [[host_name("array_for_fewer_simdgroups.correct")]] kernel void
array_for_fewer_simdgroups<true>(device float*, device const float*, uint, uint, uint);

template <bool correct>
kernel void uninitialized(device float* y [[buffer(0)]],
                          device const float* x [[buffer(1)]],
                          uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[64];
    if (correct || i < 32) shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[i]; // fault: uninitialized
}
template [[host_name("uninitialized.broken")]] kernel void
uninitialized<false>(device float*, device const float*, uint);
template [[host_name("uninitialized.correct")]] kernel void
uninitialized<true>(device float*, device const float*, uint);

template <bool correct>
kernel void kept_from_another_threadgroup(device float* y [[buffer(0)]],
                                          device const float* x [[buffer(1)]],
                                          uint i [[thread_index_in_threadgroup]],
                                          uint group [[threadgroup_position_in_grid]]) {
    // Threadgroup memory does not outlive a threadgroup.
    threadgroup float shared[64];
    if (correct || group == 0) shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[64 * group + i] = shared[i]; // fault: kept_from_another_threadgroup
}
template [[host_name("kept_from_another_threadgroup.broken")]] kernel void
kept_from_another_threadgroup<false>(device float*, device const float*, uint, uint);
template [[host_name("kept_from_another_threadgroup.correct")]] kernel void
kept_from_another_threadgroup<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void misaligned_vector(device float* y [[buffer(0)]],
                              device const float* x [[buffer(1)]],
                              uint i [[thread_index_in_threadgroup]]) {
    device const float* row = x + (correct ? 4 : 3) * i;
    const float4 value = *(device const float4*)row; // fault: misaligned_vector
    y[i] = value.x + value.y + value.z + value.w;
}
template [[host_name("misaligned_vector.broken")]] kernel void
misaligned_vector<false>(device float*, device const float*, uint);
template [[host_name("misaligned_vector.correct")]] kernel void
misaligned_vector<true>(device float*, device const float*, uint);

template <bool correct>
kernel void index_overflow(device float* y [[buffer(0)]],
                           device const float* x [[buffer(1)]],
                           uint i [[thread_index_in_threadgroup]]) {
    // 2^30 rows of 4 elements: the 32-bit product wraps to a negative number.
    const int row = i == 0 ? 0 : -(1 << 29);
    const int wrapped = row * 5;
    y[correct ? long(i) : long(wrapped)] = x[i]; // fault: index_overflow
}
template [[host_name("index_overflow.broken")]] kernel void
index_overflow<false>(device float*, device const float*, uint);
template [[host_name("index_overflow.correct")]] kernel void
index_overflow<true>(device float*, device const float*, uint);

template <bool correct>
kernel void write_through_const(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]]) {
    device float* target = correct ? y : (device float*)x;
    target[i] = 1.0f; // fault: write_through_const
}
template [[host_name("write_through_const.broken")]] kernel void
write_through_const<false>(device float*, device const float*, uint);
template [[host_name("write_through_const.correct")]] kernel void
write_through_const<true>(device float*, device const float*, uint);

template <bool correct>
kernel void division_by_zero(device float* y [[buffer(0)]],
                             device const float* x [[buffer(1)]],
                             uint i [[thread_index_in_threadgroup]]) {
    const uint heads = uint(x[i]) + (correct ? 1 : 0);
    y[i] = float(i / heads); // fault: division_by_zero
}
template [[host_name("division_by_zero.broken")]] kernel void
division_by_zero<false>(device float*, device const float*, uint);
template [[host_name("division_by_zero.correct")]] kernel void
division_by_zero<true>(device float*, device const float*, uint);

template <bool correct>
kernel void shift_by_the_width(device float* y [[buffer(0)]],
                               device const float* x [[buffer(1)]],
                               uint i [[thread_index_in_threadgroup]]) {
    const uint count = correct ? i % 32 : i;
    y[i] = x[i] * float(1u << count); // fault: shift_by_the_width
}
template [[host_name("shift_by_the_width.broken")]] kernel void
shift_by_the_width<false>(device float*, device const float*, uint);
template [[host_name("shift_by_the_width.correct")]] kernel void
shift_by_the_width<true>(device float*, device const float*, uint);

template <bool correct>
kernel void wide_vector(device float* y [[buffer(0)]],
                        device const float* x [[buffer(1)]],
                        uint i [[thread_index_in_threadgroup]]) {
    device long4* all = (device long4*)y;
    all[correct ? i : i + 1] = long4(long(x[i])); // fault: wide_vector
}
template [[host_name("wide_vector.broken")]] kernel void
wide_vector<false>(device float*, device const float*, uint);
template [[host_name("wide_vector.correct")]] kernel void
wide_vector<true>(device float*, device const float*, uint);

template <bool correct>
kernel void too_much_threadgroup_memory(device float* y [[buffer(0)]],
                                        device const float* x [[buffer(1)]],
                                        uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[correct ? 8192 : 8193]; // fault: too_much_threadgroup_memory
    shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = shared[i];
}
template [[host_name("too_much_threadgroup_memory.broken")]] kernel void
too_much_threadgroup_memory<false>(device float*, device const float*, uint);
template [[host_name("too_much_threadgroup_memory.correct")]] kernel void
too_much_threadgroup_memory<true>(device float*, device const float*, uint);
