// Kernels that go wrong with pointers and atomics, each with a twin that differs in one place: `correct`.
//
// The line where the checker must see the fault is marked.

#include <metal_stdlib>

using namespace metal;

struct Block {
    float scale[2];
    uchar quants[36];
};

template <bool correct>
kernel void pointer_to_another_thread(device float* y [[buffer(0)]],
                                      device const float* x [[buffer(1)]],
                                      uint i [[thread_index_in_threadgroup]]) {
    threadgroup ulong address[64];
    float own[4] = {x[i], 1.0f, 2.0f, 3.0f};
    address[i] = (ulong)&own[i % 4];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = *(thread float*)address[correct ? i : 63 - i]; // fault: pointer_to_another_thread
}
template [[host_name("pointer_to_another_thread.broken")]] kernel void
pointer_to_another_thread<false>(device float*, device const float*, uint);
template [[host_name("pointer_to_another_thread.correct")]] kernel void
pointer_to_another_thread<true>(device float*, device const float*, uint);

template <bool correct>
kernel void pointer_to_another_threadgroup(device float* y [[buffer(0)]],
                                           device const float* x [[buffer(1)]],
                                           uint i [[thread_index_in_threadgroup]],
                                           uint group [[threadgroup_position_in_grid]]) {
    // Threadgroup memory has the same addresses in every threadgroup, and other contents.
    threadgroup float shared[64];
    device ulong* address = (device ulong*)y;
    if (correct || group == 0) shared[i] = x[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 0) address[group] = (ulong)&shared[0];
    if (i == 0) y[8 + group] = *(threadgroup float*)address[correct ? group : 0]; // fault: pointer_to_another_threadgroup
}
template [[host_name("pointer_to_another_threadgroup.broken")]] kernel void
pointer_to_another_threadgroup<false>(device float*, device const float*, uint, uint);
template [[host_name("pointer_to_another_threadgroup.correct")]] kernel void
pointer_to_another_threadgroup<true>(device float*, device const float*, uint, uint);

template <bool correct>
kernel void misaligned_half2(device float* y [[buffer(0)]],
                             device const float* x [[buffer(1)]],
                             uint i [[thread_index_in_threadgroup]]) {
    device half* row = (device half*)y + 2 * i + (correct ? 0 : 1);
    *(device half2*)row = half2(half(x[i]), 1.0h); // fault: misaligned_half2
}
template [[host_name("misaligned_half2.broken")]] kernel void
misaligned_half2<false>(device float*, device const float*, uint);
template [[host_name("misaligned_half2.correct")]] kernel void
misaligned_half2<true>(device float*, device const float*, uint);

template <bool correct>
kernel void misaligned_atomic(device float* y [[buffer(0)]],
                              device const float* x [[buffer(1)]],
                              uint i [[thread_index_in_threadgroup]]) {
    device atomic_uint* count = (device atomic_uint*)((device char*)y + (correct ? 4 : 2));
    atomic_fetch_add_explicit(count, uint(x[i]), memory_order_relaxed); // fault: misaligned_atomic
}
template [[host_name("misaligned_atomic.broken")]] kernel void
misaligned_atomic<false>(device float*, device const float*, uint);
template [[host_name("misaligned_atomic.correct")]] kernel void
misaligned_atomic<true>(device float*, device const float*, uint);

template <bool correct>
kernel void plain_read_of_an_atomic(device float* y [[buffer(0)]],
                                    device const float* x [[buffer(1)]],
                                    uint i [[thread_index_in_threadgroup]]) {
    threadgroup atomic_uint count;
    if (i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&count, uint(x[i]), memory_order_relaxed);
    if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = float(*(threadgroup uint*)&count); // fault: plain_read_of_an_atomic
}
template [[host_name("plain_read_of_an_atomic.broken")]] kernel void
plain_read_of_an_atomic<false>(device float*, device const float*, uint);
template [[host_name("plain_read_of_an_atomic.correct")]] kernel void
plain_read_of_an_atomic<true>(device float*, device const float*, uint);

template <bool correct>
kernel void plain_read_by_the_last_writer(device float* y [[buffer(0)]],
                                          device const float* x [[buffer(1)]],
                                          uint i [[thread_index_in_threadgroup]]) {
    threadgroup atomic_uint count;
    if (i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&count, uint(x[i]), memory_order_relaxed);
    if (correct) threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i == 63) y[i] = float(*(threadgroup uint*)&count); // fault: plain_read_by_the_last_writer
}
template [[host_name("plain_read_by_the_last_writer.broken")]] kernel void
plain_read_by_the_last_writer<false>(device float*, device const float*, uint);
template [[host_name("plain_read_by_the_last_writer.correct")]] kernel void
plain_read_by_the_last_writer<true>(device float*, device const float*, uint);

