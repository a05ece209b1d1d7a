// Keys or values into the cells of a region. The host has checked the cells.

#include <metal_stdlib>
#include "arguments.h"
#include "kv_cells.h"

using namespace metal;

/// Where row `row` goes.
device uchar* cell_of(device uchar* region, device const int* cells, uint row, uint cell_bytes) {
    return region + ulong(cells[row]) * cell_bytes;
}

/// Cells of floats; a thread stores one feature.
template <typename Cells>
kernel void kv_store(constant KvStore& args [[buffer(0)]],
                     device uchar* region [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const int* cells [[buffer(3)]],
                     uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x;
    if (i >= args.width) {
        return;
    }
    device uchar* cell = cell_of(region, cells, position.y, args.cell_bytes);
    Cells::put(cell, i, x[ulong(position.y) * args.x_stride + i]);
}

typedef decltype(kv_store<KvF32>) kv_store_kernel;
template [[host_name("kv_store_f32")]] kernel kv_store_kernel kv_store<KvF32>;
template [[host_name("kv_store_f16")]] kernel kv_store_kernel kv_store<KvF16>;

/// Cells of `Q8_0` blocks, an f16 scale and 32 levels each; a simdgroup stores one block. The host sees to it that
/// rows and threadgroups are multiples of 32 wide, and the grid as wide as a row.
kernel void kv_store_q8_0(constant KvStore& args [[buffer(0)]],
                          device uchar* region [[buffer(1)]],
                          device const float* x [[buffer(2)]],
                          device const int* cells [[buffer(3)]],
                          uint2 position [[thread_position_in_grid]]) {
    const float value = x[ulong(position.y) * args.x_stride + position.x];
    device uchar* cell = cell_of(region, cells, position.y, args.cell_bytes);
    device uchar* block = cell + KvQ8_0::bytes(position.x / 32 * 32);
    KvQ8_0::put_block(block, position.x % 32, value);
}
