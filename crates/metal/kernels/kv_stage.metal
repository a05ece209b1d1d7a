// Cells of a packed region to f32, as attention reads them.

#include <metal_stdlib>
#include "arguments.h"
#include "kv_cells.h"

using namespace metal;

/// Row `r` of `y` is cell `r`, both from where they are bound; a thread takes four features. A scale of 11 bits times a
/// level of 8 is a float without rounding.
kernel void kv_stage_q8_0(constant KvStage& args [[buffer(0)]],
                          device float4* y [[buffer(1)]],
                          device const uchar* cells [[buffer(2)]],
                          uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x;
    if (i < args.vectors) {
        device const uchar* cell = cells + ulong(position.y) * args.cell_bytes;
        y[ulong(position.y) * args.vectors + i] = KvQ8_0::four_at(cell, 4 * i);
    }
}