template <bool correct>
kernel void atomic_without_a_start(device float* y [[buffer(0)]],
                                   device const float* x [[buffer(1)]],
                                   uint i [[thread_index_in_threadgroup]]) {
    threadgroup atomic_uint count;
    if (correct && i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    atomic_fetch_add_explicit(&count, uint(x[i]), memory_order_relaxed); // fault: atomic_without_a_start
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y[i] = float(atomic_load_explicit(&count, memory_order_relaxed));
}
template [[host_name("atomic_without_a_start.broken")]] kernel void
atomic_without_a_start<false>(device float*, device const float*, uint);
template [[host_name("atomic_without_a_start.correct")]] kernel void
atomic_without_a_start<true>(device float*, device const float*, uint);

template <bool correct>
kernel void element_before_the_first(device float* y [[buffer(0)]],
                                     device const float* x [[buffer(1)]],
                                     uint i [[thread_index_in_threadgroup]]) {
    y[int(i) - (correct ? 0 : 1)] = x[i]; // fault: element_before_the_first
}
template [[host_name("element_before_the_first.broken")]] kernel void
element_before_the_first<false>(device float*, device const float*, uint);
template [[host_name("element_before_the_first.correct")]] kernel void
element_before_the_first<true>(device float*, device const float*, uint);

template <bool correct>
kernel void product_beyond_64_bits(device float* y [[buffer(0)]],
                                   device const float* x [[buffer(1)]],
                                   uint i [[thread_index_in_threadgroup]]) {
    const ulong stride = correct ? 1ul : 1ul << 60;
    y[i * stride] = x[i]; // fault: product_beyond_64_bits
}
template [[host_name("product_beyond_64_bits.broken")]] kernel void
product_beyond_64_bits<false>(device float*, device const float*, uint);
template [[host_name("product_beyond_64_bits.correct")]] kernel void
product_beyond_64_bits<true>(device float*, device const float*, uint);

template <bool correct>
kernel void block_across_the_end(device float* y [[buffer(0)]],
                                 device const float* x [[buffer(1)]],
                                 uint i [[thread_index_in_threadgroup]]) {
    const Block block = ((device const Block*)x)[correct ? 4 : 5]; // fault: block_across_the_end
    y[i] = block.scale[i % 2] + float(block.quants[i % 36]);
}
template [[host_name("block_across_the_end.broken")]] kernel void
block_across_the_end<false>(device float*, device const float*, uint);
template [[host_name("block_across_the_end.correct")]] kernel void
block_across_the_end<true>(device float*, device const float*, uint);

template <bool correct>
kernel void matrix_across_the_end(device float* y [[buffer(0)]],
                                  device const float* x [[buffer(1)]],
                                  uint i [[thread_index_in_threadgroup]]) {
    simdgroup_float8x8 tile;
    simdgroup_load(tile, x + (correct ? 0 : 8), 8); // fault: matrix_across_the_end
    simdgroup_store(tile, y, 8);
    if (i == 0) y[64] = 1.0f;
}
template [[host_name("matrix_across_the_end.broken")]] kernel void
matrix_across_the_end<false>(device float*, device const float*, uint);
template [[host_name("matrix_across_the_end.correct")]] kernel void
matrix_across_the_end<true>(device float*, device const float*, uint);

template <bool correct>
kernel void component_of_a_misaligned_vector(device float* y [[buffer(0)]],
                                             device const float* x [[buffer(1)]],
                                             uint i [[thread_index_in_threadgroup]]) {
    // One component is all that is loaded.
    y[i] = ((device const float4*)(x + (correct ? 0 : 1)))[i % 8].y; // fault: component_of_a_misaligned_vector
}
template [[host_name("component_of_a_misaligned_vector.broken")]] kernel void
component_of_a_misaligned_vector<false>(device float*, device const float*, uint);
template [[host_name("component_of_a_misaligned_vector.correct")]] kernel void
component_of_a_misaligned_vector<true>(device float*, device const float*, uint);

template <bool correct>
kernel void misaligned_vector_in_threadgroup_memory(device float* y [[buffer(0)]],
                                                    device const float* x [[buffer(1)]],
                                                    uint i [[thread_index_in_threadgroup]]) {
    threadgroup float shared[72];
    shared[i] = x[i];
    if (i < 8) shared[64 + i] = 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup const float3* row = (threadgroup const float3*)(shared + (correct ? 4 : 2) * (i % 16));
    y[i] = (*row).z; // fault: misaligned_vector_in_threadgroup_memory
}
template [[host_name("misaligned_vector_in_threadgroup_memory.broken")]] kernel void
misaligned_vector_in_threadgroup_memory<false>(device float*, device const float*, uint);
template [[host_name("misaligned_vector_in_threadgroup_memory.correct")]] kernel void
misaligned_vector_in_threadgroup_memory<true>(device float*, device const float*, uint);
