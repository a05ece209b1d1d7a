// Kernels that go wrong in what belongs to one thread, each with a twin that differs in one place: `correct`.
//
// The line where the checker must see the fault is marked.

#include <metal_stdlib>

using namespace metal;

constant float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};

/// Not a loop in disguise: each call needs its own array.
template <uint depth> float nested(uint n, device const float* x) {
    float values[16];
    for (uint j = 0; j < 16; j++) values[j] = x[(n + j) % 64]; // fault: deep_recursion
    if (n < depth) values[n % 16] += nested<depth>(n + 1, x);
    return values[n % 16] - values[(n + 1) % 16];
}

template <bool correct>
kernel void index_of_a_private_array(device float* y [[buffer(0)]],
                                     device const float* x [[buffer(1)]],
                                     uint i [[thread_index_in_threadgroup]]) {
    float values[8];
    for (uint j = 0; j < 8; j++) values[j] = x[i] + float(j);
    y[i] = values[i % (correct ? 8 : 9)]; // fault: index_of_a_private_array
}
template [[host_name("index_of_a_private_array.broken")]] kernel void
index_of_a_private_array<false>(device float*, device const float*, uint);
template [[host_name("index_of_a_private_array.correct")]] kernel void
index_of_a_private_array<true>(device float*, device const float*, uint);

template <bool correct>
kernel void loop_over_a_private_array(device float* y [[buffer(0)]],
                                      device const float* x [[buffer(1)]],
                                      uint i [[thread_index_in_threadgroup]]) {
    float values[8];
    for (uint j = 0; correct ? j < 8 : j <= 8; j++) values[j] = x[j]; // fault: loop_over_a_private_array
    y[i] = values[i % 8];
}
template [[host_name("loop_over_a_private_array.broken")]] kernel void
loop_over_a_private_array<false>(device float*, device const float*, uint);
template [[host_name("loop_over_a_private_array.correct")]] kernel void
loop_over_a_private_array<true>(device float*, device const float*, uint);

template <bool correct>
kernel void pointer_into_a_private_array(device float* y [[buffer(0)]],
                                         device const float* x [[buffer(1)]],
                                         uint i [[thread_index_in_threadgroup]]) {
    float values[8];
    for (uint j = 0; j < 8; j++) values[j] = x[i] + float(j);
    thread const float* row = values + 4;
    y[i] = row[i % (correct ? 4 : 5)]; // fault: pointer_into_a_private_array
}
template [[host_name("pointer_into_a_private_array.broken")]] kernel void
pointer_into_a_private_array<false>(device float*, device const float*, uint);
template [[host_name("pointer_into_a_private_array.correct")]] kernel void
pointer_into_a_private_array<true>(device float*, device const float*, uint);

template <bool correct>
kernel void negative_index(device float* y [[buffer(0)]],
                           device const float* x [[buffer(1)]],
                           uint i [[thread_index_in_threadgroup]]) {
    float values[8];
    for (uint j = 0; j < 8; j++) values[j] = x[i] + float(j);
    const int at = int(i % 8) - (correct ? 0 : 1);
    y[i] = values[at]; // fault: negative_index
}
template [[host_name("negative_index.broken")]] kernel void
negative_index<false>(device float*, device const float*, uint);
template [[host_name("negative_index.correct")]] kernel void
negative_index<true>(device float*, device const float*, uint);

template <bool correct>
kernel void index_of_a_constant_table(device float* y [[buffer(0)]],
                                      device const float* x [[buffer(1)]],
                                      uint i [[thread_index_in_threadgroup]]) {
    y[i] = table[i % (correct ? 4 : 5)] + x[i]; // fault: index_of_a_constant_table
}
template [[host_name("index_of_a_constant_table.broken")]] kernel void
index_of_a_constant_table<false>(device float*, device const float*, uint);
template [[host_name("index_of_a_constant_table.correct")]] kernel void
index_of_a_constant_table<true>(device float*, device const float*, uint);

template <bool correct>
kernel void pointer_into_a_constant_table(device float* y [[buffer(0)]],
                                          device const float* x [[buffer(1)]],
                                          uint i [[thread_index_in_threadgroup]]) {
    constant float* row = table + 2;
    y[i] = row[i % (correct ? 2 : 3)] + x[i]; // fault: pointer_into_a_constant_table
}
template [[host_name("pointer_into_a_constant_table.broken")]] kernel void
pointer_into_a_constant_table<false>(device float*, device const float*, uint);
template [[host_name("pointer_into_a_constant_table.correct")]] kernel void
pointer_into_a_constant_table<true>(device float*, device const float*, uint);

template <bool correct>
kernel void write_to_a_constant(device float* y [[buffer(0)]],
                                device const float* x [[buffer(1)]],
                                uint i [[thread_index_in_threadgroup]]) {
    float own[4] = {0.0f, 0.0f, 0.0f, 0.0f}, other[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    thread float* target = i % 2 == 0 ? own : correct ? other : (thread float*)table;
    target[i % 4] = x[i]; // fault: write_to_a_constant
    y[i] = target[i % 4];
}
template [[host_name("write_to_a_constant.broken")]] kernel void
write_to_a_constant<false>(device float*, device const float*, uint);
template [[host_name("write_to_a_constant.correct")]] kernel void
write_to_a_constant<true>(device float*, device const float*, uint);

template <bool correct>
kernel void quotient_overflow(device float* y [[buffer(0)]],
                              device const float* x [[buffer(1)]],
                              uint i [[thread_index_in_threadgroup]]) {
    const int least = -2147483647 - (i == 3 && !correct ? 1 : 0);
    const int divisor = int(x[i]) - 4;
    y[i] = divisor == 0 ? 0.0f : float(least / divisor); // fault: quotient_overflow
}
template [[host_name("quotient_overflow.broken")]] kernel void
quotient_overflow<false>(device float*, device const float*, uint);
template [[host_name("quotient_overflow.correct")]] kernel void
quotient_overflow<true>(device float*, device const float*, uint);

template <bool correct>
kernel void remainder_overflow(device float* y [[buffer(0)]],
                               device const float* x [[buffer(1)]],
                               uint i [[thread_index_in_threadgroup]]) {
    const int least = -2147483647 - (i == 3 && !correct ? 1 : 0);
    const int divisor = int(x[i]) - 4;
    y[i] = divisor == 0 ? 0.0f : float(least % divisor); // fault: remainder_overflow
}
template [[host_name("remainder_overflow.broken")]] kernel void
remainder_overflow<false>(device float*, device const float*, uint);
template [[host_name("remainder_overflow.correct")]] kernel void
remainder_overflow<true>(device float*, device const float*, uint);

template <bool correct>
kernel void deep_recursion(device float* y [[buffer(0)]],
                           device const float* x [[buffer(1)]],
                           uint i [[thread_index_in_threadgroup]]) {
    y[i] = nested<correct ? 8 : 1 << 20>(i, x);
}
template [[host_name("deep_recursion.broken")]] kernel void
deep_recursion<false>(device float*, device const float*, uint);
template [[host_name("deep_recursion.correct")]] kernel void
deep_recursion<true>(device float*, device const float*, uint);
