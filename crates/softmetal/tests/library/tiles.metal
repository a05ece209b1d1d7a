// A product of matrices by tiles, as prefill kernels do it: 4 simdgroups make a 32x32 tile from tiles of
// depth 16 in threadgroup memory, and write it through threadgroup memory where it sticks out.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>

using namespace metal;

constant uint TILE = 32;
constant uint DEPTH = 16;
constant uint THREADS = 128;

/// `c = a * b`; `a` is `m` by `k`, `b` is `k` by `n`, rows are contiguous.
kernel void product(device float* c [[buffer(0)]],
                    device const float* a [[buffer(1)]],
                    device const float* b [[buffer(2)]],
                    constant uint3& size [[buffer(3)]],
                    threadgroup half* memory [[threadgroup(0)]],
                    uint2 group [[threadgroup_position_in_grid]],
                    ushort thread_index [[thread_index_in_threadgroup]],
                    ushort simdgroup [[simdgroup_index_in_threadgroup]]) {
    const uint m = size.x, n = size.y, k = size.z;
    threadgroup half* tile_a = memory;
    threadgroup half* tile_b = memory + TILE * DEPTH;
    const uint row = group.y * TILE, column = group.x * TILE;
    simdgroup_float8x8 sums[4];
    for (short i = 0; i < 4; i++) sums[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);

    for (uint start = 0; start < k; start += DEPTH) {
        for (uint i = thread_index; i < TILE * DEPTH; i += THREADS) {
            const uint y = row + i / DEPTH, x = start + i % DEPTH;
            tile_a[i] = y < m && x < k ? half(a[y * k + x]) : half(0.0f);
        }
        for (uint i = thread_index; i < DEPTH * TILE; i += THREADS) {
            const uint y = start + i / TILE, x = column + i % TILE;
            tile_b[i] = y < k && x < n ? half(b[y * n + x]) : half(0.0f);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 0; step < DEPTH; step += 8) {
            simdgroup_half8x8 left, right;
            simdgroup_load(left, tile_a + 8 * simdgroup * DEPTH + step, DEPTH);
#pragma unroll
            for (short i = 0; i < 4; i++) {
                simdgroup_load(right, tile_b + step * TILE + 8 * i, TILE);
                simdgroup_multiply_accumulate(sums[i], left, right, sums[i]);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }

    if (row + TILE <= m && column + TILE <= n) {
        for (short i = 0; i < 4; i++) {
            simdgroup_store(sums[i], c + (row + 8 * simdgroup) * n + column + 8 * i, n);
        }
        return;
    }
    threadgroup float* whole = (threadgroup float*)memory;
    for (short i = 0; i < 4; i++) {
        simdgroup_store(sums[i], whole + 8 * simdgroup * TILE + 8 * i, TILE);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < TILE * TILE; i += THREADS) {
        const uint y = row + i / TILE, x = column + i % TILE;
        if (y < m && x < n) c[y * n + x] = whole[i];
    }
}
