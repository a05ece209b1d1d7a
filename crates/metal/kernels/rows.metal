// Rows by index, of an activation or of a weight. The host has checked the indices.

#include <metal_stdlib>
#include "arguments.h"
#include "blocks.h"

using namespace metal;

constant bool vectorized [[function_constant(0)]];

/// `y[r] = x[indices[r]]`; a thread copies four features.
kernel void get_rows(constant GetRows& args [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const int* indices [[buffer(3)]],
                     uint2 position [[thread_position_in_grid]]) {
    const uint first = 4 * position.x;
    if (first >= args.width) {
        return;
    }
    device const float* from = x + ulong(indices[position.y]) * args.x_stride + first;
    device float* to = y + ulong(position.y) * args.y_stride + first;
    const uint count = args.width - first;
    if (vectorized && count >= 4) {
        *(device float4*)to = *(device const float4*)from;
        return;
    }
    for (uint i = 0; i < min(count, 4u); i++) {
        to[i] = from[i];
    }
}

/// `y[r] = table[indices[r]]`, dequantized; a thread computes one feature.
template <typename Block>
kernel void embed(constant Embed& args [[buffer(0)]],
                  device float* y [[buffer(1)]],
                  device const uchar* table [[buffer(2)]],
                  device const int* indices [[buffer(3)]],
                  uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x;
    if (i >= args.width) {
        return;
    }
    device const uchar* row = table + ulong(indices[position.y]) * args.row_bytes;
    device const uchar* block = row + ulong(i / Block::elements) * Block::bytes;
    y[ulong(position.y) * args.y_stride + i] = Block::at(block, i % Block::elements);
}

typedef decltype(embed<F32>) embed_kernel;
template [[host_name("embed_f32")]] kernel embed_kernel embed<F32>;
template [[host_name("embed_f16")]] kernel embed_kernel embed<F16>;
template [[host_name("embed_bf16")]] kernel embed_kernel embed<BF16>;
template [[host_name("embed_q4_0")]] kernel embed_kernel embed<Q4_0>;
template [[host_name("embed_q4_1")]] kernel embed_kernel embed<Q4_1>;
template [[host_name("embed_q5_0")]] kernel embed_kernel embed<Q5_0>;
template [[host_name("embed_q5_1")]] kernel embed_kernel embed<Q5_1>;
template [[host_name("embed_q8_0")]] kernel embed_kernel embed<Q8_0>;
template [[host_name("embed_q4_k")]] kernel embed_kernel embed<Q4_K>;
template [[host_name("embed_q5_k")]] kernel embed_kernel embed<Q5_K>;
template [[host_name("embed_q6_k")]] kernel embed_kernel embed<Q6_K>;
